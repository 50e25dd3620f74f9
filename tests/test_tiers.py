"""Tiers: by function or header, scale or own limits, unknown tiers, under ASGI and WSGI."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import RequestView, WsgiView
from ratelimit_middleware.rules.lint import lint
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.tiers import Tiers
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.wsgi import RateLimitMiddleware
from tests.conftest import Ask
from tests.properties.laws import Hit, check_at_most, check_envelope

pytestmark = pytest.mark.anyio

Limited = Callable[..., Ask]

HERE = "python:tests.test_tiers:"
PLANS: dict[str, Any] = {"free": {"scale": 1}, "pro": {"scale": 3}, "staff": "unlimited"}
asked: list[str] = []


def plan_of(view: RequestView) -> Any:
    """A function of an app: `broken` and `odd` stand for its mistakes."""
    plan = view.header("x-plan")
    asked.append(plan or "")
    if plan == "broken":
        raise LookupError("no such customer")
    return 7 if plan == "odd" else plan


async def plan_of_async(view: RequestView) -> Any:
    """The same, awaited."""
    return plan_of(view)


def rules(by: str = "plan_of", rule: Mapping[str, Any] | None = None, **tiers: Any) -> dict[str, Any]:
    """A file with tiers and a rule of 2/minute."""
    return {
        "tiers": {"by": HERE + by, **PLANS, **tiers},
        "limits": {"/api": {"limit": "2/minute", "tiers": True, **(rule or {})}},
    }


async def admitted(ask: Ask, plan: str = "", path: str = "/api", **how: Any) -> int:
    """How many of ten requests pass."""
    headers = {"x_plan": plan} if plan else {}
    return [(await ask(path, **headers, **how)).status_code for _ in range(10)].count(200)


@pytest.mark.parametrize(
    ("plan", "passes"),
    [("free", 2), ("pro", 6), ("staff", 10), ("", 2), ("gold", 2), ("broken", 2), ("odd", 2)],
)
async def test_each_tier_has_its_numbers(limited: Limited, plan: str, passes: int) -> None:
    assert await admitted(limited(rules()), plan) == passes


@pytest.mark.parametrize(
    ("tiers", "passes"),
    [
        ({}, 2),
        ({"trial": {"scale": 0.5}}, 1),
        ({"unknown": {"scale": 4}}, 8),
        ({"unknown": "5/minute"}, 5),
        ({"unknown": "pro"}, 6),
    ],
    ids=["as written", "smallest scale", "scale", "limit", "tier"],
)
async def test_requests_of_no_tier_have_what_the_file_says(
    limited: Limited, tiers: dict[str, Any], passes: int
) -> None:
    ask = limited(rules(**tiers))
    assert await admitted(ask, "gold") == passes
    assert await admitted(ask, peer="192.0.2.2") == passes


async def test_clients_are_told_the_numbers_of_their_tier(limited: Limited) -> None:
    ask = limited(rules())
    response = await ask("/api", x_plan="pro")
    assert response.headers["ratelimit-policy"] == '"api";q=6;w=60'
    await admitted(ask, "pro")
    refused = await ask("/api", x_plan="pro", accept="text/plain")
    assert refused.text == "Quota exceeded. The limit of 6/minute is reached; try again in 60 s.\n"


async def test_a_rule_may_have_limits_of_its_own_for_some_tiers(limited: Limited) -> None:
    own = {"tiers": {"pro": "5/minute", "free": {"scale": 2}}, "limit": ["2/minute", "7/hour"]}
    ask = limited(rules(rule=own))
    assert await admitted(ask, "pro") == 5
    assert await admitted(ask, "free", peer="192.0.2.2") == 4
    assert await admitted(ask, "staff", peer="192.0.2.3") == 10


async def test_a_scale_is_for_all_limits_of_a_rule(limited: Limited) -> None:
    ask = limited(rules(rule={"limit": ["9/minute", "1/hour"]}))
    assert await admitted(ask, "pro") == 3


async def test_an_override_goes_before_the_tier(limited: Limited) -> None:
    ask = limited(rules(rule={"overrides": {"192.0.2.9": "1/minute"}}))
    assert await admitted(ask, "staff", peer="192.0.2.9") == 1
    assert await admitted(ask, "pro", peer="192.0.2.8") == 6


async def test_the_tiers_of_a_request_share_the_bucket(limited: Limited) -> None:
    ask = limited(rules())
    assert await admitted(ask, "pro") == 6
    assert await admitted(ask, "free") == 0
    assert await admitted(ask, "free", peer="192.0.2.2") == 2
    assert await admitted(ask, "pro", peer="192.0.2.2") == 4


async def test_a_rule_without_tiers_is_the_same_for_all(limited: Limited) -> None:
    ask = limited({**rules(), "default": "4/minute"})
    assert await admitted(ask, "pro", path="/other") == 4


async def test_the_function_is_asked_once_a_request(limited: Limited) -> None:
    asked.clear()
    await limited(rules(rule={"limit": ["9/minute", "9/hour"]}))("/api", x_plan="pro")
    assert asked == ["pro"]


async def test_a_function_that_fails_is_told_once_a_minute(
    limited: Limited, caplog: pytest.LogCaptureFixture
) -> None:
    ask = limited(rules())
    assert await admitted(ask, "broken") == 2
    lines = [record for record in caplog.records if "told no tier" in record.message]
    assert [record.levelno for record in lines] == [logging.ERROR]
    assert lines[0].exc_info


async def test_an_async_function_is_awaited(
    clock: ManualClock, asgi_client: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    from ratelimit_middleware.asgi import RateLimitMiddleware
    from tests.test_asgi import BODY, START, sending

    client = asgi_client(RateLimitMiddleware(sending(START, BODY), rules("plan_of_async"), clock=clock))
    for plan, passes in (("free", 2), ("pro", 4), ("staff", 10)):
        seen = [(await client.get("/api", headers={"x-plan": plan})).status_code for _ in range(10)]
        assert seen.count(200) == passes, plan
    assert (await client.get("/api", headers={"x-plan": "broken"})).status_code == 429
    assert "told no tier" in caplog.text


def test_wsgi_refuses_an_async_function_when_it_is_built() -> None:
    with pytest.raises(RuleFileError, match="plan_of_async"):
        RateLimitMiddleware(lambda *_: [], rules("plan_of_async"))


async def test_a_header_of_a_proxy_tells_the_tier(limited: Limited) -> None:
    by_header = {**rules(), "tiers": {"by": "header:X-Plan", "trusted": True, **PLANS}}
    assert await admitted(limited(by_header), "pro") == 6
    client = {"trusted_proxies": "10.0.0.1", "header": "x-forwarded-for"}
    ask = limited({**by_header, "client": client})
    assert await admitted(ask, "pro", peer="10.0.0.1", x_forwarded_for="198.51.100.7") == 6
    assert await admitted(ask, "pro", peer="198.51.100.8", x_forwarded_for="198.51.100.9") == 2


def test_rules_of_one_bucket_have_the_same_tiers(tmp_path: Path) -> None:
    shared = {"limit": "2/minute", "bucket": "b", "tiers": True}
    two = {**rules(), "limits": {"/a": shared, "/b": shared}}
    assert len(load_rules(two).limits) == 2
    with pytest.raises(RuleFileError, match="other limits"):
        load_rules({**two, "limits": {"/a": shared, "/b": {**shared, "tiers": {"pro": {"scale": 9}}}}})


def test_a_tier_waits_no_longer_than_its_places_take() -> None:
    queue = {"limit": "10/second", "behavior": "queue", "queue": {"max_wait": "2s", "max_waiting": 5}}
    (rule,) = load_rules(rules(rule=queue, pro={"scale": 10})).limits
    choose = rule.limits[0].choose
    assert isinstance(choose, Tiers)
    waits = {name: limit and limit.max_wait_ns for name, limit in choose.limits.items()}
    assert waits == {"free": 500_000_000, "pro": 50_000_000, "staff": None}


def test_lint_looks_into_the_overrides_beside_tiers() -> None:
    ruleset = load_rules(rules(rule={"overrides": {"not-an-address": "9/minute"}}))
    from datetime import date

    assert [warning.code for warning in lint(ruleset, today=date(2026, 1, 1))] == ["RL204"]


def alternate(small: Algorithm, large: Algorithm, seed: int) -> list[Hit]:
    """The admissions of one key whose requests are of either tier."""
    chance = random.Random(seed)  # noqa: S311 - a test
    clock = ManualClock(1_700_000_000)
    store = MemoryStore(clock=clock)
    hits = []
    for _ in range(400):
        clock.advance(chance.choice([0, 0, 0, 0.001, 0.01, 0.1, 0.5, 1.0]))
        algorithm = large if chance.random() < chance.choice([0.1, 0.5, 0.9]) else small
        (decision,) = store.take([Check("key", algorithm, "overflow", chance.choice([1, 1, 2]))])
        if decision.allowed:
            hits.append(Hit(decision.at_ns, 1))
    return hits


@pytest.mark.parametrize("seed", range(20))
def test_a_key_that_changes_its_tier_never_gets_more_than_the_largest(seed: int) -> None:
    window, steady = SlidingWindow(10, 5), GCRA(10, 5, 5)
    check_at_most(alternate(window, window.scaled(3), seed), 5 * 10**9, 30)
    check_envelope(alternate(steady, steady.scaled(3), seed), lambda t: 15 + t * 6 // 10**9)


def test_going_there_and_back_at_one_moment_mints_nothing(clock: ManualClock) -> None:
    registry = LimiterRegistry(load_rules(rules()), MemoryStore(clock=clock))
    plans = ["pro", "free"] * 20
    views = [WsgiView({"PATH_INFO": "/api", "REMOTE_ADDR": "a", "HTTP_X_PLAN": plan}) for plan in plans]
    assert sum(registry.admit(view).allowed for view in views) == 6
