"""What every algorithm keeps: one test a law, over all kinds of algorithms and random traces."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ratelimit_middleware
from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.stores._packing import pack, unpack
from tests.properties import laws
from tests.properties.cases import Call, Case, cases
from tests.properties.kinds import KINDS

pytestmark = pytest.mark.arithmetic

# The contract itself, and slots, which are given back by ticket.
OTHERS = {"Algorithm", "Concurrency"}

# So many that each kind has its share.
law = settings(max_examples=20 * len(KINDS))


def test_every_algorithm_is_among_the_kinds() -> None:
    public = {getattr(ratelimit_middleware, name) for name in ratelimit_middleware.__all__}
    classes = {c.__name__ for c in public if isinstance(c, type) and hasattr(c, "forget_at_ns")}
    classes -= {"Concurrency"}  # slots that come back by ticket have a law of their own
    assert classes == {name.partition(",")[0] for name in KINDS}


@law
@given(cases())
def test_no_stretch_of_time_gets_more_than_the_bound(case: Case) -> None:
    """However requests wait, ask for a later start, or leave; what leaves never mints."""
    case.kind.keeps(case.algorithm, case.reached().hits, case.waits)


@law
@given(cases())
def test_a_key_forgotten_whenever_it_may_be_keeps_the_bound(case: Case) -> None:
    case.kind.keeps(case.algorithm, case.reached(forgetting=True).hits, case.waits)


@law
@given(cases(names=tuple(KINDS.keys() - {"FixedWindow", "SlidingCounter", "QpsWindow"})))
def test_a_clock_that_goes_back_never_breaks_the_bound(case: Case) -> None:
    """Of those left out the bound is one of the clock's own windows."""
    case.kind.keeps(case.algorithm, case.reached(back_ns=case.moment_ns).hits, case.waits)


@law
@given(cases())
def test_refused_before_retry_after_and_admitted_exactly_at_it(case: Case) -> None:
    state, now_ns, _ = case.reached()
    laws.check_retry_after(case.algorithm, state, now_ns, case.cost, case.wait_ns)


@law
@given(cases())
def test_a_refused_call_consumes_nothing_and_peek_changes_nothing(case: Case) -> None:
    state, now_ns, _ = case.reached()
    laws.check_refusal_consumes_nothing(case.algorithm, state, now_ns, case.cost)


@law
@given(cases())
def test_remaining_permits_are_there_and_reset_tells_when_the_next_one_is(case: Case) -> None:
    state, now_ns, _ = case.reached()
    decision, state = case.algorithm.take(state, now_ns)
    assert laws.capacity(case.algorithm, state, now_ns, 150) >= min(150, decision.remaining)
    if not decision.remaining:
        assert decision.allowed or decision.retry_after_ns == decision.reset_after_ns
        assert case.algorithm.peek(state, now_ns + decision.reset_after_ns).allowed


@law
@given(cases())
@example(
    # The one before starts a nanosecond later, within the same microsecond.
    Case("SmoothBursty", SmoothBursty(0.01, 100), (Call(100_782_787_823, 1, 2_500_000_000, from_after_ns=1),))
)
def test_a_booking_given_back_at_once_leaves_the_same_permits(case: Case) -> None:
    algorithm = case.algorithm
    state, now_ns, _ = case.reached()
    # What waits changes how cold it is from then on.
    decision, booked = algorithm.take(state, now_ns, case.cost, 0 if case.kind.warms else None)
    if decision.allowed:
        after = algorithm.give_back(booked, now_ns, case.cost, decision.at_ns)
        assert algorithm.used(after, now_ns) == algorithm.used(state, now_ns)
        assert algorithm.peek(after, now_ns).remaining == algorithm.peek(state, now_ns).remaining


@law
@given(cases(names=tuple(KINDS.keys() - {"WarmUp", "WarmUpWindow"})), st.lists(st.integers(1, 5), max_size=8))
@example(
    # The waiters stand before a place of an earlier second that was given back, at their own price.
    Case("WarmUpPacing", WarmUpPacing(10, 5), (Call(10**9, 9, None, 2 * 10**9), Call(10**9, 9, leaves=0))),
    [1],
)
@example(
    # Both start together: stored permits pay for the first one, and for a part of the second.
    Case("SmoothBursty", SmoothBursty(833_334, 3e-6), (Call(0, 1, 2040, 2000),)),
    [1, 1],
)
@example(
    # Stored permits pay for all of them, whether or not the one before is known.
    Case("SmoothBursty", SmoothBursty(0.01, 500), (Call(0, 1, 5 * 10**11, 5 * 10**11),)),
    [1, 1, 1, 5, 1],
)
def test_waiters_that_leave_from_the_end_leave_no_trace(case: Case, costs: list[int]) -> None:
    """Of those left out: what waits changes how cold it is from then on.

    Of Guava's bookings for one moment the last stands for all: the others stay, if they have to.
    """
    algorithm = case.algorithm
    state, now_ns, _ = case.reached()
    before, bookings = state, list[laws.Hit]()
    for cost in costs:
        decision, booked = algorithm.take(state, now_ns, cost, None)
        if case.kind.one_a_moment and bookings and bookings[-1].at_ns == decision.at_ns:
            before, bookings = state, []
        if decision.wait_ns:
            bookings.append(laws.Hit(decision.at_ns, cost))
        elif decision.allowed:
            before, bookings = booked, []
        state = booked
    for booking in reversed(bookings):
        state = algorithm.give_back(state, now_ns, booking.cost, booking.at_ns)
    assert algorithm.used(state, now_ns) == algorithm.used(before, now_ns)
    assert algorithm.peek(state, now_ns).remaining == algorithm.peek(before, now_ns).remaining


