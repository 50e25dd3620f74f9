"""What stands under a bucket's key is no entry, or a broken one: its client alone is unanswered, and soon."""

from __future__ import annotations

import asyncio
import random
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import StoreError, UnreadableBucketError
from ratelimit_middleware.store_settings import StoreSettings
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.guard import GuardedDualStore
from ratelimit_middleware.stores.redis import RedisStore
from tests.redis_server import RedisServer
from tests.stores.test_redis_same_answers import ALGORITHMS

LIMIT = SlidingWindow(10, 60)


def check(key: str, algorithm: Algorithm = LIMIT) -> Check:
    return Check(key, algorithm, "a|*")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    yield server
    server.kill()


@pytest.fixture
def client(server: RedisServer) -> Iterator[Redis]:
    with Redis.from_url(server.url, socket_timeout=5) as client:
        yield client


def patient(server: RedisServer, **settings: Any) -> RedisStore:
    """A store that a busy machine does not make give up."""
    return RedisStore(server.url, timeout=10, **settings)


def broken(client: Redis, store: RedisStore, kind: str) -> None:
    """Make `a|broken` a bucket that cannot be counted."""
    if kind == "list":
        client.rpush("ratelimit:a|broken", "x")
        return
    store.take([check("a|broken")])
    entry = client.get("ratelimit:a|broken")
    assert isinstance(entry, bytes)
    client.set("ratelimit:a|broken", entry[:-1])


@pytest.mark.parametrize("kind", ["list", "cut off"])
def test_those_who_share_its_call_are_answered(server: RedisServer, client: Redis, kind: str) -> None:
    store = patient(server)
    broken(client, store, kind)

    async def together() -> None:
        asks = [[check(f"a|{name}")] for name in ("1", "2", "broken", "1", "3")]
        asks.append([check("a|1"), check("a|broken")])

        async def answer(ask: list[Check]) -> int | type[BaseException]:
            try:
                return (await store.take_async(ask))[0].remaining
            except StoreError as error:
                return type(error)

        answers = await asyncio.gather(*map(answer, asks))
        assert answers == [9, 9, UnreadableBucketError, 8, 9, UnreadableBucketError]
        assert (await store.take_async([check("a|1")]))[0].remaining == 7
        await store.close_async()

    asyncio.run(together())
    store.close()


@pytest.mark.parametrize(
    "limit", [LIMIT, WarmUp(5, 10), WarmUpWindow(6, 1, 10)], ids=lambda a: type(a).__name__
)
def test_a_log_that_is_cut_off_is_not_read_as_a_shorter_one(
    server: RedisServer, client: Redis, limit: Algorithm
) -> None:
    store = RedisStore(server.url)
    store.take([check("a|1", limit)])
    entry = client.get("ratelimit:a|1")
    assert isinstance(entry, bytes)
    client.set("ratelimit:a|1", entry + b"half an entry"[:7])
    with pytest.raises(UnreadableBucketError, match="a broken log"):
        store.take([check("a|1", limit)])
    store.close()


def test_its_client_does_not_open_the_breaker(server: RedisServer, client: Redis) -> None:
    guard = GuardedDualStore(
        patient(server), StoreSettings(on_error="fallback", expected_workers=5), clock=ManualClock()
    )
    client.rpush("ratelimit:a|broken", "x")
    got: list[Decision] = [guard.take([check("a|broken")])[0] for _ in range(12)]
    assert [decision.allowed for decision in got] == [True] * 2 + [False] * 10  # its share, here
    assert guard.health().open_since_ns is None
    assert guard.take([check("a|1")])[0].remaining == 9
    guard.close()


def test_a_user_that_may_read_nothing_does_open_it(server: RedisServer, client: Redis) -> None:
    guard = GuardedDualStore(patient(server), StoreSettings(on_error="allow"), clock=ManualClock())
    client.acl_setuser("default", enabled=True, commands=["-get"])
    for _ in range(5):
        assert guard.take([check("a|1")])[0].allowed
    assert guard.health().open_since_ns is not None
    guard.close()


def test_it_can_be_listed_and_reset(server: RedisServer, client: Redis) -> None:
    store = patient(server)
    client.rpush("ratelimit:a|broken", "x")
    client.set(b"ratelimit:\xff is no text", b"x")
    assert list(store.scan()) == ["a|broken"]
    with pytest.raises(UnreadableBucketError):
        store.look("a|broken")
    assert store.reset("a|broken")
    assert store.take([check("a|broken")])[0].remaining == 9
    store.close()


STRANGE = [nan, inf, -inf, 0.0, -1.0, 0.5, 1e-300, 1e18, 2.0**51, 2.0**53, 1e300, -1e300]


