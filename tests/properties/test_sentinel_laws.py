"""The laws of `laws.py` for Sentinel's other controllers, and for SlidingCounter.

What needs other words where requests are paced:

* The bound leaves the first request out: it has been paid for by idle time.
* A cold permit takes the time of several warm ones, and `used` counts warm ones (`dearest`).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import AdoptMode, Algorithm, State
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from tests.properties import laws
from tests.properties.laws import Ask, Hit

pytestmark = pytest.mark.arithmetic

Paced: TypeAlias = Pacing | WarmUpPacing
Counting: TypeAlias = QpsWindow | SlidingCounter
Any4: TypeAlias = Pacing | WarmUpPacing | QpsWindow | SlidingCounter

HALF_NS = 500_000_000

counts = st.one_of(
    st.sampled_from([0.3, 0.4, 1, 1.4, 3, 10, 12.3, 80, 400, 1000, 1500, 2500, 1e6]),
    st.floats(0.01, 100),
    st.floats(100, 1e6),
)
queueing = st.one_of(st.sampled_from([0.0, 0.5, 3.0]), st.floats(0, 20))
factors = st.one_of(st.sampled_from([1.5, 2, 3, 10]), st.floats(1.01, 8))
warm_ups = st.one_of(st.integers(1, 20), st.floats(0.01, 20))
periods_s = st.one_of(
    st.sampled_from([1e-6, 0.001, 1, 60, 3600]), st.integers(1, 10**7).map(lambda us: us / 1e6)
)

evenly = st.builds(Pacing, counts, queueing)
warming_in_ns = st.builds(WarmUpPacing, counts, warm_ups, factors, queueing)
warming = st.builds(WarmUpPacing, counts, warm_ups, factors, queueing, st.booleans())
paced: st.SearchStrategy[Paced] = st.one_of(evenly, warming)
counters = st.builds(SlidingCounter, st.integers(1, 60), periods_s)
halves = st.builds(QpsWindow, st.one_of(st.integers(1, 60), st.floats(1, 60)))
counting: st.SearchStrategy[Counting] = st.one_of(counters, halves)
algorithms: st.SearchStrategy[Any4] = st.one_of(paced, counting)
exact: st.SearchStrategy[Algorithm] = st.one_of(
    st.builds(SlidingWindow, st.integers(1, 60), periods_s),
    st.builds(GCRA, st.integers(1, 60), periods_s, st.integers(1, 60)),
)


def largest(algorithm: Any4) -> int:
    """A cost that is large for the algorithm, but not out of its reach."""
    return min(100, max(2, algorithm.quota)) if isinstance(algorithm, Paced) else algorithm.quota + 1


def scale_ns(algorithm: Any4) -> int:
    if isinstance(algorithm, WarmUpPacing):
        return max(2, algorithm.price_ns(algorithm.max_token, 1))
    return max(2, algorithm.interval_ns if isinstance(algorithm, Pacing) else algorithm.window_ns)


@st.composite
def traces(draw: st.DrawFn, algorithm: Any4, *, waiting: bool = True) -> list[Ask]:
    """Calls at distances around the algorithm's own scale, and over the borders of seconds and periods."""
    scale = scale_ns(algorithm)
    gap = st.one_of(
        st.sampled_from([0, 0, 1, HALF_NS, scale]),
        st.integers(0, scale // 20 + 1),
        st.integers(0, 3 * scale),
        st.integers(0, 3 * HALF_NS),
    )
    cost = st.one_of(st.just(1), st.integers(1, largest(algorithm)))
    wait = st.one_of(st.just(0), st.integers(0, 3 * algorithm.window_ns), st.none())
    return draw(st.lists(st.builds(Ask, gap, cost, wait if waiting else st.just(0)), max_size=60))


def warmed(algorithm: Any4, seconds: int) -> tuple[State, int]:
    """The state after some seconds in which now and then as much is taken as there is."""
    now_ns, state = laws.START_NS, algorithm.start(laws.START_NS)
    for _ in range(4 * seconds):
        for _ in range(3):
            _, state = algorithm.take(state, now_ns, largest(algorithm) // 2, None)
        now_ns += HALF_NS // 2 + 1
    return state, now_ns


def reached(data: st.DataObject, algorithm: Any4, *, waiting: bool = True) -> tuple[State, int]:
    """A state of some temperature with some recent history, as of the present moment."""
    state, now_ns = algorithm.start(laws.START_NS), laws.START_NS
    if waiting:
        state, now_ns = warmed(algorithm, data.draw(st.sampled_from([0, 0, 3, 15])))
    for ask in data.draw(traces(algorithm, waiting=waiting)):
        now_ns += ask.after_ns
        decision, state = algorithm.take(state, now_ns, ask.cost, ask.max_wait_ns)
        laws.check_decision(decision, now_ns, ask.max_wait_ns)
    return algorithm.step(state, now_ns), now_ns


def hits_of(data: st.DataObject, algorithm: Any4) -> list[Hit]:
    """Admissions in order of booking: some for a later start, some given back at random moments."""
    state, now_ns = warmed(algorithm, data.draw(st.sampled_from([0, 15])))
    now_ns += 3 * algorithm.window_ns + (scale_ns(algorithm) if isinstance(algorithm, Paced) else 0)
    hits: list[Hit] = []
    giving = data.draw(st.booleans())
    for ask in data.draw(traces(algorithm)):
        now_ns += ask.after_ns
        from_ns = now_ns + data.draw(st.sampled_from([0, 0, 0, 1, HALF_NS, algorithm.window_ns]))
        decision, state = algorithm.take(state, now_ns, ask.cost, ask.max_wait_ns, from_ns)
        laws.check_decision(decision, now_ns, ask.max_wait_ns)
        if decision.allowed:
            assert decision.at_ns >= from_ns
            hits.append(Hit(decision.at_ns, ask.cost))
        while giving and hits and data.draw(st.booleans()):
            gone = hits.pop(data.draw(st.sampled_from([-1, -1, 0, len(hits) // 2])))
            before = algorithm.used(state, now_ns)
            state = algorithm.give_back(state, now_ns, gone.cost, gone.at_ns)
            assert before - dearest(algorithm, gone.cost) <= algorithm.used(state, now_ns) <= before
    return hits


def dearest(algorithm: Any4, cost: int) -> int:
    """What a cost may come to in permits as `used` counts them."""
    if isinstance(algorithm, WarmUpPacing):
        return math.ceil(algorithm.price_ns(algorithm.max_token, cost) / algorithm.interval_ns) + 1
    if isinstance(algorithm, Pacing):
        return math.ceil(algorithm.price_ns(cost) / algorithm.interval_ns)
    return cost


@given(st.data())
def test_paced_requests_start_at_least_their_price_apart(data: st.DataObject) -> None:
    algorithm = data.draw(paced)
    for early, late in pairwise(hits_of(data, algorithm)):
        least = algorithm.price_ns if isinstance(algorithm, Pacing) else algorithm.least_price_ns
        assert late.at_ns - early.at_ns >= least(late.cost)


@given(st.data())
def test_in_nanoseconds_all_but_the_first_never_exceed_the_count(data: st.DataObject) -> None:
    """Prices are rounded up there; in `Pacing` and in whole milliseconds they are rounded to the nearest."""
    algorithm = data.draw(warming_in_ns)
    hits = hits_of(data, algorithm)
    top, bottom = float(algorithm.count).as_integer_ratio()
    for first, start in enumerate(hits):
        total = 0
        for hit in hits[first + 1 :]:
            total += hit.cost
            assert total * bottom * 10**9 <= (hit.at_ns - start.at_ns) * top


@given(st.data())
def test_single_permits_keep_the_quota_in_any_window(data: st.DataObject) -> None:
    algorithm = data.draw(paced)
    trace = [ask._replace(cost=1) for ask in data.draw(traces(algorithm))]
    hits, _, _ = laws.replay(algorithm, trace)
    laws.check_at_most(hits, algorithm.window_ns, algorithm.quota)


@given(st.data())
def test_a_cold_bucket_spaces_them_by_the_cold_interval(data: st.DataObject) -> None:
    """As long as no second border has been crossed."""
    algorithm = data.draw(warming_in_ns)
    state, moments = algorithm.start(laws.START_NS), list[int]()
    for _ in range(5):
        decision, state = algorithm.take(state, laws.START_NS, 1, None)
        if decision.allowed:
            moments.append(decision.at_ns)
    cold_ns = math.ceil(algorithm.cold_factor / algorithm.count * 1e9)
    if algorithm.max_token > algorithm.warning_token:
        assert all(late - early == pytest.approx(cold_ns, abs=2) for early, late in pairwise(moments))
    assert moments


@given(st.data())
def test_two_half_seconds_never_hold_more_than_the_count(data: st.DataObject) -> None:
    algorithm = data.draw(halves)
    hits = hits_of(data, algorithm)
    for half in {hit.at_ns // HALF_NS for hit in hits}:
        both = sum(hit.cost for hit in hits if half - 1 <= hit.at_ns // HALF_NS <= half)
        assert both <= algorithm.count
    laws.check_at_most(hits, 2 * HALF_NS, 2 * algorithm.quota)


@given(st.data())
def test_a_counter_keeps_its_limit_a_period_and_almost_twice_of_it_in_any(data: st.DataObject) -> None:
    algorithm = data.draw(counters)
    hits = hits_of(data, algorithm)
    for index in {hit.at_ns // algorithm.period_ns for hit in hits}:
        assert sum(hit.cost for hit in hits if hit.at_ns // algorithm.period_ns == index) <= algorithm.limit
    laws.check_at_most(hits, algorithm.period_ns, 2 * algorithm.limit - 1)


@given(st.data())
def test_refused_before_retry_after_and_admitted_exactly_at_it(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    cost = data.draw(st.integers(1, largest(algorithm)))
    max_wait_ns = data.draw(st.one_of(st.just(0), st.integers(0, 2 * algorithm.window_ns)))
    laws.check_retry_after(algorithm, state, now_ns, cost, max_wait_ns)


@given(st.data())
def test_no_second_before_retry_after_would_have_admitted(data: st.DataObject) -> None:
    """The price changes from second to second, up and down, while those pass who are booked."""
    algorithm = data.draw(st.builds(WarmUpPacing, st.floats(1, 50), warm_ups, factors, st.floats(2, 30)))
    state, now_ns = warmed(algorithm, data.draw(st.integers(0, 30)))
    for cost in data.draw(st.lists(st.integers(1, 10), max_size=30)):
        _, state = algorithm.take(state, now_ns, cost, None)
    cost, max_wait_ns = data.draw(st.integers(1, 300)), data.draw(st.integers(0, 20 * 10**9))
    refused, kept = algorithm.take(state, now_ns, cost, max_wait_ns)
    if refused.retry_after_ns is None:
        assert refused.allowed
        return
    due_ns = now_ns + refused.retry_after_ns
    ends = range((now_ns // 10**9 + 1) * 10**9 - 1, due_ns, 10**9)
    assert not any(algorithm.take(kept, end_ns, cost, max_wait_ns)[0].allowed for end_ns in ends)
    assert algorithm.take(kept, due_ns, cost, max_wait_ns)[0].allowed


@given(st.data())
def test_the_next_single_permit_always_comes_and_reset_tells_when(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    decision, state = algorithm.take(state, now_ns)
    if not decision.remaining:
        assert algorithm.peek(state, now_ns + decision.reset_after_ns).allowed
        assert decision.allowed or decision.retry_after_ns == decision.reset_after_ns


@given(st.data())
def test_remaining_is_what_can_be_taken(data: st.DataObject) -> None:
    """By one as patient as the asker."""
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    max_wait_ns = data.draw(st.integers(0, 2 * algorithm.window_ns)) if isinstance(algorithm, Paced) else 0
    decision, state = algorithm.take(state, now_ns, 1, max_wait_ns)
    for left in range(min(decision.remaining, 200), 0, -1):
        decision, state = algorithm.take(state, now_ns, 1, max_wait_ns)
        assert decision.allowed
        assert decision.remaining >= left - 1


@given(st.data())
def test_a_refused_call_consumes_nothing(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    laws.check_refusal_consumes_nothing(
        algorithm, state, now_ns, data.draw(st.integers(1, largest(algorithm)))
    )


@given(st.data())
def test_an_earlier_moment_never_gets_more(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    laws.check_time_back(algorithm, state, now_ns, data.draw(st.integers(0, 3 * algorithm.window_ns)))


@given(st.data())
def test_forgetting_only_makes_stricter(data: st.DataObject) -> None:
    """Also for a request of any size."""
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    laws.check_forgetting(algorithm, state, now_ns)
    at_ns = max(now_ns, algorithm.forget_at_ns(state))
    cost = data.draw(st.sampled_from([1, 2, largest(algorithm), 10**4, 10**9]))
    fresh = algorithm.peek(algorithm.start(at_ns), at_ns, cost)
    assert algorithm.peek(state, at_ns, cost).allowed or not fresh.allowed


@given(st.data())
def test_a_charge_takes_what_it_says_up_to_its_cap(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm, waiting=False)
    cost = data.draw(st.integers(1, 3 * min(algorithm.quota, 1000)))
    if not isinstance(algorithm, WarmUpPacing):
        laws.check_charge(algorithm, state, now_ns, cost)
        return
    charged = algorithm.charge(state, now_ns, cost)
    before, after = algorithm.used(state, now_ns), algorithm.used(charged, now_ns)
    dear = algorithm.price_ns(state[0], 1) / algorithm.interval_ns
    assert min(before + cost, 2 * algorithm.quota) <= after <= before + math.ceil(cost * dear) + 1
    assert after <= max(before, math.ceil(2 * algorithm.quota * dear))
    laws.check_no_more(algorithm, charged, state, now_ns)


@given(st.data(), st.sampled_from(["keep", "scale"]))
def test_new_numbers_and_back_never_mint(data: st.DataObject, mode: AdoptMode) -> None:
    kind: st.SearchStrategy[Any4] = data.draw(st.sampled_from([evenly, counters, halves]))
    algorithm: Any4 = data.draw(kind)
    other: Algorithm = data.draw(st.one_of(kind, exact))
    state, now_ns = reached(data, algorithm, waiting=data.draw(st.booleans()) and not is_exact(other))
    laws.check_adopt_there_and_back(algorithm, other, state, now_ns, mode)


def is_exact(algorithm: Algorithm) -> bool:
    return isinstance(algorithm, SlidingWindow | GCRA)


@given(st.data(), st.sampled_from(["keep", "scale"]))
def test_a_warm_bucket_is_no_warmer_after_new_numbers_and_back(data: st.DataObject, mode: AdoptMode) -> None:
    """Now: a bucket just below the line may have been refilled over it a second later, as in `WarmUp`."""
    algorithm, other = data.draw(warming_in_ns), data.draw(st.one_of(warming_in_ns, evenly, exact))
    state, now_ns = reached(data, algorithm)
    there = other.adopt(state, now_ns, algorithm, mode)
    back = algorithm.adopt(there, now_ns, other, mode)
    assert back[0] >= state[0]
    assert algorithm.used(back, now_ns) >= algorithm.used(state, now_ns)
    laws.check_no_more(algorithm, back, state, now_ns)


@given(st.data())
def test_a_booking_given_back_at_once_leaves_the_same_permits(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    cost = data.draw(st.integers(1, largest(algorithm)))
    decision, booked = algorithm.take(state, now_ns, cost, None)
    if decision.allowed:
        after = algorithm.give_back(booked, now_ns, cost, decision.at_ns)
        assert algorithm.used(after, now_ns) == algorithm.used(state, now_ns)
        assert algorithm.peek(after, now_ns).remaining == algorithm.peek(state, now_ns).remaining


@given(st.data())
def test_waiters_that_leave_from_the_end_leave_no_trace(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    _, state = algorithm.take(state, now_ns)
    before, bookings = state, list[Hit]()
    for cost in data.draw(st.lists(st.integers(1, largest(algorithm)), max_size=8)):
        decision, after = algorithm.take(state, now_ns, cost, None)
        if decision.wait_ns:
            bookings.append(Hit(decision.at_ns, cost))
        elif bookings:
            continue  # a small one that passes those who wait is no waiter
        else:
            before = after
        state = after
    for booking in reversed(bookings):
        state = algorithm.give_back(state, now_ns, booking.cost, booking.at_ns)
    assert state == before


@given(st.data())
def test_the_state_is_plain_whole_numbers(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, _ = reached(data, algorithm)
    flat = (*state[:-1], *state[-1]) if isinstance(algorithm, WarmUpPacing) else state
    assert all(type(number) is int for number in flat)
