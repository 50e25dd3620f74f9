"""Limits in the place of others: tiers, overrides and functions beside slots, queues, costs and penalties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from ratelimit_middleware._types import Environ, StartResponse, WSGIApp
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import WsgiView
from ratelimit_middleware.rules.choices import Overrides
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.tiers import Tiers
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.wsgi import RateLimitMiddleware

PLANS = "python:tests.test_tiers:plan_of"
OWN = "python:tests.rules.app_functions:plan_limit"
QUEUE: dict[str, Any] = {"behavior": "queue", "queue": {"max_wait": "2s", "max_waiting": 5}}


def file_of(rule: dict[str, Any], **tiers: Any) -> dict[str, Any]:
    block = {"by": PLANS, "free": {"scale": 1}, "pro": "6/minute", "big": {"scale": 3}, "staff": "unlimited"}
    return {"tiers": {**block, **tiers}, "limits": {"/x": {"name": "x", **rule}}}


def environ(plan: str = "", **more: str) -> Environ:
    plans = {"HTTP_X_PLAN": plan} if plan else {}
    return {"REQUEST_METHOD": "GET", "PATH_INFO": "/x", "REMOTE_ADDR": "192.0.2.1", **plans, **more}


class Door:
    """An app behind rules, whose requests stay in progress until they are told to leave."""

    def __init__(self, rules: dict[str, Any], clock: ManualClock, *, status: str = "200 OK") -> None:
        self.store = MemoryStore(clock=clock)
        self.status = status
        self.app: WSGIApp = RateLimitMiddleware(self._inner, rules, store=self.store, clock=clock)
        self.inside: list[tuple[Iterable[bytes], Iterator[bytes]]] = []

    def _inner(self, _environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
        start_response(self.status, [])
        yield b"in progress"
        yield b"done"

    def enter(self, plan: str = "", **more: str) -> bool:
        """Send a request; whether the app is called. It stays in progress."""
        seen: list[str] = []

        def start_response(status: str, *_: Any) -> Callable[[bytes], object]:
            seen.append(status)
            return lambda _: None

        body = self.app(environ(plan, **more), start_response)
        steps = iter(body)
        next(steps)
        if seen[0].startswith("429"):
            return False
        self.inside.append((body, steps))
        return True

    def leave(self) -> None:
        """All that is in progress comes to its end."""
        for body, steps in self.inside:
            assert list(steps) == [b"done"]
            getattr(body, "close", lambda: None)()
        self.inside.clear()

    def state(self, bucket: str) -> Any:
        """What the store holds of a bucket."""
        return self.store._buckets[bucket].state


def entered(door: Door, plan: str = "", tries: int = 10, **more: str) -> int:
    return sum(door.enter(plan, **more) for _ in range(tries))


# Slots


@pytest.mark.parametrize(
    ("plan", "at_once"), [("", 2), ("free", 2), ("pro", 2), ("big", 6), ("staff", 10), ("gold", 2)]
)
@pytest.mark.parametrize("limit", [{}, {"limit": "900/minute"}], ids=["alone", "beside a limit"])
def test_a_limit_of_a_tiers_own_leaves_the_slots_and_a_scale_is_for_them(
    plan: str, at_once: int, limit: dict[str, Any], clock: ManualClock
) -> None:
    tiers: dict[str, Any] = {"pro": "500/minute"}
    door = Door(file_of({**limit, "concurrency": 2, "tiers": True}, **tiers), clock)
    for _ in range(3):  # what comes back is what was taken, each time
        assert entered(door, plan) == at_once
        door.leave()
    assert plan == "staff" or door.state("x%23in-progress|192.0.2.1") == ()


def test_a_limit_of_a_tiers_own_is_not_given_back_with_the_slots(clock: ManualClock) -> None:
    door = Door(file_of({"limit": "4/minute", "concurrency": 1, "tiers": True}), clock)
    passed = 0
    for _ in range(20):
        passed += door.enter("pro")
        door.leave()
    assert passed == 6


def test_slots_of_changing_tiers_never_exceed_the_largest_and_all_come_back(clock: ManualClock) -> None:
    door = Door(file_of({"concurrency": 2, "tiers": True}), clock)
    assert (entered(door, "free"), entered(door, "big"), entered(door, "pro"), entered(door)) == (2, 4, 0, 0)
    door.leave()
    assert door.state("x%23in-progress|192.0.2.1") == ()
    assert entered(door, "big") == 6


def test_an_override_and_a_function_leave_the_slots_too(clock: ManualClock) -> None:
    rule: dict[str, Any] = {"limit": "9/minute", "concurrency": 2, "overrides": {"192.0.2.*": "4/minute"}}
    for limits in (rule, {"limit": OWN, "concurrency": 2}):
        door = Door({"limits": {"/x": {"name": "x", **limits}}}, clock)
        assert entered(door, HTTP_X_LIMIT="4/minute") == 2
        door.leave()
        assert entered(door, HTTP_X_LIMIT="4/minute") == 2
        door.leave()
        assert entered(door, HTTP_X_LIMIT="4/minute") == 0


def test_a_rule_with_slots_alone_refuses_a_limit_for_a_tier() -> None:
    with pytest.raises(RuleFileError, match=r"the tier `pro` takes the place of a `limit`, and this rule"):
        load_rules(file_of({"concurrency": 2, "tiers": {"pro": "6/minute"}}))


# What is given back, charged and counted


@pytest.mark.parametrize("plan", ["pro", "big", "free"])
@pytest.mark.parametrize("overrides", [{}, {"192.0.2.*": "5/minute"}], ids=["tier", "override"])
def test_what_does_not_count_comes_back_to_the_limit_that_was_chosen(
    plan: str, overrides: dict[str, str], clock: ManualClock
) -> None:
    rule: dict[str, Any] = {"limit": "2/minute", "charge": {"on_status": 401}, "tiers": True}
    door = Door(file_of({**rule, "overrides": overrides} if overrides else rule), clock)
    assert entered(door, plan, tries=30) == 30
    door.leave()
    door.status = "401 Unauthorized"
    most = 5 if overrides else {"pro": 6, "big": 6, "free": 2}[plan]
    assert entered(door, plan, tries=30) == most
    door.leave()
    assert entered(door, plan) == 0


def test_a_cost_that_is_settled_mints_nothing_under_a_tier(clock: ManualClock) -> None:
    rule = {"limit": "20/minute", "cost": {"reserve": 10, "actual": "bytes"}, "tiers": {"pro": "40/minute"}}
    door = Door(file_of(rule), clock)
    assert entered(door, "pro") == 4
    door.leave()  # 15 bytes each: 60 in the place of 40
    clock.advance(59)
    assert entered(door, "pro") == 0
    clock.advance(1)
    assert entered(door, "pro") == 4


@pytest.mark.parametrize("plan", ["pro", "free"])
def test_refusals_by_the_limit_of_a_tier_are_counted_by_the_penalty(plan: str, clock: ManualClock) -> None:
    rule = {"limit": "2/minute", "tiers": True, "penalty": {"after": 3, "block": "10m"}, "concurrency": 50}
    registry = LimiterRegistry(load_rules(file_of(rule)), MemoryStore(clock=clock))
    while registry.admit(WsgiView(environ(plan))).allowed:
        pass
    answers = [registry.admit(WsgiView(environ(plan))).retry_after_ns for _ in range(3)]
    assert answers == [60 * 10**9, 600 * 10**9, 600 * 10**9]
    assert registry.admit(WsgiView(environ("staff"))).allowed


# Periods


@pytest.mark.parametrize(
    ("rule", "tier"),
    [
        ({"limit": "3/day"}, "100/second"),
        ({"limit": "3/day"}, "100/second burst 50"),
        ({"limit": "3/month"}, "100/second"),
        ({"limit": {"count": 3, "per": "day", "algorithm": "fixed_window"}}, "100/day"),
    ],
)
def test_a_tier_of_another_period_makes_no_other_tier_forget(
    rule: dict[str, Any], tier: str, clock: ManualClock
) -> None:
    """In one bucket each request of the short period would drop the hits of the long one."""
    registry = LimiterRegistry(
        load_rules(file_of({**rule, "tiers": True}, pro=tier)), MemoryStore(clock=clock)
    )
    free = 0
    for _ in range(50):
        clock.advance(2)
        free += registry.admit(WsgiView(environ("free"))).allowed
        registry.admit(WsgiView(environ("pro")))
    assert free == 3


def test_tiers_of_one_period_share_the_bucket(clock: ManualClock) -> None:
    door = Door(file_of({"limit": "2/minute", "tiers": True}), clock)
    assert (entered(door, "pro"), entered(door, "free")) == (6, 0)


def test_a_function_that_tells_periods_in_turn_makes_none_of_them_forget(clock: ManualClock) -> None:
    registry = LimiterRegistry(load_rules({"limits": {"/x": OWN}}), MemoryStore(clock=clock))
    free = 0
    for _ in range(50):
        clock.advance(2)
        free += registry.admit(WsgiView(environ(HTTP_X_LIMIT="3/day"))).allowed
        registry.admit(WsgiView(environ(HTTP_X_LIMIT="100/second")))
    assert free == 3


# Queues


def waits(rule: dict[str, Any], **tiers: Any) -> dict[str, tuple[str, float] | None]:
    """The algorithm and the longest wait, seconds, of what may take the place of the rule's limit."""
    (made,) = load_rules(file_of(rule, **tiers) if "tiers" in rule else {"limits": {"/x": rule}}).limits
    choose = made.limits[0].choose
    assert isinstance(choose, (Overrides, Tiers))
    others: Mapping[str, Limit | None] = choose.exact if isinstance(choose, Overrides) else choose.limits
    return {
        name: (type(limit.algorithm).__name__, limit.max_wait_ns / 10**9) if limit else None
        for name, limit in others.items()
    }