def test_no_broken_entry_keeps_the_server_or_the_process_busy(server: RedisServer, client: Redis) -> None:
    """Nor does it hurt those who share its call."""
    store, chance = patient(server, known_refusals=0), random.Random(7)  # noqa: S311
    kinds = set()

    async def try_all() -> None:
        for place, algorithm in enumerate(ALGORITHMS):
            one = check(f"a|{place}", algorithm)
            booked = (await store.take_async([one]))[0]
            await store.charge_async(one)
            entry = await asyncio.to_thread(client.get, f"ratelimit:a|{place}")
            if not isinstance(entry, bytes):
                continue  # it keeps nothing yet
            kinds.add(type(algorithm))
            head = int.from_bytes(entry[:2], "little")
            for _ in range(24):
                spoilt = entry[:head] + _spoilt(entry[head:], chance)
                await asyncio.to_thread(client.set, f"ratelimit:a|{place}", spoilt)
                await _ask_for_all(store, one, booked.at_ns)
        await store.close_async()

    asyncio.run(try_all())
    assert len(kinds) > 15
    store.close()


async def _ask_for_all(store: RedisStore, broken: Check, at_ns: int) -> None:
    """Only the broken one may be without an answer."""
    for checks in ([broken], [check("a|sound", SlidingWindow(10**9, 60)), broken]):
        asks = store.take_async(checks), store.take_async([check("a|other", SlidingWindow(10**9, 60))])
        answer, other = await asyncio.gather(*asks, return_exceptions=True)
        assert isinstance(answer, (list, UnreadableBucketError)), answer
        assert isinstance(other, list), other
    for act in (
        store.give_back_async(broken, at_ns),
        store.charge_async(broken),
        store.peek_async(broken),
        asyncio.to_thread(store.look, broken.key),
    ):
        with suppress(UnreadableBucketError):
            await act


def _spoilt(state: bytes, chance: random.Random) -> bytes:
    begin, size = chance.randrange(len(state)) // 8 * 8, chance.choice([4, 8, 24])
    kind = chance.choice(["number", "numbers", "bytes", "more"])
    if kind == "number":
        return state[:begin] + struct.pack("<d", chance.choice(STRANGE)) + state[begin + 8 :]
    if kind == "numbers":
        count = len(state) // 8
        return struct.pack(f"<{count}d", *chance.choices(STRANGE, k=count)) + state[8 * count :]
    if kind == "more":
        return state + chance.randbytes(chance.choice([8, 160, 2000]))
    return state[:begin] + chance.randbytes(size) + state[begin + size :]


NOW_US = time.time() * 1e6
ENDLESS: dict[str, tuple[Algorithm, bytes]] = {
    "a log of one moment that cannot be merged": (
        SlidingWindow(200, 10),
        struct.pack("<3d2I", 100, NOW_US, NOW_US, 1, 0) + 100 * struct.pack("<2dI", inf, inf, 1),
    ),
    "a queue without end": (Pacing(10, 3), struct.pack("<2d", inf, 0)),
    "parts of a microsecond for days": (Pacing(10, 3), struct.pack("<2d", NOW_US + 1e9, 1e18)),
    "a window without end": (FixedWindow(5, 10), struct.pack("<4d", 0, 1e300, 5, 5)),
    "a half second so late that the next one is the same": (
        WarmUp(5, 10),
        struct.pack("<10dI", 0, 0, 2.0**53, 5, 5, 5, 5, 5, NOW_US, 5, 0),
    ),
    "a slot without permits": (
        WarmUpPacing(10, 5, 3, 6, whole_ms=True),
        struct.pack("<9d", 50, NOW_US // 1e6 * 1e3 + 1e6, NOW_US, 0, NOW_US, 0, NOW_US // 1e6, 1, -5),
    ),
    "a bucket that is full never": (GCRA(10, 60, 10), struct.pack("<4d", inf, 0, 0, 0)),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_has_no_end_is_given_up(server: RedisServer, client: Redis, name: str) -> None:
    """A log, a queue or a window as no limiter writes it; read by its own limit and by one that adopts it."""
    algorithm, state = ENDLESS[name]

    async def try_it() -> None:
        store = patient(server, known_refusals=0)
        await store.take_async([check("a|1", algorithm)])
        entry = await asyncio.to_thread(client.get, "ratelimit:a|1")
        assert isinstance(entry, bytes)
        head = int.from_bytes(entry[:2], "little")
        for reader in (algorithm, SlidingWindow(7, 60)):
            await asyncio.to_thread(client.set, "ratelimit:a|1", entry[: head + 8] + state)
            await _ask_for_all(store, check("a|1", reader), time.time_ns())
        await store.close_async()
        await asyncio.to_thread(store.close)

    asyncio.run(try_it())


def test_one_with_other_numbers_counts_as_none(server: RedisServer, client: Redis) -> None:
    store = patient(server, clock=ManualClock())  # the day does not end meanwhile
    store.take([check("a|1", FixedWindow(5, "day"))])
    entry = client.get("ratelimit:a|1")
    assert isinstance(entry, bytes)
    client.set("ratelimit:a|1", entry[:-32] + struct.pack("<4d", 1e300, 2e300, 1, 0))
    assert store.take([check("a|1", FixedWindow(7, "month"))])[0].remaining == 6
    store.close()