@law
@given(cases())
@example(
    # A hit that the other window would have forgotten.
    Case("SlidingWindow", SlidingWindow(1, 3600), (Call(0), Call(10**6)), other=WarmUpWindow(1, 0.001, 0.002))
)
def test_new_numbers_and_back_never_mint(case: Case) -> None:
    algorithm, other = case.algorithm, case.other
    state, now_ns, _ = case.reached()
    back = algorithm.adopt(other.adopt(state, now_ns, algorithm, case.mode), now_ns, other, case.mode)
    assert algorithm.used(back, now_ns) >= algorithm.used(state, now_ns) - case.kind.slack
    if not case.kind.slack:
        # Later too, for a kind of its own that has no temperature.
        same = type(other) is type(algorithm) and not case.kind.warms
        later = (algorithm.window_ns // 3, algorithm.window_ns // 2) if same else ()
        laws.check_no_more(algorithm, back, state, now_ns, later)


@law
@given(cases())
def test_an_earlier_moment_never_gets_more(case: Case) -> None:
    state, now_ns, _ = case.reached()
    state = case.algorithm.step(state, now_ns)
    laws.check_time_back(case.algorithm, state, now_ns, case.moment_ns)


@law
@given(cases())
def test_forgetting_only_makes_stricter(case: Case) -> None:
    """Also for a request of any size."""
    state, now_ns, _ = case.reached()
    laws.check_forgetting(case.algorithm, state, now_ns)
    at_ns = max(now_ns, case.algorithm.forget_at_ns(state))
    for cost in (1, 2, case.cost, 10**4, 10**9):
        fresh = case.algorithm.peek(case.algorithm.start(at_ns), at_ns, cost)
        assert case.algorithm.peek(state, at_ns, cost).allowed or not fresh.allowed


@law
@given(cases(waiting=False))
@example(
    # In whole milliseconds 19 cold permits come to 95, one at a time, and a request of 19 to 90.
    Case("WarmUpPacing", WarmUpPacing(315, 1, 1.5, whole_ms=True), cost=19)
)
@example(Case("WarmUpPacing", WarmUpPacing(2500, 1, 1.5, whole_ms=True), cost=2))
@example(Case("WarmUpPacing", WarmUpPacing(1500, 1, 10, whole_ms=True), cost=5))
@example(
    # Two permits of 1.1 us each: of the price of the cold one and of that of the warm one a part is dropped.
    Case("SmoothWarmingUp", SmoothWarmingUp(905_788.43018505, 1.1040105687767537e-06, 1.5), cost=2)
)
def test_a_charge_takes_what_it_says_up_to_its_cap(case: Case) -> None:
    state, now_ns, _ = case.reached()
    kind, algorithm = case.kind, case.algorithm
    most = (kind.dearest_debt or kind.dearest)(algorithm, case.cost) + kind.slack
    laws.check_charge(algorithm, state, now_ns, case.cost, most, kind.dropped(algorithm))


@law
@given(cases())
def test_letting_time_pass_consumes_nothing(case: Case) -> None:
    algorithm = case.algorithm
    state, now_ns, _ = case.reached()
    now_ns += case.moment_ns
    stepped = algorithm.step(state, now_ns)
    assert algorithm.step(stepped, now_ns) == stepped
    assert algorithm.used(stepped, now_ns) == algorithm.used(state, now_ns)
    taken, after = algorithm.take(state, now_ns, case.cost, case.wait_ns)
    assert (taken, after) == algorithm.take(stepped, now_ns, case.cost, case.wait_ns)


@law
@given(cases())
def test_a_scaled_algorithm_still_admits_somebody(case: Case) -> None:
    assert case.algorithm.scaled(1) == case.algorithm
    try:
        scaled: Algorithm = case.algorithm.scaled(case.factor)
    except InvalidLimitError:
        assert case.factor > 1  # beyond the largest number that the algorithm takes
        return
    assert type(scaled) is type(case.algorithm)
    assert scaled.quota >= 1
    assert scaled.smallest_full_take >= 1
    assert scaled.take(scaled.start(laws.START_NS), laws.START_NS)[0].allowed


@law
@given(cases())
def test_states_are_plain_values_that_can_be_packed_and_compared(case: Case) -> None:
    state, now_ns, _ = case.reached()
    packed = unpack(pack(state))
    assert packed == state
    assert hash(packed) == hash(state)
    assert case.algorithm.take(packed, now_ns, case.cost) == case.algorithm.take(state, now_ns, case.cost)
