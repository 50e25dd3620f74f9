"""GCRA against the worked example of its definition, and its own numbers."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.errors import InvalidLimitError

pytestmark = pytest.mark.arithmetic

MS = 1_000_000


def test_five_per_second_follows_the_table_of_the_definition() -> None:
    bucket = GCRA(5, 1, 5)
    state = bucket.start(0)
    rows: list[tuple[int, int, bool, int, int | None]] = [
        # at ms, cost, allowed, remaining, retry after ms
        *((0, 1, True, left, None) for left in (4, 3, 2, 1, 0)),
        (0, 1, False, 0, 200),
        (199, 1, False, 0, 1),
        (200, 1, True, 0, None),
        (700, 2, True, 0, None),
        (700, 1, False, 0, 100),
        (5000, 5, True, 0, None),
    ]
    for at_ms, cost, allowed, remaining, retry_ms in rows:
        decision, state = bucket.take(state, at_ms * MS, cost)
        assert (decision.allowed, decision.remaining) == (allowed, remaining), at_ms
        assert decision.retry_after_ns == (None if retry_ms is None else retry_ms * MS)


def test_a_cost_above_the_burst_is_never_admitted() -> None:
    bucket = GCRA(5, 1, 5)
    decision, _ = bucket.take(bucket.start(0), 0, 6, None)
    assert not decision.allowed
    assert decision.retry_after_ns is None
    assert decision.remaining == 5


def test_the_whole_burst_is_there_though_the_interval_has_no_whole_nanoseconds() -> None:
    bucket = GCRA(3, 1, 3)
    decision, state = bucket.take(bucket.start(0), 0, 3)
    assert decision.allowed
    decision, _ = bucket.take(state, 333_333_333)
    assert decision.retry_after_ns == 1
    assert bucket.take(state, 333_333_334)[0].allowed


def test_seven_a_second_stay_seven_a_second_for_a_day() -> None:
    """A rounded interval would drift by whole permits over a day."""
    bucket = GCRA(7, 1, 1)
    state = bucket.start(0)
    _, state = bucket.take(state, 0)
    for _ in range(7 * 1000):
        _, state = bucket.take(state, 0, 1, None)
    assert bucket.forget_at_ns(state) == 1000 * 10**9 + -(-(10**9) // 7)


def test_waiters_get_evenly_spaced_moments() -> None:
    bucket = GCRA(10, 1, 1)
    state, waits = bucket.start(0), []
    for _ in range(4):
        decision, state = bucket.take(state, 0, 1, 250 * MS)
        waits.append(decision.wait_ns // MS if decision.allowed else decision.retry_after_ns)
    assert waits == [0, 100, 200, 50 * MS]


@pytest.mark.parametrize(("limit", "burst"), [(10, 1), (7, 1), (3, 2), (3, 5)])
def test_waiters_leaving_from_the_end_all_give_their_moment_back(limit: int, burst: int) -> None:
    bucket = GCRA(limit, 1, burst)
    _, state = bucket.take(bucket.start(0), 0, burst)
    before, moments = state, []
    for _ in range(3):
        decision, state = bucket.take(state, 0, 1, None)
        moments.append(decision.at_ns)
    for at_ns in reversed(moments):
        state = bucket.give_back(state, 0, 1, at_ns)
    assert bucket.used(state, 0) == bucket.used(before, 0)


@pytest.mark.parametrize(("behind_ms", "back"), [(0, 1), (500, 0.5), (999, 0.001), (1000, 0), (1001, 0)])
def test_of_a_booking_with_another_behind_it_what_flowed_in_between_is_lost(
    behind_ms: int, back: float
) -> None:
    bucket = GCRA(1, 1, 5)
    first, state = bucket.take(bucket.start(0), 0)
    _, state = bucket.take(state, behind_ms * MS, 4)
    settled = bucket.give_back(state, 1001 * MS, 1, first.at_ns)
    assert bucket.forget_at_ns(state) - bucket.forget_at_ns(settled) == back * 1000 * MS


def test_what_is_booked_ahead_is_remembered_only_while_it_lies_ahead_of_the_last_booking() -> None:
    bucket = GCRA(1, 1, 5)
    ahead, state = bucket.take(bucket.start(0), 0, 1, None, 3000 * MS)
    last, state = bucket.take(state, 1000 * MS)
    assert (len(state), bucket.forget_at_ns(state)) == (3, 5000 * MS)
    without_last = bucket.give_back(state, 1000 * MS, 1, last.at_ns)
    assert bucket.forget_at_ns(without_last) == 4000 * MS
    # Of the one before the last, a second has flowed in by the latest moment that is booked.
    _, state = bucket.take(state, 2000 * MS)
    settled = bucket.give_back(state, 2000 * MS, 2, last.at_ns)
    assert bucket.forget_at_ns(state) - bucket.forget_at_ns(settled) == 0
    _, state = bucket.take(state, ahead.at_ns)
    assert len(state) == 2


def test_a_booking_of_numbers_that_nobody_remembers_is_not_given_back() -> None:
    old, new = SlidingWindow(5, 1), GCRA(1, 1, 5)
    booking, state = new.take(new.start(0), 7)
    state = new.adopt(old.adopt(state, 7, new, "keep"), 7, old, "keep")
    assert new.give_back(state, 8, 1, booking.at_ns) == state


def test_seconds_and_timedelta_make_equal_buckets() -> None:
    assert GCRA(10, 60, 5) == GCRA(10, timedelta(minutes=1), 5)
    assert GCRA(10, 60, 5) != GCRA(10, 61, 5)


def test_scaled_changes_rate_and_burst_and_keeps_at_least_one() -> None:
    assert GCRA(10, 60, 4).scaled(2.5) == GCRA(25, 60, 10)
    assert GCRA(10, 60, 4).scaled(0.01) == GCRA(1, 60, 1)


def test_the_window_on_the_wire_is_the_time_to_fill() -> None:
    bucket = GCRA(100, 60, 20)
    assert (bucket.quota, bucket.window_ns, bucket.smallest_full_take) == (20, 12 * 10**9, 20)


def test_reset_scale_and_keep_carry_different_shares() -> None:
    old, new = GCRA(10, 1, 10), GCRA(20, 1, 20)
    _, state = old.take(old.start(0), 0, 5)
    assert new.used(new.adopt(state, 0, old, "keep"), 0) == 5
    assert new.used(new.adopt(state, 0, old, "scale"), 0) == 10
    assert new.used(new.adopt(state, 0, old, "reset"), 0) == 0


@pytest.mark.parametrize(
    ("limit", "period", "burst", "word"),
    [
        (0, 1, 1, "limit=0"),
        (-1, 1, 1, "limit=-1"),
        (1.5, 1, 1, "limit=1.5"),
        (float("nan"), 1, 1, "limit=nan"),
        (float("inf"), 1, 1, "limit=inf"),
        (True, 1, 1, "limit=True"),
        ("5", 1, 1, "limit='5'"),
        (1, 0, 1, "period=0"),
        (1, -1, 1, "period=-1"),
        (1, float("nan"), 1, "period=nan"),
        (1, 1, 0, "burst=0"),
        (10**9 + 1, 1, 1, "limit=1000000001"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_by_name(
    limit: int, period: float, burst: int, word: str
) -> None:
    with pytest.raises(InvalidLimitError, match=word):
        GCRA(limit, period, burst)
