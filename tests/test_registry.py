"""From a request view to a verdict."""

from __future__ import annotations

import pytest

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import UNCHECKED, Decision, Policy, Verdict
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.identity import KeyPart
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import WsgiView
from ratelimit_middleware.rules.model import Limit, Route, Rule, RuleSet
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.verdicts import judged
from tests.awaited import AwaitedStore

pytestmark = pytest.mark.arithmetic

NOTHING_CHECKED = Verdict(allowed=True, wait_ns=0, retry_after_ns=None)
SECOND = 1_000_000_000


def limit(name: str, count: int, *, period: float = 60, key: str = "ip", shadow: bool = False) -> Limit:
    algorithm = SlidingWindow(count, period)
    policy = Policy(name, algorithm.quota, algorithm.window_ns, f"{count}/{period}s")
    return Limit(policy, algorithm, (KeyPart(key),), name, shadow)  # type: ignore[arg-type]  # short tests


def rules(*limits: Limit, default: Limit | None = None) -> RuleSet:
    route = Route("/items/{id}", None, "/items/{id}")
    items = Rule("items", (route,), limits)
    return RuleSet((items,), default=Rule("default", limits=(default,)) if default else None)


def view(path: str = "/items/1", method: str = "GET", peer: str = "192.0.2.7") -> WsgiView:
    return WsgiView({"REQUEST_METHOD": method, "PATH_INFO": path, "REMOTE_ADDR": peer})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000)


def registry(ruleset: RuleSet, clock: ManualClock) -> LimiterRegistry:
    return LimiterRegistry(ruleset, MemoryStore(clock=clock))


def test_a_request_without_a_rule_is_admitted_with_nothing_to_tell(clock: ManualClock) -> None:
    verdict = registry(rules(limit("items", 1)), clock).admit(view("/other"))
    assert verdict == NOTHING_CHECKED


def test_each_client_has_a_bucket_of_its_own_over_all_paths_of_the_rule(clock: ManualClock) -> None:
    limiter = registry(rules(limit("items", 1)), clock)
    assert limiter.admit(view("/items/1")).allowed
    assert not limiter.admit(view("/items/2")).allowed
    assert limiter.admit(view("/items/1", peer="192.0.2.8")).allowed


def test_a_route_key_splits_by_the_pattern_never_by_the_path(clock: ManualClock) -> None:
    limiter = registry(rules(limit("items", 1, key="route")), clock)
    assert [limiter.admit(view(f"/items/{n}", peer=f"192.0.2.{n}")).allowed for n in (1, 2)] == [True, False]


def test_the_refusing_limit_with_the_longest_wait_binds(clock: ManualClock) -> None:
    limiter = registry(rules(limit("a", 1, period=10), limit("b", 1, period=30), limit("c", 5)), clock)
    limiter.admit(view())
    verdict = limiter.admit(view())
    assert verdict.binding
    assert verdict.binding.policy.name == "b"
    assert verdict.retry_after_ns == 30 * SECOND
    assert verdict.violated == ("a", "b")


def test_obeying_the_longest_wait_of_several_limits_works(clock: ManualClock) -> None:
    limiter = registry(rules(limit("a", 2, period=10), limit("b", 3, period=30)), clock)
    for _ in range(20):
        verdict = limiter.admit(view())
        if not verdict.allowed:
            assert verdict.retry_after_ns
            clock.set_ns(clock.now_ns() + verdict.retry_after_ns)
            assert limiter.admit(view()).allowed


def test_when_admitted_the_limit_with_the_least_share_left_binds(clock: ManualClock) -> None:
    verdict = registry(rules(limit("a", 2), limit("b", 10)), clock).admit(view())
    assert verdict.binding
    assert (verdict.binding.policy.name, verdict.binding.decision.remaining) == ("a", 1)


def test_shadow_limits_never_refuse_and_are_told_apart(clock: ManualClock) -> None:
    limiter = registry(rules(limit("a", 5), limit("watch", 1, shadow=True)), clock)
    limiter.admit(view())
    verdict = limiter.admit(view())
    assert verdict.allowed
    assert [outcome.policy.name for outcome in verdict.outcomes] == ["a"]
    assert [outcome.decision.allowed for outcome in verdict.shadows] == [False]
    assert verdict.binding == verdict.outcomes[0]


def test_the_default_rule_has_one_bucket_a_client_over_all_routes(clock: ManualClock) -> None:
    limiter = registry(rules(limit("items", 9), default=limit("default", 1)), clock)
    assert limiter.admit(view("/a")).allowed
    assert not limiter.admit(view("/b")).allowed
    assert limiter.admit(view("/items/1")).allowed


def test_no_waiting_helps_if_one_of_the_limits_says_so() -> None:
    never = Decision(False, 0, 0, None, 5, 5, 0)  # noqa: FBT003
    later = Decision(False, 0, 0, SECOND, 5, 0, SECOND)  # noqa: FBT003
    verdict = judged([limit("a", 5), limit("b", 5)], [later, never])
    assert verdict.retry_after_ns is None
    assert verdict.binding
    assert verdict.binding.policy.name == "b"


def test_a_limit_that_was_let_through_unchecked_is_not_among_the_outcomes() -> None:
    now = Decision(True, 0, 0, None, 5, 4, 0)  # noqa: FBT003
    verdict = judged([limit("a", 5), limit("b", 5)], [UNCHECKED, now])
    assert [outcome.policy.name for outcome in verdict.outcomes] == ["b"]
    assert verdict.binding == verdict.outcomes[0]


def test_a_request_of_which_nothing_was_checked_is_admitted_with_nothing_to_tell() -> None:
    assert judged([limit("a", 5), limit("b", 5)], [UNCHECKED] * 2) == NOTHING_CHECKED


def test_the_wait_of_an_admitted_request_is_the_longest_asked_for() -> None:
    now = Decision(True, 0, 0, None, 5, 5, 0)  # noqa: FBT003
    later = now._replace(at_ns=SECOND, wait_ns=SECOND)
    assert judged([limit("a", 5), limit("b", 5)], [now, later]).wait_ns == SECOND


@pytest.mark.anyio
async def test_an_awaited_store_gives_the_same_verdicts(clock: ManualClock) -> None:
    ruleset = rules(limit("a", 2), default=limit("default", 1))
    threaded = registry(ruleset, clock)
    awaited = LimiterRegistry(ruleset, AwaitedStore(MemoryStore(clock=clock)))
    for path in ("/items/1", "/items/2", "/other", "/items/3", "/other"):
        verdict = threaded.admit(view(path))
        assert verdict == await awaited.admit_async(view(path))
    assert await threaded.admit_async(view("/other")) == threaded.admit(view("/other"))


def test_an_awaited_store_is_refused_where_nothing_can_be_awaited(clock: ManualClock) -> None:
    awaited = LimiterRegistry(rules(limit("a", 2)), AwaitedStore(MemoryStore(clock=clock)))
    with pytest.raises(StoreError, match="must be awaited"):
        awaited.admit(view())