def test_an_override_waits_no_longer_than_its_own_places_take() -> None:
    overrides = {
        "slow": "1/second",
        "fast": "100/second",
        "none": {"count": 1, "per": "second"},
        "own": {
            "count": 1,
            "per": "second",
            "behavior": "queue",
            "queue": {"max_waiting": 3, "max_wait": "9s"},
        },
    }
    made = {"slow": ("GCRA", 2), "fast": ("GCRA", 0.05), "none": ("SlidingWindow", 0), "own": ("GCRA", 3)}
    assert waits({"limit": "10/second per user", "overrides": overrides, **QUEUE}) == made
    made |= {"slow": ("SlidingWindow", 0), "fast": ("SlidingWindow", 0)}
    assert waits({"limit": "10/second per user", "overrides": overrides}) == made
    long = {"limit": {"count": 10, "per": "second", "key": "user", **QUEUE}, "overrides": overrides}
    assert waits(long) == made


def test_the_queue_of_a_long_limit_is_not_that_of_a_tiers_own() -> None:
    made = waits(
        {"limit": {"count": 10, "per": "second", **QUEUE}, "tiers": True}, pro="5/second", big={"scale": 4}
    )
    assert made == {
        "free": ("GCRA", 0.5),
        "pro": ("SlidingWindow", 0),
        "big": ("GCRA", 0.125),
        "staff": None,
    }


