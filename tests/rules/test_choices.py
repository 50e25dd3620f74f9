"""What depends on the request: costs, overrides, limits and keys that functions tell."""

from __future__ import annotations

from typing import Any

import pytest

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import AsgiView
from ratelimit_middleware.rules.choices import AskedLimit
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.stores.memory import MemoryStore
from tests.rules import app_functions

pytestmark = pytest.mark.arithmetic

APP = "python:tests.rules.app_functions"


def view(method: str = "GET", peer: str = "192.0.2.7", user: str | None = None, **headers: str) -> AsgiView:
    lines = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    kind = "websocket" if method == "WS" else "http"
    scope = {"type": kind, "method": method, "path": "/x", "client": (peer, 1), "headers": lines}
    return AsgiView({**scope, "user": user})


def registry(rule: Any, **more: Any) -> LimiterRegistry:
    rules = load_rules({"limits": {"/x": rule}, **more}, env={})
    return LimiterRegistry(rules, MemoryStore(clock=ManualClock()))


def admitted(limiter: LimiterRegistry, request: AsgiView, most: int = 100) -> int:
    """How many such requests pass at one moment."""
    count = 0
    while count < most and limiter.admit(fresh(request)).allowed:
        count += 1
    return count


def fresh(request: AsgiView) -> AsgiView:
    """The same request once more; a view belongs to one request."""
    return AsgiView(request.raw)


def only(verdict: Verdict) -> tuple[str, int, int]:
    (outcome,) = verdict.outcomes
    return outcome.policy.name, outcome.policy.quota, outcome.decision.limit


# Cost


def test_a_cost_counts_for_all_limits_of_the_rule() -> None:
    limiter = registry({"limit": ["10/s", "9/m per global"], "cost": 4})
    assert admitted(limiter, view()) == 2


@pytest.mark.parametrize(
    ("method", "count"), [("GET", 5), ("HEAD", 5), ("POST", 2), ("WS", 3), ("DELETE", 10), ("PUT", 10)]
)
def test_a_cost_may_differ_by_method(method: str, count: int) -> None:
    costs = {"GET": 2, "POST": "5", "WS": 3, "PUT": 1}
    assert admitted(registry({"limit": "10/s", "cost": {"method": costs}}), view(method)) == count


def test_head_has_a_cost_of_its_own_if_it_is_named() -> None:
    limiter = registry({"limit": "10/s", "cost": {"method": {"GET": 2, "HEAD": 1}}})
    assert admitted(limiter, view("HEAD")) == 10


def test_a_function_may_tell_the_cost() -> None:
    limiter = registry({"limit": "10/s", "cost": f"{APP}:weight"})
    assert admitted(limiter, view(x_weight="4")) == 2
    assert not limiter.admit(view(x_weight="11")).allowed
    assert limiter.admit(view(x_weight="11")).retry_after_ns is None


@pytest.mark.parametrize("weight", ["0", "-1"])
def test_a_cost_below_one_is_an_error_of_the_app(weight: str) -> None:
    with pytest.raises(TypeError, match=r"app_functions:weight gave .* for a cost"):
        registry({"limit": "10/s", "cost": f"{APP}:weight"}).admit(view(x_weight=weight))


# Overrides


def test_overrides_give_other_numbers_to_some_values_exact_ones_first() -> None:
    overrides = {
        "bot-*": "1/s",
        "bot-7": "3/s",
        "vip": "unlimited",
        "*-slow": {"count": 2, "per": "s", "burst": 2},
    }
    limiter = registry({"limit": ["5/s per user", "90/m per global"], "overrides": overrides})
    assert admitted(limiter, view(user="ada")) == 5
    assert admitted(limiter, view(user="bot-1")) == 1
    assert admitted(limiter, view(user="bot-7")) == 3
    assert admitted(limiter, view(user="so-slow")) == 2
    assert admitted(limiter, view(user="vip")) == 90 - 11


def test_the_client_hears_the_numbers_that_hold_for_it() -> None:
    limiter = registry({"limit": "5/s per user", "name": "api", "overrides": {"ada": "50/m"}})
    assert only(limiter.admit(view(user="ada"))) == ("api", 50, 50)
    assert only(limiter.admit(view(user="bob"))) == ("api", 5, 5)


