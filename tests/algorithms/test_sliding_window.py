"""SlidingWindow: exact while small, bounded in memory, hard in its limit."""

from __future__ import annotations

import pytest

from ratelimit_middleware.algorithms.base import AdoptMode
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.errors import InvalidLimitError
from tests.properties import laws

pytestmark = pytest.mark.arithmetic

SECOND = 1_000_000_000
ENTRY_BYTES = 20


def test_no_double_burst_at_any_border() -> None:
    window = SlidingWindow(100, 60)
    state, admitted = window.start(0), []
    for at_s in (59.9, 60.1, 119.8, 119.9):
        now_ns = int(at_s * SECOND)
        admitted.append(laws.capacity(window, state, now_ns))
        for _ in range(admitted[-1]):
            _, state = window.take(state, now_ns)
    assert admitted == [100, 0, 0, 100]


def test_permits_come_back_one_by_one_as_their_hits_leave() -> None:
    window = SlidingWindow(2, 10)
    _, state = window.take(window.start(0), 0)
    _, state = window.take(state, 3 * SECOND)
    refusal = window.peek(state, 4 * SECOND)
    assert (refusal.retry_after_ns, refusal.reset_after_ns) == (6 * SECOND, 6 * SECOND)
    decision, state = window.take(state, 10 * SECOND)
    assert (decision.allowed, decision.remaining, decision.reset_after_ns) == (True, 0, 3 * SECOND)


def test_while_permits_are_left_reset_tells_when_all_are_back() -> None:
    window = SlidingWindow(3, 10)
    _, state = window.take(window.start(0), 0)
    decision, _ = window.take(state, 4 * SECOND)
    assert (decision.remaining, decision.reset_after_ns) == (1, 10 * SECOND)


def test_up_to_64_hits_are_kept_exactly() -> None:
    window = SlidingWindow(64, 64)
    state = window.start(0)
    for hit in range(64):
        _, state = window.take(state, hit * SECOND // 2)
    for hit in range(64):
        due_ns = 64 * SECOND + hit * SECOND // 2
        assert window.used(state, due_ns - 1) == 64 - hit
        assert window.used(state, due_ns) == 63 - hit


@pytest.mark.parametrize("rate", [65, 100, 1000, 10_000])
def test_the_log_stays_bounded_and_permits_come_back_a_64th_late_at_most(rate: int) -> None:
    window = SlidingWindow(rate, 1)
    state, now_ns, admitted = window.start(0), 0, []
    for tick in range(3 * rate):
        now_ns = tick * SECOND // rate
        decision, state = window.take(state, now_ns)
        if decision.allowed:
            admitted.append(now_ns)
        assert len(state[1]) <= 65 * ENTRY_BYTES
    for probe in range(0, SECOND, SECOND // 50):
        at_ns = now_ns + probe
        young = sum(hit > at_ns - SECOND for hit in admitted)
        young_or_late = sum(hit > at_ns - SECOND - SECOND // 64 - 1 for hit in admitted)
        assert young <= window.used(state, at_ns) <= young_or_late


def test_random_hits_keep_the_log_at_65_entries() -> None:
    """Clusters and gaps of every size around a 64th of the period."""
    window = SlidingWindow(10**6, 64)
    state, now_ns = window.start(0), 0
    for step in range(20_000):
        now_ns += (step * 7919) % 2003 * SECOND // 1000 * (step % 3) // 2
        _, state = window.take(state, now_ns)
        assert len(state[1]) <= 65 * ENTRY_BYTES


def test_bookings_far_ahead_keep_the_log_bounded_too() -> None:
    window = SlidingWindow(70, 1)
    state = window.start(0)
    for hit in range(3000):
        decision, state = window.take(state, hit * SECOND // 1000, 1, None)
        assert decision.allowed
        assert len(state[1]) <= 65 * ENTRY_BYTES


def test_hits_before_a_booking_ahead_stay_in_order() -> None:
    window = SlidingWindow(3, 10)
    ahead, state = window.take(window.start(0), 0, 1, 5 * SECOND, 5 * SECOND)
    _, state = window.take(state, SECOND)
    _, state = window.take(state, 2 * SECOND)
    assert ahead.at_ns == 5 * SECOND
    assert window.peek(state, 3 * SECOND).retry_after_ns == 8 * SECOND


def test_a_cost_above_the_limit_is_never_admitted() -> None:
    window = SlidingWindow(5, 1)
    decision, _ = window.take(window.start(0), 0, 6, None)
    assert (decision.allowed, decision.retry_after_ns, decision.remaining) == (False, None, 5)


def test_giving_back_a_hit_that_has_left_changes_nothing() -> None:
    window = SlidingWindow(2, 1)
    first, state = window.take(window.start(0), 0)
    _, state = window.take(state, SECOND // 2)
    later = window.give_back(state, SECOND, 1, first.at_ns)
    assert later == window.step(state, SECOND)
    assert window.used(later, SECOND) == 1


def test_scaling_the_limit_keeps_the_used_share_not_more() -> None:
    old, new = SlidingWindow(100, 60), SlidingWindow(10, 60)
    state = old.start(0)
    for hit in range(65):
        _, state = old.take(state, hit * SECOND // 2)
    now_ns = 33 * SECOND
    assert new.used(new.adopt(state, now_ns, old, "scale"), now_ns) == 7
    assert new.used(new.adopt(state, now_ns, old, "keep"), now_ns) == 65
    assert new.used(new.adopt(state, now_ns, old, "reset"), now_ns) == 0


@pytest.mark.parametrize("mode", ["keep", "scale", "reset"])
def test_a_limit_of_nothing_is_left_for_another_kind(mode: AdoptMode) -> None:
    nothing, window = WarmUp(0, 10), SlidingWindow(20, 10)
    state = window.adopt(nothing.start(SECOND), SECOND, nothing, mode)
    assert window.used(state, SECOND) == 0


def test_use_is_carried_over_from_another_kind_of_limit() -> None:
    bucket, window = GCRA(10, 10, 10), SlidingWindow(20, 10)
    _, state = bucket.take(bucket.start(0), 0, 4)
    assert window.used(window.adopt(state, 0, bucket, "keep"), 0) == 4
    assert window.used(window.adopt(state, 0, bucket, "scale"), 0) == 8


@pytest.mark.parametrize("limit", [0, -3, 2.5, True, 10**9 + 1, "many"])
def test_a_limit_that_makes_no_sense_is_refused(limit: int) -> None:
    with pytest.raises(InvalidLimitError, match="limit="):
        SlidingWindow(limit, 1)


@pytest.mark.parametrize("period", [0, -1, float("inf"), float("nan"), "1s", None])
def test_a_period_that_makes_no_sense_is_refused(period: float) -> None:
    with pytest.raises(InvalidLimitError, match="period="):
        SlidingWindow(1, period)