def test_an_override_of_a_long_warm_up_is_as_it_is_written() -> None:
    limit = {"count": 10, "per": "second", "key": "user", "behavior": "warm_up", "warm_up": "30s"}
    assert waits({"limit": limit, "overrides": {"ada": "5/second"}}) == {"ada": ("SlidingWindow", 0)}


@pytest.mark.parametrize(
    ("behavior", "text"),
    [
        ({"behavior": "warm_up", "warm_up": "30s"}, "20/second burst 5"),
        ({"behavior": "warm_up", "warm_up": "30s"}, "20/month"),
        ({"behavior": "warm_up_queue", "warm_up": "30s"}, "20/month"),
        (QUEUE, "20/year"),
    ],
)
def test_numbers_that_the_behavior_of_the_rule_cannot_do_are_refused(
    behavior: dict[str, Any], text: str
) -> None:
    rule = {"limit": "10/second", **behavior}
    with pytest.raises(RuleFileError, match=f"`{text}` does not go with `behavior: {behavior['behavior']}`"):
        load_rules(file_of({**rule, "tiers": {"pro": text}}))
    with pytest.raises(RuleFileError, match=r"does not go with|without overrides"):
        load_rules({"limits": {"/x": {**rule, "overrides": {"192.0.2.1": text}}}})


def test_an_override_may_shut_out_but_not_be_of_a_kind_that_cannot_settle() -> None:
    cost = {"reserve": 5, "actual": "bytes"}
    rule: dict[str, Any] = {"limit": "10/second", "cost": cost, "overrides": {"192.0.2.1": "2/second"}}
    assert waits(rule) == {"192.0.2.1": ("SlidingWindow", 0)}
    rule["overrides"] = {"192.0.2.1": {"count": 20, "per": "second", "algorithm": "smooth_bursty"}}
    with pytest.raises(RuleFileError, match="cannot settle it later"):
        load_rules({"limits": {"/x": rule}})
