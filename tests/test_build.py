"""Settings wired together, and functions of the app under both adapters."""

from __future__ import annotations

from typing import Any

import pytest

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware._types import Environ, Receive, Scope, Send
from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.penalty import Penalty
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.build import build_registry
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import RuleFileError, StoreError
from ratelimit_middleware.request import WsgiView
from ratelimit_middleware.stores.memory import MemoryStore

APP = "python:tests.rules.app_functions"
ASYNC_RULES: list[Any] = [
    f"5/s per ip+{APP}:tenant_async",
    f"{APP}:plan_limit_async",
    {"limit": "5/s", "cost": f"{APP}:weight_async"},
]


async def asgi_app(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def wsgi_app(environ: Environ, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b"ok"]


@pytest.mark.parametrize("rule", ASYNC_RULES)
def test_an_async_function_is_refused_when_a_wsgi_middleware_is_built(rule: Any) -> None:
    with pytest.raises(RuleFileError, match=r"rules: the rule `/x` asks the async function .* cannot await"):
        wsgi.RateLimitMiddleware(wsgi_app, {"limits": {"/x": rule}})


@pytest.mark.parametrize("rule", ASYNC_RULES)
def test_it_is_fine_on_an_event_loop(rule: Any) -> None:
    assert build_registry({"limits": {"/x": rule}}).ruleset.limits


@pytest.mark.anyio
async def test_asgi_awaits_the_functions_of_the_app(asgi_client: Any) -> None:
    app = asgi.RateLimitMiddleware(asgi_app, {"default": f"1/minute per {APP}:tenant_async"})
    async with asgi_client(app) as client:
        statuses = [(await client.get("/", headers={"x-tenant": t})).status_code for t in ("a", "a", "b")]
    assert statuses == [200, 429, 200]


BROKEN: list[Any] = [
    f"5/s per {APP}:broken",
    f"5/s per {APP}:number",
    {"limit": "5/s", "cost": f"{APP}:broken"},
]
COUNTED = [200] * 5 + [429]


@pytest.mark.anyio
@pytest.mark.parametrize("rule", BROKEN)
async def test_a_function_that_fails_leaves_its_rule_counting_under_asgi(
    asgi_client: Any, clock: ManualClock, caplog: pytest.LogCaptureFixture, rule: Any
) -> None:
    app = asgi.RateLimitMiddleware(asgi_app, {"default": rule}, clock=clock)
    async with asgi_client(app) as client:
        assert [(await client.get("/")).status_code for _ in range(6)] == COUNTED
    assert len(caplog.records) == 1


@pytest.mark.parametrize("rule", BROKEN)
def test_a_function_that_fails_leaves_its_rule_counting_under_wsgi(
    wsgi_client: Any, clock: ManualClock, caplog: pytest.LogCaptureFixture, rule: Any
) -> None:
    app = wsgi.RateLimitMiddleware(wsgi_app, {"default": rule}, clock=clock)
    with wsgi_client(app) as client:
        assert [client.get("/").status_code for _ in range(6)] == COUNTED
    assert len(caplog.records) == 1


def test_a_function_that_never_told_a_number_means_503(
    wsgi_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with wsgi_client(wsgi.RateLimitMiddleware(wsgi_app, {"default": f"{APP}:broken"})) as client:
        assert {client.get("/").status_code for _ in range(3)} == {503}
    assert len(caplog.records) == 1


def test_a_request_without_a_needed_part_is_refused_without_a_wait(wsgi_client: Any) -> None:
    rules = {"default": {"limit": "5/s per user", "missing": "deny"}}
    with wsgi_client(wsgi.RateLimitMiddleware(wsgi_app, rules)) as client:
        answer = client.get("/")
    assert answer.status_code == 429
    assert "retry-after" not in answer.headers


class EmptyLookingStore(MemoryStore):
    """A store that counts as false while it holds nothing."""

    def __len__(self) -> int:
        return self.stats().keys


def test_a_store_that_looks_empty_is_used_all_the_same() -> None:
    store = EmptyLookingStore()
    build_registry({"default": "5/hour"}, store=store).admit(WsgiView({"PATH_INFO": "/"}))

    assert len(store) == 1


def test_what_lint_finds_is_logged_once_when_the_middleware_is_built(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asgi.RateLimitMiddleware(asgi_app, {"limits": {"/a": ["5/s", "5/s"], "/b/../c": "5/s"}})

    lines = [(record.name, record.levelname, record.getMessage()) for record in caplog.records]
    assert [(name, level) for name, level, _ in lines] == [("ratelimit_middleware", "WARNING")] * 2
    assert [message[:20] for _, _, message in lines] == ["limits./a: RL102 `5/", "limits./b/../c: RL20"]


def test_no_more_than_20_lines_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    build_registry({"limits": {f"/{number}": ["5/s", "5/s"] for number in range(30)}})

    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 20
    assert messages[-1] == "11 more warnings: `ratelimits check` shows all"
    assert all("RL102" in message for message in messages[:-1])


def test_a_lint_that_fails_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_named: object) -> None:
        raise LookupError("a bug")

    monkeypatch.setattr("ratelimit_middleware.build.lint", fail)
    assert build_registry({"default": "5/s"}).ruleset.default


def test_a_choosy_store_hears_of_all_numbers_that_it_may_have_to_count() -> None:
    class Choosy(MemoryStore):
        """Takes all, and remembers what it was offered."""

        offered: list[object]

        def accept(self, algorithm: Algorithm) -> None:
            self.offered.append(algorithm)

    store = Choosy()
    store.offered = []
    rule = {
        "limit": "1/minute",
        "tiers": True,
        "overrides": {"192.0.2.1": "7/minute", "198.*": "8/minute", "203.*": "unlimited"},
        "penalty": {"after": 1, "block": "1m"},
    }
    tiers = {"by": "header:x-plan", "trusted": True, "pro": {"scale": 2}, "staff": "unlimited"}
    build_registry({"tiers": tiers, "default": rule}, store=store)
    windows = {one.limit for one in store.offered if isinstance(one, SlidingWindow)}
    assert windows == {1, 2, 7, 8}
    assert Penalty(1, (60,)) in store.offered


def test_a_url_is_no_store() -> None:
    url: Any = "memory://"
    with pytest.raises(StoreError, match="a URL under `store` in the rules"):
        build_registry({"default": "5/s"}, store=url)
