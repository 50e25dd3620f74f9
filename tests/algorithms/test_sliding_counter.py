"""SlidingCounter: the estimate, where it errs, and its exact moments."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.errors import InvalidLimitError
from tests.properties.laws import Hit, capacity, check_at_most

pytestmark = pytest.mark.arithmetic

MS = 1_000_000
SECOND = 1_000_000_000
NOW = 1_700_000_040 * SECOND  # a full minute
TEN = SlidingCounter(10, 60)


def taken(*hits: tuple[float, int]) -> State:
    """The state of ten a minute after hits (seconds after NOW, permits), all of them admitted."""
    state: State = ()
    for at_s, cost in hits:
        decision, state = TEN.take(state, NOW + int(at_s * SECOND), cost)
        assert decision.allowed
    return state


@pytest.mark.parametrize(
    ("at_s", "left"), [(60, 0), (65, 0), (65.999_999_999, 0), (66, 1), (90, 5), (119.999, 9), (120, 10)]
)
def test_the_last_period_counts_with_the_share_that_still_lies_in_the_window(at_s: float, left: int) -> None:
    state = taken((5, 10))
    now_ns = NOW + int(at_s * SECOND)
    assert (capacity(TEN, state, now_ns), TEN.peek(state, now_ns).remaining) == (left, max(0, left - 1))


def test_almost_twice_the_limit_can_pass_within_one_period() -> None:
    """The most there is: ten at the end of a minute, nine until just before they are a minute old."""
    state = taken((59.999, 10))
    hits = [Hit(NOW + 59_999 * MS, 10)]
    for now_ns in range(NOW + 60 * SECOND, NOW + 119_999 * MS, 500 * MS):
        decision, state = TEN.take(state, now_ns)
        if decision.allowed:
            hits.append(Hit(now_ns, 1))
    assert sum(hit.cost for hit in hits) == 2 * TEN.limit - 1
    assert hits[-1].at_ns - hits[0].at_ns < 60 * SECOND
    check_at_most(hits, 60 * SECOND, 2 * TEN.limit - 1)


@pytest.mark.parametrize(
    ("now_s", "cost", "retry_s"),
    [(5, 1, 61), (5, 5, 85), (65, 1, 1), (65, 5, 25), (65, 10, 55), (65, 11, None)],
)
def test_a_refused_take_tells_the_exact_moment(now_s: int, cost: int, retry_s: int | None) -> None:
    state = taken((5, 10))
    decision = TEN.peek(state, NOW + now_s * SECOND, cost)
    assert decision.retry_after == retry_s


def test_moments_are_rounded_up_to_the_next_nanosecond() -> None:
    algorithm = SlidingCounter(3, 1e-6)
    _, state = algorithm.take((), NOW, 3)
    assert algorithm.peek(state, NOW).retry_after_ns == 1000 + 334


def test_bookings_ahead_take_the_first_moments_with_room() -> None:
    state, waits = taken((0, 9)), []
    for _ in range(3):
        decision, state = TEN.take(state, NOW, 1, None)
        waits.append(decision.wait)
    assert waits == [0, 66, pytest.approx(60 + 2 * 60 / 10)]
    assert not TEN.peek(state, NOW + SECOND).allowed


def test_a_given_back_booking_leaves_the_state_as_before() -> None:
    state = taken((5, 10))
    decision, booked = TEN.take(state, NOW + 6 * SECOND, 4, None)
    assert TEN.give_back(booked, NOW + 6 * SECOND, 4, decision.at_ns) == state
    assert TEN.give_back(state, NOW + 6 * SECOND, 10, NOW + 5 * SECOND) == ()
    gone_ns = NOW + 125 * SECOND
    assert TEN.give_back(state, gone_ns, 10, NOW + 5 * SECOND) == ()


def test_reset_tells_when_all_are_back_or_when_the_next_one_comes() -> None:
    decision, state = TEN.take((), NOW + 30 * SECOND, 4)
    assert (decision.remaining, decision.reset_after) == (6, 90)
    decision, _ = TEN.take(state, NOW + 30 * SECOND, 6)
    assert (decision.remaining, decision.reset_after) == (0, 36)


def test_the_state_is_two_counters() -> None:
    state: State = ()
    for hit in range(2000):
        _, state = TEN.take(state, NOW + hit * 777 * MS)
        assert len(state) <= 4


def test_periods_of_another_length_fade_no_earlier() -> None:
    state, now_ns = taken((5, 10)), NOW + 70 * SECOND
    for period_s in (7, 59, 60, 61, 1000):
        other = SlidingCounter(10, period_s)
        adopted = other.adopt(state, now_ns, TEN, "keep")
        for later_s in range(0, 60, 5):
            later_ns = now_ns + later_s * SECOND
            assert other.used(adopted, later_ns) >= TEN.used(state, later_ns)


def test_new_numbers_keep_or_scale_the_counters() -> None:
    state, five = taken((5, 4)), SlidingCounter(5, 60)
    assert five.used(five.adopt(state, NOW + 5 * SECOND, TEN, "keep"), NOW + 5 * SECOND) == 4
    assert five.used(five.adopt(state, NOW + 5 * SECOND, TEN, "scale"), NOW + 5 * SECOND) == 2
    assert five.adopt(state, NOW + 5 * SECOND, TEN, "reset") == ()
    bucket = GCRA(10, 60, 10)
    _, debt = bucket.take(bucket.start(NOW), NOW, 3)
    assert five.used(five.adopt(debt, NOW, bucket, "keep"), NOW) == 3


def test_counters_are_scaled_as_one_sum_and_rounded_up() -> None:
    """Two counters of one permit each are two thirds of three together, and half of that of one apiece."""
    three, state = SlidingCounter(3, 60), (1, 1, 2, 1)
    assert three.adopt(state, 0, TEN, "scale") == (2, 1)
    assert TEN.adopt((2, 1), 0, three, "scale") == (2, 4)
    assert three.adopt((1, 7, 2, 1), 0, TEN, "scale") == (1, 2, 2, 1)


def test_scaled_multiplies_the_limit() -> None:
    assert SlidingCounter(10, timedelta(minutes=1)).scaled(0.25) == SlidingCounter(2, 60)


@pytest.mark.parametrize("limit", [0, -1, 1.5, float("nan"), 10**10, True, "many"])
def test_a_limit_that_makes_no_sense_is_refused(limit: int) -> None:
    with pytest.raises(InvalidLimitError, match="limit="):
        SlidingCounter(limit, 60)


@pytest.mark.parametrize("period", [0, -1, float("inf"), "60s", None])
def test_a_period_that_makes_no_sense_is_refused(period: float) -> None:
    with pytest.raises(InvalidLimitError, match="period="):
        SlidingCounter(10, period)
