"""Penalties of rules, under ASGI and WSGI, in every kind of store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from ratelimit_middleware.algorithms.penalty import Strike
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Decision, Verdict
from ratelimit_middleware.errors import StoreUnavailableError
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import WsgiView
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.stores.redis import RedisStore
from ratelimit_middleware.stores.shared import SharedStore
from tests.awaited import AwaitedStore
from tests.conftest import Ask

pytestmark = pytest.mark.anyio

Limited = Callable[..., Ask]

PENALTY = {"after": 3, "block": ["1m", "5m"]}
LOGIN = {"limit": "2/10s", "penalty": PENALTY, "name": "login"}


def rules(login: Mapping[str, Any] = LOGIN, **more: Any) -> dict[str, Any]:
    return {"limits": {"/login": login}, **more}


async def waits(ask: Ask, times: int, path: str = "/login", **how: Any) -> list[int]:
    """The `Retry-After` of each answer; 0 for what passes."""
    answers = [await ask(path, **how) for _ in range(times)]
    return [int(answer.headers.get("retry-after", "0")) for answer in answers]


async def test_the_refusal_that_begins_the_block_tells_its_end(limited: Limited) -> None:
    assert await waits(limited(rules()), 7) == [0, 0, 10, 10, 60, 60, 60]


async def test_a_blocked_client_hears_why(limited: Limited) -> None:
    ask = limited(rules())
    await waits(ask, 5)
    blocked = await ask("/login", accept="text/plain")
    assert blocked.status_code == 429
    assert blocked.text == "Quota exceeded. The limit of 3 refusals in a row is reached; try again in 60 s.\n"
    assert blocked.headers["ratelimit"] == '"login-penalty";r=0;t=60'


async def test_nobody_sees_a_penalty_that_does_not_block(limited: Limited) -> None:
    response = await limited(rules())("/login")
    assert response.headers["ratelimit-policy"] == '"login";q=2;w=10'


async def test_who_waits_as_told_is_admitted(limited: Limited, clock: ManualClock) -> None:
    ask = limited(rules())
    (*_, wait_s) = await waits(ask, 6)
    clock.advance(wait_s)
    assert await waits(ask, 1) == [0]


async def test_knocking_during_the_block_does_not_make_it_longer(
    limited: Limited, clock: ManualClock
) -> None:
    ask = limited(rules())
    await waits(ask, 5)
    for left_s in (60, 40, 20):
        assert await waits(ask, 20) == [left_s] * 20
        clock.advance(20)
    assert await waits(ask, 1) == [0]


async def test_the_second_block_is_longer_and_a_quiet_time_forgets_it(
    limited: Limited, clock: ManualClock
) -> None:
    ask = limited(rules())
    await waits(ask, 5)
    clock.advance(60)
    assert (await waits(ask, 5))[-1] == 300
    clock.advance(300 + 300)
    assert (await waits(ask, 5))[-1] == 60


async def test_an_admitted_request_begins_the_row_anew(limited: Limited, clock: ManualClock) -> None:
    ask = limited(rules())
    for _ in range(3):
        assert max(await waits(ask, 4)) == 10
        clock.advance(10)


async def test_only_the_client_is_blocked_and_only_by_that_rule(limited: Limited) -> None:
    ask = limited(rules(default="9/minute"))
    await waits(ask, 5)
    assert await waits(ask, 2, peer="192.0.2.2") == [0, 0]
    assert await waits(ask, 2, "/other") == [0, 0]


async def test_refusals_by_another_rule_do_not_count(limited: Limited, clock: ManualClock) -> None:
    login = {**LOGIN, "limit": "50/10s"}
    ask = limited(rules(login, always="1/10s"))
    assert await waits(ask, 8) == [0, 10, 10, 10, 10, 10, 10, 10]
    clock.advance(10)
    assert await waits(ask, 1) == [0]


async def test_a_blocked_client_takes_nothing_from_other_limits(limited: Limited, clock: ManualClock) -> None:
    ask = limited(rules(always="8/hour per global"))
    await waits(ask, 50)
    assert await waits(ask, 6, "/other", peer="192.0.2.2") == [0] * 6


async def test_the_exempt_are_not_blocked(limited: Limited) -> None:
    ask = limited(rules(exempt={"headers": {"x-internal": "token"}}))
    await waits(ask, 5)
    assert await waits(ask, 3, x_internal="token") == [0] * 3


async def test_whom_the_first_limit_does_not_count_is_not_blocked(limited: Limited) -> None:
    login = {**LOGIN, "limit": ["2/10s", "4/20s"], "overrides": {"192.0.2.1": "unlimited"}}
    ask = limited(rules(login))
    assert await waits(ask, 9) == [0, 0, 0, 0, 20, 20, 20, 20, 20]
    assert await waits(ask, 6, peer="192.0.2.2") == [0, 0, 10, 10, 60, 60]


async def test_the_answer_to_the_blocked_is_the_one_of_the_rule(limited: Limited) -> None:
    ask = limited(rules({**LOGIN, "response": {"status": 503, "detail": "Go home."}}))
    await waits(ask, 5)
    response = await ask("/login")
    assert (response.status_code, response.json()["detail"]) == (503, "Go home.")


async def test_refusals_of_all_limits_of_a_rule_count(limited: Limited) -> None:
    login = {**LOGIN, "limit": ["2/10s per ip", "9/hour per global"]}
    assert (await waits(limited(rules(login)), 5))[-1] == 60


@pytest.fixture(params=["memory", "shared", "redis"])
def store(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path
) -> Iterator[MemoryStore | SharedStore | RedisStore]:
    """One that workers share, of each kind."""
    store: MemoryStore | SharedStore | RedisStore
    if request.param == "memory":
        store = MemoryStore(clock=clock)
    elif request.param == "shared":
        store = SharedStore(tmp_path, clock=clock)
    else:
        url = request.getfixturevalue("redis_server").url
        store = RedisStore(url, prefix=f"{request.node.name}:", clock=clock)
    yield store
    store.close()


def test_workers_that_share_a_store_agree(store: MemoryStore | SharedStore | RedisStore) -> None:
    ruleset = load_rules(rules())
    workers = [LimiterRegistry(ruleset, store) for _ in range(2)]
    view = WsgiView({"PATH_INFO": "/login", "REMOTE_ADDR": "192.0.2.1"})
    verdicts = [workers[number % 2].admit(view) for number in range(8)]
    waits_ns = [verdict.retry_after_ns or 0 for verdict in verdicts]
    assert waits_ns == [0, 0, *[10 * 10**9] * 2, *[60 * 10**9] * 4]


@pytest.fixture
def awaiting(clock: ManualClock) -> LimiterRegistry:
    """A registry whose store must be awaited."""
    return LimiterRegistry(load_rules(rules()), AwaitedStore(MemoryStore(clock=clock)))


async def test_a_store_that_must_be_awaited_counts_alike(awaiting: LimiterRegistry) -> None:
    view = WsgiView({"PATH_INFO": "/login", "REMOTE_ADDR": "192.0.2.1"})
    waits_ns = [(await awaiting.admit_async(view)).retry_after_ns or 0 for _ in range(6)]
    assert waits_ns == [0, 0, *[10 * 10**9] * 2, *[60 * 10**9] * 2]


def test_an_admitted_request_asks_the_store_once_and_a_refused_one_twice(clock: ManualClock) -> None:
    class Counting(MemoryStore):
        calls = 0

        def take(self, checks: Any) -> Any:
            self.calls += 1
            return super().take(checks)

    store = Counting(clock=clock)
    registry = LimiterRegistry(load_rules(rules()), store)
    view = WsgiView({"PATH_INFO": "/login", "REMOTE_ADDR": "192.0.2.1"})
    calls = []
    for _ in range(6):
        before = store.calls
        registry.admit(view)
        calls.append(store.calls - before)
    assert calls == [1, 1, 2, 2, 2, 1]


def test_a_shared_bucket_shares_the_penalty(clock: ManualClock) -> None:
    shared = {"limit": "2/10s", "penalty": PENALTY, "bucket": "b"}
    registry = LimiterRegistry(load_rules({"limits": {"/a": shared, "/b": shared}}), MemoryStore(clock=clock))
    paths = ["/a", "/b"] * 3
    verdicts = [registry.admit(WsgiView({"PATH_INFO": path, "REMOTE_ADDR": "a"})) for path in paths]
    assert [(verdict.retry_after_ns or 0) // 10**9 for verdict in verdicts] == [0, 0, 10, 10, 60, 60]


@pytest.mark.parametrize("kind", ["threads", "awaited"])
def test_a_refusal_that_cannot_be_counted_stands_and_leaves_nothing_behind(
    kind: str, clock: ManualClock
) -> None:
    class Failing(MemoryStore):
        def take(self, checks: Sequence[Check]) -> list[Decision]:
            if isinstance(checks[0].algorithm, Strike):
                raise StoreUnavailableError(10**9)
            return super().take(checks)

    inner = Failing(clock=clock)
    slots = {"concurrency": "9 per global", "mode": "shadow", "name": "slots"}
    registry = LimiterRegistry(
        load_rules(rules(always=slots)), AwaitedStore(inner) if kind == "awaited" else inner
    )
    view = WsgiView({"REQUEST_METHOD": "GET", "PATH_INFO": "/login", "REMOTE_ADDR": "192.0.2.1"})

    async def admitted() -> Verdict:
        return await registry.admit_async(view)

    verdicts = [registry.admit(view) if kind == "threads" else anyio.run(admitted) for _ in range(6)]
    assert [verdict.allowed for verdict in verdicts] == [True] * 2 + [False] * 4
    assert verdicts[-1].violated == ("login",)
    held = [len(verdict.bookings) for verdict in verdicts]
    assert held == [1] * 6, "the slot that only watches, to be given back"
