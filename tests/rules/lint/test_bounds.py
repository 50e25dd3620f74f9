"""What one limit can refuse when another holds: the bounds against the algorithms themselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.rules.lint.bounds import admits_all_of, most_within
from tests.properties.laws import START_NS, Ask, replay

pytestmark = pytest.mark.arithmetic

MS = 10**6
LIMITS = st.integers(1, 8) | st.sampled_from([60, 64, 65, 100, 130])
PERIODS = st.sampled_from([0.5, 1, 2, 3, 10])
TIGHT = st.one_of(
    st.builds(SlidingWindow, LIMITS, PERIODS),
    st.builds(FixedWindow, LIMITS, PERIODS),
    st.builds(GCRA, LIMITS, PERIODS, st.integers(1, 8)),
    st.builds(WarmUpWindow, LIMITS, PERIODS, st.just(20)),
)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Algorithm, Algorithm]:
    """A limit, and one that is often just loose enough."""
    tight: Any = draw(TIGHT)
    scale = draw(st.sampled_from([1, 1, 2, 3, 5]))
    limit = min(10**9, tight.limit * scale + draw(st.integers(-1, 1)))
    period = draw(st.just(tight.window_ns / 1e9) | PERIODS)
    assume(limit >= 1)
    looser: list[Algorithm] = [
        SlidingWindow(limit, period),
        FixedWindow(limit, period),
        GCRA(limit, period, draw(st.integers(1, 20))),
        GCRA(limit, period, limit),
    ]
    return draw(st.sampled_from(looser)), tight


GAPS_NS = st.sampled_from([0, 0, 0, 1, MS, 7 * MS, 15 * MS, 100 * MS, 499 * MS, 500 * MS, 10**9, 3 * 10**9])
ASKS = st.lists(st.tuples(GAPS_NS, st.integers(1, 3), st.integers(1, 3), st.booleans()), max_size=120)


def check_no_tighter(
    loose: Algorithm, tight: Algorithm, asks: list[tuple[int, int, int, bool]], *, same_history: bool
) -> None:
    """Requests pass when both limits admit them; then only `tight` may be the one that refuses."""
    now_ns = START_NS
    loose_state, tight_state = loose.start(now_ns), tight.start(now_ns)
    for gap_ns, cost, less, counted in asks:
        now_ns += gap_ns
        decision, after = tight.take(tight_state, now_ns, cost)
        if counted or same_history:
            own_cost = cost if same_history else min(cost, less)
            own, own_after = loose.take(loose_state, now_ns, own_cost)
            assert own.allowed or not decision.allowed, (loose, tight)
            loose_state = own_after if decision.allowed else loose_state
        tight_state = after


@settings(deadline=None, max_examples=400)
@given(pairs(), ASKS, st.booleans())
def test_what_is_said_to_be_no_tighter_never_refuses_alone(
    pair: tuple[Algorithm, Algorithm], asks: list[tuple[int, int, int, bool]], same_history: bool
) -> None:
    loose, tight = pair
    assume(admits_all_of(loose, tight, same_history=same_history))
    check_no_tighter(loose, tight, asks, same_history=same_history)


def saturating(gap_ns: int) -> list[tuple[int, int, int, bool]]:
    return [(gap_ns, 1, 1, number % 2 == 0) for number in range(1500)]


@pytest.mark.parametrize("gap_ns", [1, 3 * MS, 11 * MS])
@pytest.mark.parametrize("period", [1, 2, 3])
@pytest.mark.parametrize("limit", [100, 200, 203, 300])
def test_windows_that_merge_their_hits_are_given_the_room_they_need(
    gap_ns: int, period: float, limit: int
) -> None:
    loose, tight = SlidingWindow(limit, period), SlidingWindow(100, 1)
    for same_history in (False, True):
        if admits_all_of(loose, tight, same_history=same_history):
            check_no_tighter(loose, tight, saturating(gap_ns), same_history=same_history)


@settings(deadline=None)
@given(
    TIGHT,
    st.integers(1, 5 * 10**9),
    st.lists(st.builds(Ask, GAPS_NS, st.integers(1, 3), st.just(0)), max_size=150),
)
def test_no_stretch_of_time_holds_more_than_the_bound(
    algorithm: Algorithm, span_ns: int, asks: list[Ask]
) -> None:
    most = most_within(algorithm, span_ns)
    assert most is not None
    hits, _, _ = replay(algorithm, asks)
    for last in hits:
        within = [hit.cost for hit in hits if last.at_ns - span_ns < hit.at_ns <= last.at_ns]
        assert sum(within) <= most


@pytest.mark.parametrize(
    ("loose", "tight"),
    [
        (SlidingWindow(10, 1), SlidingWindow(10, 60)),
        (SlidingWindow(50, 60), SlidingWindow(10, 12)),
        (SlidingWindow(700, 3600), SlidingWindow(10, 60)),
        (SlidingWindow(59, 60), GCRA(1, 2, 30)),
        (SlidingWindow(20, 60), FixedWindow(10, 60)),
        (SlidingWindow(10, 60), WarmUpWindow(10, 60, 120)),
        (GCRA(10, 1, 20), GCRA(10, 1, 20)),
        (GCRA(10, 1, 20), GCRA(9, 1, 19)),
        (GCRA(10, 1, 10), SlidingWindow(10, 1)),
        (GCRA(10, 1, 20), FixedWindow(10, 1)),
        (FixedWindow(20, "month"), FixedWindow(20, "month", "UTC")),
        (FixedWindow(744, "month"), SlidingWindow(1, 3600)),
        (FixedWindow(768, "month", "Europe/Berlin"), SlidingWindow(1, 3600)),
    ],
)
def test_what_is_plainly_looser_is_seen(loose: Algorithm, tight: Algorithm) -> None:
    assert admits_all_of(loose, tight, same_history=False)


@pytest.mark.parametrize(
    ("loose", "tight"),
    [
        (SlidingWindow(9, 1), SlidingWindow(10, 60)),
        (SlidingWindow(49, 60), SlidingWindow(10, 12)),
        (SlidingWindow(600, 3600), SlidingWindow(10, 60)),  # a merged window gives back a 64th late
        (SlidingWindow(58, 60), GCRA(1, 2, 30)),
        (SlidingWindow(19, 60), FixedWindow(10, 60)),
        (WarmUpWindow(10, 60, 120), SlidingWindow(10, 60)),  # it may be cold
        (GCRA(10, 1, 20), GCRA(11, 1, 19)),
        (GCRA(10, 1, 20), GCRA(9, 1, 21)),
        (GCRA(10, 1, 9), SlidingWindow(10, 1)),
        (GCRA(10, 1, 19), FixedWindow(10, 1)),
        (FixedWindow(20, "month"), FixedWindow(20, "month", "Europe/Berlin")),
        (FixedWindow(743, "month"), SlidingWindow(1, 3600)),
        (FixedWindow(767, "month", "Europe/Berlin"), SlidingWindow(1, 3600)),
        (FixedWindow(100, "day"), FixedWindow(1, "day", "Europe/Berlin")),
        (SlidingWindow(100, 1), TokenBucket(1, 1)),
        (TokenBucket(100, 1), SlidingWindow(1, 1)),
    ],
)
def test_what_may_refuse_is_not_called_looser(loose: Algorithm, tight: Algorithm) -> None:
    assert not admits_all_of(loose, tight, same_history=False)


def test_windows_with_the_same_history_need_no_room_for_merged_hits() -> None:
    loose, tight = SlidingWindow(100, 60), SlidingWindow(100, 60)
    assert admits_all_of(loose, tight, same_history=True)
    assert not admits_all_of(loose, tight, same_history=False)


def test_a_merged_window_may_refuse_what_a_wider_count_of_the_same_numbers_admits() -> None:
    """Why the room is needed: with a few hits more in one of the logs other hits are merged."""
    loose = tight = SlidingWindow(100, 64)
    loose_state, tight_state, now_ns = loose.start(START_NS), tight.start(START_NS), START_NS
    refused_alone = []
    for number in range(314):
        now_ns += number * number * 641 % 1301 * MS  # found by search
        decision, after = tight.take(tight_state, now_ns)
        if number % 40:
            own, own_after = loose.take(loose_state, now_ns)
            refused_alone.append(decision.allowed and not own.allowed)
            loose_state = own_after if decision.allowed else loose_state
        tight_state = after
    assert refused_alone.count(True) == 1
