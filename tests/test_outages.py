"""What clients hear while the store does not answer, under both adapters."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware._types import Environ, Receive, Scope, Send
from ratelimit_middleware.build import build_registry
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import InvalidLimitError, StoreError, StoreUnavailableError
from ratelimit_middleware.rules.model import Limit, Rule, RuleSet
from ratelimit_middleware.store_settings import StoreSettings
from ratelimit_middleware.stores.divided import DividedStore
from ratelimit_middleware.stores.guard import GuardedStore
from ratelimit_middleware.stores.memory import MemoryStore
from tests.stores.faulty import FaultyAsyncStore, FaultyStore, check
from tests.test_registry import limit as limit_of

OUTAGE = "urn:problem-type:ratelimit-middleware:limits-unavailable"


async def asgi_app(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def wsgi_app(environ: Environ, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b"ok"]


def rules(on_error: str, **routes: Any) -> dict[str, Any]:
    return {
        "store": {"on_error": on_error, "expected_workers": 4, "timeout": "5ms"},
        "limits": {f"/{name}": rule for name, rule in routes.items()},
        "default": "8/minute",
    }


@pytest.fixture
def faulty(clock: ManualClock) -> FaultyStore:
    return FaultyStore(clock)


@pytest.fixture
def silent(clock: ManualClock) -> FaultyAsyncStore:
    return FaultyAsyncStore(clock)


def limited(on_error: str, store: FaultyStore, clock: ManualClock, **routes: Any) -> wsgi.RateLimitMiddleware:
    return wsgi.RateLimitMiddleware(wsgi_app, rules(on_error, **routes), store=store, clock=clock)


def test_deny_is_a_503_with_a_problem_of_its_own_and_no_invented_number(
    wsgi_client: Any, faulty: FaultyStore, clock: ManualClock
) -> None:
    faulty.break_down()
    with wsgi_client(limited("deny", faulty, clock)) as client:
        answers = [client.get("/") for _ in range(20)]
    assert {answer.status_code for answer in answers} == {503}
    last = answers[-1]
    assert last.json() == {
        "type": OUTAGE,
        "title": "Limits unavailable",
        "status": 503,
        "detail": "The server cannot check its limits at the moment; try again later.",
    }
    assert last.headers["retry-after"] == "1"
    assert last.headers["cache-control"] == "no-store"
    assert not [name for name in last.headers if "ratelimit" in name]


def test_an_outage_that_is_denied_is_told_to_the_log_by_the_guard_only(
    wsgi_client: Any, faulty: FaultyStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    faulty.break_down()
    with wsgi_client(limited("deny", faulty, clock)) as client, caplog.at_level(logging.WARNING):
        for _ in range(20):
            client.get("/")
    (line,) = caplog.records
    assert "the store does not answer" in line.getMessage()
    assert line.exc_info
    assert line.exc_info[1] is faulty.error


def test_obeying_retry_after_works_once_the_store_is_back(
    wsgi_client: Any, faulty: FaultyStore, clock: ManualClock
) -> None:
    faulty.break_down()
    with wsgi_client(limited("deny", faulty, clock)) as client:
        for _ in range(20):
            answer = client.get("/")
        faulty.error = None
        clock.advance(int(answer.headers["retry-after"]))
        answer = client.get("/")
    assert answer.status_code == 200
    assert answer.headers["ratelimit"] == '"default";r=7;t=60'


def test_allow_lets_through_without_fields(wsgi_client: Any, faulty: FaultyStore, clock: ManualClock) -> None:
    faulty.break_down()
    with wsgi_client(limited("allow", faulty, clock)) as client:
        answers = [client.get("/") for _ in range(20)]
    assert {answer.status_code for answer in answers} == {200}
    assert not [name for answer in answers for name in answer.headers if "ratelimit" in name]


def test_fallback_counts_at_the_share_of_one_process(
    wsgi_client: Any, faulty: FaultyStore, clock: ManualClock
) -> None:
    faulty.break_down()
    with wsgi_client(limited("fallback", faulty, clock)) as client:
        answers = [client.get("/") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        assert [answer.headers["ratelimit"] for answer in answers[:2]] == [
            '"default";r=1;t=60',
            '"default";r=0;t=60',
        ]
        faulty.error = None
        clock.advance(1)
        assert [client.get("/").status_code for _ in range(9)] == [200] * 8 + [429]


def test_a_rule_has_a_policy_of_its_own(wsgi_client: Any, faulty: FaultyStore, clock: ManualClock) -> None:
    faulty.break_down()
    own = {
        "login": {"limit": "5/minute", "on_error": "deny"},
        "docs": {"limit": "5/minute", "on_error": "allow"},
    }
    with wsgi_client(limited("fallback", faulty, clock, **own)) as client:
        said = {path: {client.get(path).status_code for _ in range(9)} for path in ("/login", "/docs", "/")}
    assert said == {"/login": {503}, "/docs": {200}, "/": {200, 429}}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("on_error", "statuses"), [("deny", [503] * 4), ("allow", [200] * 4), ("fallback", [200, 200, 429, 429])]
)
async def test_a_silent_store_holds_no_request_up(
    asgi_client: Any, silent: FaultyAsyncStore, clock: ManualClock, on_error: str, statuses: list[int]
) -> None:
    silent.hangs = True
    app = asgi.RateLimitMiddleware(asgi_app, rules(on_error), store=silent, clock=clock)
    before = asyncio.all_tasks()
    async with asgi_client(app) as client:
        answers = await asyncio.gather(*(client.get("/") for _ in range(4)))
        silent.hangs = False
        clock.advance(1)
        after = await client.get("/")
    assert sorted(answer.status_code for answer in answers) == sorted(statuses)
    assert after.headers["ratelimit"] == '"default";r=7;t=60'
    assert asyncio.all_tasks() == before
    if on_error == "deny":
        assert {answer.json()["type"] for answer in answers} == {OUTAGE}
    if on_error == "allow":
        assert not [name for answer in answers for name in answer.headers if "ratelimit" in name]


@pytest.mark.arithmetic
def test_a_store_that_cannot_fail_has_no_guard(clock: ManualClock) -> None:
    for store in ({}, {"on_error": "allow"}, {"workers": 4}, {"on_error": "fallback", "expected_workers": 2}):
        registry = build_registry({"store": store, "default": "8/minute"}, clock=clock)
        assert isinstance(registry.store, (MemoryStore, DividedStore))


@pytest.mark.arithmetic
def test_a_guarded_store_gets_no_second_guard(faulty: FaultyStore, clock: ManualClock) -> None:
    mine = GuardedStore(faulty, StoreSettings(on_error="allow"), clock=clock)
    assert build_registry(rules("deny"), store=mine).store is mine


@pytest.mark.arithmetic
def test_a_store_of_ones_own_without_a_word_about_failing_has_no_guard(faulty: FaultyStore) -> None:
    assert build_registry({"default": "8/minute"}, store=faulty).store is faulty


@pytest.mark.arithmetic
def test_a_remote_store_is_guarded_and_falls_back_if_it_knows_by_what_to_divide(
    faulty: FaultyStore, clock: ManualClock
) -> None:
    settings = StoreSettings("redis://cache", expected_workers=4)
    ruleset = RuleSet(default=Rule("default", limits=(limit_of("default", 8),)), store=settings)
    store = build_registry(ruleset, store=faulty, clock=clock).store
    assert isinstance(store, GuardedStore)
    faulty.break_down()
    assert store.take([check()])[0].allowed
    alone = build_registry(RuleSet(store=StoreSettings("redis://cache")), store=faulty, clock=clock).store
    assert isinstance(alone, GuardedStore)
    with pytest.raises(StoreUnavailableError):
        alone.take([check()])


@pytest.mark.arithmetic
def test_a_rule_set_of_python_may_not_fall_back_without_its_divisor(faulty: FaultyStore) -> None:
    plain = limit_of("default", 8)
    own = Limit(plain.policy, plain.algorithm, plain.key, "default", on_error="fallback")
    ruleset = RuleSet(default=Rule("default", limits=(own,)))
    with pytest.raises(InvalidLimitError, match="expected_workers"):
        build_registry(ruleset, store=faulty)


@pytest.mark.arithmetic
def test_a_url_that_no_store_has_is_refused_without_showing_its_password() -> None:
    ruleset = RuleSet(store=StoreSettings("mysql://shop:secret@cache", on_error="deny"))
    with pytest.raises(StoreError) as refusal:
        build_registry(ruleset)
    assert "secret" not in str(refusal.value) + repr(ruleset)


def test_workers_divide_the_limits_of_the_memory_store(wsgi_client: Any, clock: ManualClock) -> None:
    settings = {"store": {"url": "memory://", "workers": 4}, "default": "8/minute"}
    with wsgi_client(wsgi.RateLimitMiddleware(wsgi_app, settings, clock=clock)) as client:
        answers = [client.get("/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0].headers["ratelimit"] == '"default";r=1;t=60'
