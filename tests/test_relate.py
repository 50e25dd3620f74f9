"""Rules that other routes use up, under ASGI and WSGI, in every kind of store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.cli.explain import Question, explain
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.coverage import coverage, warn_of_idle_rules
from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.errors import InvalidLimitError, RuleFileError
from ratelimit_middleware.events import VerdictEvent
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import WsgiView
from ratelimit_middleware.rules.lint import lint
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.model import Rule
from ratelimit_middleware.rules.route import parse_route
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.stores.redis import RedisStore
from ratelimit_middleware.stores.shared import SharedStore
from tests.conftest import Ask

pytestmark = pytest.mark.anyio

Limited = Callable[..., Ask]
Asked = Callable[..., list[int]]

NS = 10**9
ORDERS: dict[str, Any] = {"limit": "3/10s per global", "relate": "GET /stock/{sku}", "name": "orders"}


def rules(orders: Any = ORDERS, **more: Any) -> dict[str, Any]:
    return {"limits": {"POST /orders": orders}, **more}


async def statuses(
    ask: Ask, times: int, path: str = "/orders", method: str = "POST", **how: Any
) -> list[int]:
    return [(await ask(path, method=method, **how)).status_code for _ in range(times)]


async def test_a_route_is_refused_while_the_other_has_used_its_limit_up(
    limited: Limited, clock: ManualClock
) -> None:
    ask = limited(rules())
    assert await statuses(ask, 20) == [200] * 20
    assert await statuses(ask, 2, "/stock/1", "GET") == [200] * 2
    assert await statuses(ask, 20) == [200] * 20
    clock.advance(4)
    assert await statuses(ask, 20, "/stock/2", "GET") == [200] * 20
    refused = await ask("/orders", method="POST")
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "10"
    assert refused.json()["violated-policies"] == ["orders"]


async def test_who_waits_as_told_is_admitted(limited: Limited, clock: ManualClock) -> None:
    ask = limited(rules())
    await statuses(ask, 50, "/stock/1", "GET")
    wait_s = int((await ask("/orders", method="POST")).headers["retry-after"])
    clock.advance(wait_s - 0.001)
    assert await statuses(ask, 1) == [429]
    clock.advance(0.001)
    assert await statuses(ask, 1) == [200]


async def test_the_other_route_hears_nothing_of_it(limited: Limited) -> None:
    response = await limited(rules())("/stock/1")
    assert "ratelimit" not in response.headers
    assert "ratelimit-policy" not in response.headers


async def test_the_fields_tell_what_the_other_route_has_left(limited: Limited) -> None:
    ask = limited(rules())
    await statuses(ask, 1, "/stock/1", "GET")
    for _ in range(2):
        response = await ask("/orders", method="POST")
        assert response.headers["ratelimit"] == '"orders";r=2;t=10'


async def test_with_a_key_each_client_has_its_own_counter(limited: Limited) -> None:
    ask = limited(rules({**ORDERS, "limit": "3/10s per ip"}))
    await statuses(ask, 3, "/stock/1", "GET", peer="192.0.2.2")
    assert await statuses(ask, 1, peer="192.0.2.2") == [429]
    assert await statuses(ask, 1, peer="192.0.2.3") == [200]


async def test_only_requests_that_start_count(limited: Limited) -> None:
    """A request that another rule refuses costs nothing: neither here nor there."""
    orders = {"POST /orders": ORDERS, "GET /stock/{sku}": "2/10s"}
    ask = limited({"limits": orders})
    assert await statuses(ask, 9, "/stock/1", "GET") == [200, 200, *[429] * 7]
    assert await statuses(ask, 1) == [200]


async def test_a_refused_request_takes_nothing_from_other_limits(limited: Limited) -> None:
    ask = limited(rules(always="8/10s"))
    await statuses(ask, 3, "/stock/1", "GET")
    assert await statuses(ask, 9) == [429] * 9
    assert await statuses(ask, 6, "/elsewhere", "GET") == [200] * 5 + [429]


async def test_the_route_that_uses_a_limit_up_is_not_held_by_it_even_where_the_rule_is_wider(
    limited: Limited, clock: ManualClock
) -> None:
    wide = {"limit": "3/10s per global", "relate": "/api/stock"}
    for where in ({"limits": {"/api/**": wide}}, {"always": [wide]}, {"default": wide}):
        ask = limited(where)
        assert await statuses(ask, 9, "/api/stock", "GET") == [200] * 9
        assert await statuses(ask, 1, "/api/other", "GET") == [429]
        clock.advance(100)


async def test_a_path_that_some_read_as_the_other_route_is_counted_and_held(limited: Limited) -> None:
    """Whoever spells a request of the rule like one of the other route gains nothing."""
    ask = limited({"limits": {"/api/**": {"limit": "3/10s per global", "relate": "/api/stock"}}})
    assert await statuses(ask, 5, "/api//stock", "GET") == [200, 200, 200, 429, 429]
    assert await statuses(ask, 1, "/api/stock", "GET") == [200]


async def test_default_counts_for_the_route_that_uses_a_wide_rule_up(limited: Limited) -> None:
    ask = limited({"limits": {"/**": {"limit": "99/10s", "relate": "/stock"}}, "default": "2/10s"})
    assert await statuses(ask, 3, "/stock", "GET") == [200, 200, 429]


async def test_default_counts_for_the_rule_s_own_requests_for_it_does_not_count_them(
    limited: Limited, clock: ManualClock
) -> None:
    ask = limited(rules(default="5/10s"))
    assert await statuses(ask, 7) == [200] * 5 + [429] * 2
    clock.advance(10)
    assert await statuses(ask, 3, "/stock/1", "GET") == [200] * 3
    assert await statuses(ask, 3) == [429] * 3


async def test_an_unlimited_route_uses_a_limit_up_too_however_it_is_spelled(limited: Limited) -> None:
    ask = limited({"limits": {"POST /orders": ORDERS, "/stock/**": "unlimited"}})
    for path in ("/stock/1", "/stock//2", "/stock/3/"):
        assert await statuses(ask, 1, path, "GET") == [200]
    assert await statuses(ask, 1) == [429]


async def test_a_default_that_is_used_up_holds_those_whom_the_rules_pass_over(limited: Limited) -> None:
    skipping = {"limit": "99/s per header:x-tenant", "missing": "skip", "trusted": True}
    default = {"limit": "3/10s per global", "relate": "GET /stock"}
    ask = limited({"limits": {"/**": skipping}, "default": default})
    assert await statuses(ask, 9, "/stock", "GET") == [200] * 9
    assert await statuses(ask, 1) == [429]
    assert await statuses(ask, 1, x_tenant="a") == [200]


async def test_several_routes_use_one_limit_up(limited: Limited) -> None:
    ask = limited(rules({**ORDERS, "relate": ["GET /stock/{sku}", "PUT /stock/{sku}"]}))
    await statuses(ask, 2, "/stock/1", "GET")
    await statuses(ask, 1, "/stock/1", "PUT")
    await statuses(ask, 1, "/stock/1", "DELETE")
    assert await statuses(ask, 1) == [429]


async def test_hosts_of_the_rule_are_hosts_of_the_other_route(limited: Limited) -> None:
    ask = limited(rules({**ORDERS, "hosts": "a.example"}, default="99/s"))
    await statuses(ask, 5, "/stock/1", "GET", host="b.example")
    assert await statuses(ask, 1, host="a.example") == [200]
    await statuses(ask, 3, "/stock/1", "GET", host="a.example")
    assert await statuses(ask, 1, host="a.example") == [429]


async def test_a_shadow_rule_is_used_up_and_refuses_nobody(limited: Limited) -> None:
    seen: list[VerdictEvent] = []
    ask = limited(rules({**ORDERS, "mode": "shadow"}), hooks=[_Seen(seen)])
    await statuses(ask, 3, "/stock/1", "GET")
    assert await statuses(ask, 1) == [200]
    assert [shadow.would_refuse for shadow in seen[-1].shadows] == [True]
    assert seen[0].kind == "uncounted"


async def test_events_tell_of_the_refusal_and_not_of_what_uses_the_limit_up(limited: Limited) -> None:
    seen: list[VerdictEvent] = []
    ask = limited(rules(default="9/s"), hooks=[_Seen(seen)])
    await statuses(ask, 3, "/stock/1", "GET")
    await statuses(ask, 1)
    assert [event.rules for event in seen] == [("default",)] * 3 + [("orders", "default")]
    assert seen[-1].refused_by == ("orders",)


async def test_a_penalty_follows_the_refusals_of_the_rule(limited: Limited) -> None:
    ask = limited(rules({**ORDERS, "penalty": {"after": 2, "block": "1m"}}))
    await statuses(ask, 3, "/stock/1", "GET")
    waits = [(await ask("/orders", method="POST")).headers["retry-after"] for _ in range(3)]
    assert waits == ["10", "60", "60"]
    assert await statuses(ask, 2, "/stock/1", "GET") == [200, 200]


async def test_a_client_without_the_key_is_not_denied_on_the_other_route(limited: Limited) -> None:
    orders = {**ORDERS, "limit": "3/10s per header:x-tenant", "missing": "deny", "trusted": True}
    ask = limited(rules(orders))
    assert await statuses(ask, 5, "/stock/1", "GET") == [200] * 5
    assert await statuses(ask, 1) == [429]
    assert await statuses(ask, 1, x_tenant="a") == [200]
    await statuses(ask, 3, "/stock/1", "GET", x_tenant="a")
    assert await statuses(ask, 1, x_tenant="a") == [429]


def asked(registry: LimiterRegistry, method: str, path: str, times: int = 1) -> list[Verdict]:
    view = {"REQUEST_METHOD": method, "PATH_INFO": path, "REMOTE_ADDR": "192.0.2.1"}
    return [registry.admit(WsgiView(view)) for _ in range(times)]


def test_it_may_wait_for_room(clock: ManualClock) -> None:
    orders = {**ORDERS, "limit": {"count": 2, "per": "10s", "algorithm": "sliding_window"}}
    orders["limit"] |= {"behavior": "queue", "queue": "6s"}
    registry = LimiterRegistry(load_rules(rules({**orders, "key": "global"})), MemoryStore(clock=clock))
    asked(registry, "GET", "/stock/1", 2)
    clock.advance(4)
    assert [verdict.wait_ns for verdict in asked(registry, "POST", "/orders", 3)] == [6 * NS] * 3


@pytest.mark.parametrize("limit", ["20/10s burst 5", "5/10s", "5/month"])
def test_the_behaviors_have_their_say_about_the_other_route(clock: ManualClock, limit: str) -> None:
    registry = LimiterRegistry(
        load_rules(rules({"limit": f"{limit} per global", "relate": "/stock"})), MemoryStore(clock=clock)
    )
    asked(registry, "GET", "/stock", 5)
    (verdict,) = asked(registry, "POST", "/orders")
    assert not verdict.allowed
    assert verdict.retry_after_ns
    clock.advance(verdict.retry_after_ns / NS)
    assert asked(registry, "POST", "/orders")[0].allowed


def test_a_cold_rule_is_used_up_early(clock: ManualClock) -> None:
    orders = {**ORDERS, "limit": "9/second per global", "behavior": "warm_up", "warm_up": "10s"}
    registry = LimiterRegistry(load_rules(rules(orders)), MemoryStore(clock=clock))
    asked(registry, "GET", "/stock/1", 3)
    assert not asked(registry, "POST", "/orders")[0].allowed


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


def test_workers_that_share_a_store_agree_also_after_a_reload(
    store: MemoryStore | SharedStore | RedisStore,
) -> None:
    workers = [LimiterRegistry(load_rules(rules()), store) for _ in range(2)]
    for number in range(3):
        asked(workers[number % 2], "GET", "/stock/1")
    assert [asked(worker, "POST", "/orders")[0].allowed for worker in workers] == [False, False]
    larger = LimiterRegistry(load_rules(rules({**ORDERS, "limit": "5/10s per global"})), store)
    assert asked(larger, "POST", "/orders")[0].allowed
    asked(larger, "GET", "/stock/1", 2)
    assert not asked(larger, "POST", "/orders")[0].allowed


def test_an_outer_and_an_inner_instance_count_once(clock: ManualClock) -> None:
    from ratelimit_middleware.wsgi import RateLimitMiddleware

    store, ruleset = MemoryStore(clock=clock), load_rules(rules())

    def app(_environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return []

    twice = RateLimitMiddleware(RateLimitMiddleware(app, ruleset, store=store), ruleset, store=store)
    for _ in range(2):
        twice({"REQUEST_METHOD": "GET", "PATH_INFO": "/stock/1"}, lambda *_: None)  # type: ignore[arg-type]
    assert asked(LimiterRegistry(ruleset, store), "POST", "/orders")[0].outcomes[0].decision.remaining == 1


def test_a_request_that_gives_up_waiting_is_not_counted(clock: ManualClock) -> None:
    limits = {"/stock": {"limit": "1/10s per global", "behavior": "queue", "queue": "20s"}}
    limits["POST /orders"] = {"limit": "2/10s per global", "relate": "/stock"}
    registry = LimiterRegistry(load_rules({"limits": limits}), MemoryStore(clock=clock))
    _, waiting = asked(registry, "GET", "/stock", 2)
    assert waiting.wait_ns == 10 * NS
    assert not asked(registry, "POST", "/orders")[0].allowed
    for booking in waiting.bookings:
        registry.store.give_back(booking.check, booking.at_ns)  # type: ignore[union-attr]
    assert asked(registry, "POST", "/orders")[0].allowed


def test_the_example_of_the_format_loads() -> None:
    """A rule that waits until the other route has left room."""
    ruleset = load_rules(rules({**ORDERS, "limit": "10/second per global", "behavior": "queue"}))
    (rule,) = ruleset.limits
    assert [route.pattern for route in rule.relate] == ["GET /stock/{sku}"]
    assert rule.limits[0].max_wait_ns == NS // 2


def test_a_rule_built_by_hand_has_both_or_none() -> None:
    (rule,) = load_rules(rules()).limits
    with pytest.raises(InvalidLimitError, match="relate="):
        Rule("a", rule.routes, rule.limits)
    plain = load_rules({"limits": {"/a": "1/s"}}).limits[0]
    assert isinstance(plain.limits[0].algorithm, SlidingWindow)
    with pytest.raises(InvalidLimitError, match="relate="):
        Rule("a", plain.routes, plain.limits, relate=(parse_route("/b"),))


def test_lint_claims_nothing_of_rules_that_other_requests_use_up() -> None:
    from datetime import date

    two = {"limit": "3/10s", "relate": "/a"}
    ruleset = load_rules({"always": [two, {**two, "relate": "/b"}], "default": "1/s"})
    assert [warning.code for warning in lint(ruleset, today=date(2026, 1, 1))] == []
    ruleset = load_rules({"limits": {"/**": two}, "default": "1/s"})
    assert [warning.code for warning in lint(ruleset, today=date(2026, 1, 1))] == []


def starlette_app() -> Starlette:
    async def page(_: Any) -> PlainTextResponse:
        return PlainTextResponse("page")

    paths = ("/orders", "/stock/{sku}", "/other")
    return Starlette(routes=[Route(path, page, methods=["POST"]) for path in paths])


def test_coverage_knows_that_the_other_route_is_not_limited() -> None:
    found = coverage(starlette_app(), {"limits": {"/**": {"limit": "3/s", "relate": "/stock/{sku}"}}})
    assert {one.route.path: one.rules for one in found.routes} == {
        "/orders": ("/**",),
        "/stock/{sku}": (),
        "/other": ("/**",),
    }
    assert found.idle_relations == ()
    always = coverage(starlette_app(), {"always": {"limit": "3/s", "relate": "/stock/7"}})
    assert {one.route.path: (one.rules, one.some) for one in always.routes} == {
        "/orders": (("always-1",), ()),
        "/stock/{sku}": ((), ("always-1",)),
        "/other": (("always-1",), ()),
    }


def test_coverage_knows_that_a_relation_holds_nobody_back_while_the_other_route_is_quiet() -> None:
    orders = {"/orders": {"limit": "3/s", "relate": "/stock/{sku}"}}
    found = coverage(starlette_app(), {"limits": orders})
    assert [one.route.path for one in found.unlimited] == ["/orders", "/stock/{sku}", "/other"]
    found = coverage(starlette_app(), {"limits": orders, "default": "9/s"})
    assert found.routes[0].rules == ("/orders", "default")
    assert found.unlimited == ()
    found = coverage(starlette_app(), {"default": {"limit": "3/s", "relate": "POST /stock/{sku}"}})
    assert len(found.unlimited) == 3


def test_a_relation_to_no_route_of_the_app_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    ruleset = load_rules(rules({**ORDERS, "relate": "GET /stok/{sku}"}))
    with caplog.at_level(logging.WARNING):
        warn_of_idle_rules(starlette_app(), ruleset)
    (message,) = caplog.messages
    assert (
        message
        == "no route of the app can match `relate` of 1 rule of rules: `orders`; see `ratelimits routes`"
    )
    assert coverage(starlette_app(), ruleset).idle_relations == ("orders",)


@pytest.mark.parametrize("key", ["route", "path", "ip+method"])
def test_a_key_that_the_routes_never_share_is_refused(key: str) -> None:
    with pytest.raises(RuleFileError, match="never the same for both routes"):
        load_rules(rules({"limit": "3/10s", "relate": "/stock", "key": key}))


class _Seen:
    """A hook that keeps events."""

    def __init__(self, events: list[VerdictEvent]) -> None:
        self.events = events

    def on_verdict(self, event: VerdictEvent) -> None:
        self.events.append(event)


def test_explain_shows_both_sides(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("limits: {POST /orders: {limit: 3/10s per global, relate: /stock}}\n", "utf-8")
    orders, _ = explain(str(file), Question("POST", "/orders"))
    assert "  relate  /stock: their requests count, its own do not\n" in orders
    stock, _ = explain(str(file), Question("GET", "/stock"))
    assert (
        "counted for POST /orders (`relate`), never refused by it\n  bucket  POST /orders|*global\n" in stock
    )