def test_overrides_match_the_first_part_of_the_key_of_the_first_limit() -> None:
    rule = {"limit": ["5/s per user+ip", "7/s per ip+user"], "overrides": {"192.0.2.7": "1/s", "ada": "6/s"}}
    assert admitted(registry(rule), view(user="ada")) == 6
    rule["limit"] = ["5/s per ip+user", "7/s per user"]
    assert admitted(registry(rule), view(user="ada")) == 1


def test_a_value_that_is_missing_has_no_override() -> None:
    assert admitted(registry({"limit": "5/s per user", "overrides": {"*": "9/s"}}), view()) == 5


def test_overrides_of_a_header_that_a_proxy_sets_are_trusted() -> None:
    rule = {"limit": "5/s per header:x-plan", "trusted": True, "overrides": {"gold": "9/s"}}
    assert admitted(registry(rule), view(x_plan="gold")) == 9


# Limits that a function tells


def test_a_function_may_tell_the_limit_by_its_text() -> None:
    limiter = registry({"limit": [f"{APP}:plan_limit per user"], "name": "plan"})
    assert admitted(limiter, view(user="ada")) == 2
    assert admitted(limiter, view(user="bob", x_limit="5/s burst 5")) == 5
    assert only(limiter.admit(view(user="eve", x_limit="7/m"))) == ("plan", 7, 7)
    assert admitted(limiter, view(user="sue", x_limit="3/month")) == 3


def test_the_word_unlimited_from_a_function_is_an_answer_too() -> None:
    limiter = registry(f"{APP}:plan_limit", default="1/s")
    assert admitted(limiter, view(x_limit="unlimited")) == 100


@pytest.mark.parametrize("text", ["", "5/minut", "5/s;6/s", "5/s per user", f"{APP}:plan_limit", "0/s"])
def test_a_text_that_is_no_limit_is_an_error_never_unlimited(text: str) -> None:
    limiter = registry(f"{APP}:plan_limit")
    if text:
        with pytest.raises(ValueError, match=r"."):
            limiter.admit(view(x_limit=text))
    else:
        assert admitted(limiter, view(x_limit=text)) == 2


def test_something_else_than_a_text_is_an_error_never_unlimited() -> None:
    with pytest.raises(TypeError, match="app_functions:number gave 5 for a limit"):
        registry(f"{APP}:number").admit(view())


def test_limits_are_read_once_by_value_and_the_memory_for_them_is_bounded() -> None:
    limiter = registry(f"{APP}:plan_limit per global")
    (rule,) = limiter.ruleset.limits
    choose = rule.limits[0].choose
    assert isinstance(choose, AskedLimit)
    first = choose(rule.limits[0], view(x_limit="5/s"), "")
    assert choose(rule.limits[0], view(x_limit="5/s"), "") is first
    for count in range(1, 3000):
        choose(rule.limits[0], view(x_limit=f"{count}/s"), "")
    assert len(choose._known) <= 1024


# Keys that a function tells


def test_a_function_may_tell_the_key() -> None:
    limiter = registry(f"2/s per {APP}:tenant")
    assert admitted(limiter, view(x_tenant="a")) == 2
    assert admitted(limiter, view(x_tenant="a", peer="192.0.2.8")) == 0
    assert admitted(limiter, view(x_tenant="b")) == 2
    assert admitted(limiter, view()) == 2
    assert admitted(limiter, view(peer="192.0.2.8")) == 2


def test_a_function_is_asked_once_a_request_however_many_limits_ask() -> None:
    app_functions.CALLS.clear()
    registry([f"2/s per {APP}:tenant", f"9/m per ip+{APP}:tenant"]).admit(view(x_tenant="a"))
    assert app_functions.CALLS == ["tenant"]


def test_a_key_that_is_no_text_is_an_error() -> None:
    with pytest.raises(TypeError, match="app_functions:number gave int for a key"):
        registry(f"2/s per {APP}:number").admit(view())


@pytest.mark.parametrize(
    "rule", [f"2/s per {APP}:broken", f"{APP}:broken", {"limit": "5/s", "cost": f"{APP}:broken"}]
)
def test_what_a_function_raises_reaches_the_failure_policy(rule: Any) -> None:
    with pytest.raises(LookupError, match="no such tenant"):
        registry(rule).admit(view())


# Async functions


@pytest.mark.anyio
async def test_async_functions_are_awaited_before_the_checks() -> None:
    rule = {
        "limit": [f"3/s per {APP}:tenant_async", f"{APP}:plan_limit_async"],
        "cost": f"{APP}:weight_async",
    }
    limiter = registry(rule)
    request = view(x_tenant="a", x_limit="8/m", x_weight="2")
    assert [(await limiter.admit_async(fresh(request))).allowed for _ in range(2)] == [True, False]
    assert (await limiter.admit_async(view(x_tenant="b", x_limit="8/m", x_weight="3"))).allowed


