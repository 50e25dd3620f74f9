"""The memory store does what the arithmetic says: both are driven with the same trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.stores import memory
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore
from tests.properties.cases import Call, Case, cases
from tests.properties.kinds import KINDS
from tests.properties.laws import START_NS

pytestmark = pytest.mark.arithmetic

alike = settings(max_examples=20 * len(KINDS))


@pytest.fixture(autouse=True, scope="module")
def _nothing_is_swept() -> Iterator[None]:
    """When an expired bucket goes is the store's own affair; that it may go is a law of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "_SWEEP_KEYS", 0)
        yield


class Bucket:
    """One bucket, moved by the pure functions alone; it begins when something is first taken."""

    def __init__(self, algorithm: Any) -> None:
        self.algorithm = algorithm
        self.state: State | None = None

    def at(self, now_ns: int) -> State:
        return self.algorithm.start(now_ns) if self.state is None else self.state

    def ask(self, now_ns: int, check: Check, max_wait_ns: int | None, from_ns: int) -> tuple[Decision, State]:
        return self.algorithm.take(self.at(now_ns), now_ns, check.cost, max_wait_ns, from_ns)  # type: ignore[no-any-return]

    def take(self, now_ns: int, check: Check) -> Decision:
        decision, state = self.ask(now_ns, check, check.max_wait_ns, 0)
        if decision.allowed or self.state is not None:
            self.state = state
        return decision


def take_both(buckets: list[Bucket], now_ns: int, checks: list[Check]) -> list[bool]:
    """The rule for several checks, in its plainest form: ask for a start until nobody asks for a later one.

    Returns:
        Who would admit; all have taken if all do, else nobody has.
    """
    start_ns = now_ns
    for left in reversed(range(8)):
        patience_ns = checks[0].max_wait_ns or start_ns - now_ns
        answers = [
            bucket.ask(now_ns, check, patience_ns, start_ns)
            for bucket, check in zip(buckets, checks, strict=True)
        ]
        latest_ns = max((decision.at_ns for decision, _ in answers if decision.allowed), default=start_ns)
        if latest_ns <= start_ns or not left:
            break
        start_ns = latest_ns
    admits = [decision.allowed and decision.at_ns <= start_ns for decision, _ in answers]
    if all(admits):
        for bucket, (_, state) in zip(buckets, answers, strict=True):
            bucket.state = state
    return admits


@alike
@given(cases())
def test_the_store_decides_what_the_pure_function_decides(case: Case) -> None:
    """Bookings that are given back, debts and a look in between included."""
    clock, bucket = ManualClock(START_NS // 10**9), Bucket(case.algorithm)
    store, now_ns = MemoryStore(clock=clock), START_NS
    for call in case.trace:
        now_ns += call.after_ns
        clock.set_ns(now_ns)
        check = Check("key", case.algorithm, "limit|*", call.cost, call.max_wait_ns)
        assert store.peek(check) == case.algorithm.peek(bucket.at(now_ns), now_ns, call.cost)
        decision = bucket.take(now_ns, check)
        assert store.take([check]) == [decision]
        if decision.allowed and call.leaves is not None:
            store.give_back(check, decision.at_ns)
            bucket.state = case.algorithm.give_back(bucket.at(now_ns), now_ns, call.cost, decision.at_ns)
        elif call.leaves == 7:
            store.charge(check)
            bucket.state = case.algorithm.charge(bucket.at(now_ns), now_ns, call.cost)


# A cost above the capacity never goes at the moment it is asked for: each round asks for a later start.
ENDLESS = Case("QpsWindow", QpsWindow(9), (Call(0, 2),), wait_ns=10**9, other=TokenBucket(1, 1e-9))


@alike
@given(case=cases(), waiting=st.booleans())
@example(case=ENDLESS, waiting=True)
def test_two_checks_of_a_request_are_decided_by_the_plain_rule(case: Case, waiting: bool) -> None:
    clock, buckets = ManualClock(START_NS // 10**9), [Bucket(case.algorithm), Bucket(case.other)]
    store, now_ns = MemoryStore(clock=clock), START_NS
    for call in case.trace:
        now_ns += call.after_ns
        clock.set_ns(now_ns)
        wait_ns = case.wait_ns if waiting else 0
        checks = [Check(str(i), b.algorithm, f"{i}|*", call.cost, wait_ns) for i, b in enumerate(buckets)]
        before = [(bucket.state, bucket.at(now_ns)) for bucket in buckets]
        admits = take_both(buckets, now_ns, checks)
        decisions = store.take(checks)
        assert [decision.allowed for decision in decisions] == admits
        if all(admits):
            assert len({decision.at_ns for decision in decisions}) == 1
        else:
            assert [bucket.state for bucket in buckets] == [state for state, _ in before]
        for bucket, check in zip(buckets, checks, strict=True):
            assert store.peek(check) == bucket.algorithm.peek(bucket.at(now_ns), now_ns, check.cost)