@pytest.mark.anyio
async def test_an_async_function_that_no_limit_of_the_request_asks_is_not_called() -> None:
    app_functions.CALLS.clear()
    limiter = registry("5/s", default=f"5/s per {APP}:tenant_async")
    await limiter.admit_async(view(x_tenant="a"))
    assert app_functions.CALLS == []


@pytest.mark.anyio
async def test_the_functions_of_default_are_awaited_where_a_skipped_limit_may_bring_it_in() -> None:
    rule = {"limit": "5/s per user", "missing": "skip"}
    limiter = registry(rule, default=f"1/s per {APP}:tenant_async")
    assert [(await limiter.admit_async(view(x_tenant="a"))).allowed for _ in range(2)] == [True, False]


# Missing parts


@pytest.mark.parametrize("key", ["user", "header:x-key", "cookie:sid", "query:q", f"{APP}:tenant", "ip+user"])
def test_by_default_the_address_takes_the_place_of_what_is_missing(key: str) -> None:
    limiter = registry({"limit": f"2/s per {key}", "trusted": True})
    assert [admitted(limiter, view(peer=peer)) for peer in ("192.0.2.7", "192.0.2.8")] == [2, 2]


def test_a_limit_may_be_skipped_for_requests_that_lack_a_part_of_its_key() -> None:
    rule = {"limit": ["1/s per user", "3/s per ip"], "missing": "skip"}
    limiter = registry(rule, default="2/s")
    assert admitted(limiter, view()) == 3
    assert admitted(limiter, view(user="ada", peer="192.0.2.8")) == 1


def test_default_counts_where_skipping_leaves_no_limit_of_a_route() -> None:
    limiter = registry({"limit": "1/s per user", "missing": "skip"}, default="2/s", always="9/s per global")
    assert admitted(limiter, view()) == 2
    assert admitted(limiter, view(user="ada")) == 1


def test_default_does_not_count_twice_beside_a_shadow_that_is_skipped() -> None:
    rule = {"limit": "1/s per user", "missing": "skip", "mode": "shadow"}
    assert len(registry(rule, default="2/s").admit(view()).outcomes) == 1


def test_a_default_may_be_skipped_itself() -> None:
    limiter = registry(
        {"limit": "1/s per user", "missing": "skip"}, default={"limit": "2/s per user", "missing": "skip"}
    )
    assert limiter.admit(view())[:3] == (True, 0, None)
    assert not limiter.admit(view()).outcomes


def test_a_request_may_be_refused_for_what_it_lacks_and_nothing_is_taken() -> None:
    rule = {"limit": ["5/s per ip", "3/s per user"], "missing": "deny", "name": "api"}
    limiter = registry(rule)
    verdict = limiter.admit(view())
    assert not verdict.allowed
    assert verdict.retry_after_ns is None
    assert verdict.violated == ("api-2",)
    assert admitted(limiter, view(user="ada")) == 3


@pytest.mark.anyio
async def test_it_is_refused_on_an_event_loop_too() -> None:
    limiter = registry({"limit": "3/s per user", "missing": "deny"})
    assert (await limiter.admit_async(view())).violated == ("x",)


def test_a_shadow_never_refuses_for_what_is_missing() -> None:
    limiter = registry({"limit": "3/s per user", "missing": "deny", "mode": "shadow"}, default="2/s")
    assert admitted(limiter, view()) == 2


# Shared buckets


def test_rules_may_share_a_bucket_each_with_its_own_cost() -> None:
    rules = load_rules(
        {
            "limits": {
                "GET /x": {"limit": "10/s", "bucket": "shop"},
                "POST /x": {"limit": "10/s", "bucket": "shop", "cost": 4},
            }
        },
        env={},
    )
    limiter = LimiterRegistry(rules, MemoryStore(clock=ManualClock()))
    assert admitted(limiter, view("POST")) == 2
    assert admitted(limiter, view("GET")) == 2


def test_a_request_under_two_rules_of_one_bucket_counts_once() -> None:
    shared = {"limit": "3/s", "bucket": "shop"}
    rules = load_rules({"limits": {"/x": shared, "/**": shared}}, env={})
    assert admitted(LimiterRegistry(rules, MemoryStore(clock=ManualClock())), view()) == 3
