"""The laws of `laws.py` for Guava's limiters, where a request of any size is granted and paid for later.

What needs other words for limiters with debt:

* The bound leaves the last request out, as any size is granted when the one before has been paid for.
* Prices are whole microseconds, cut off: where permits are counted from prices, a few microseconds' worth
  are missing (`grain`). `SmoothWarmingUp` sells at up to `cold_factor` stable intervals a permit.
* Guava's `setRate` multiplies doubles: there and back may differ in the last bit, so what is stored is
  compared as a double, not as the whole permits in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import AdoptMode, State
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from tests.properties import laws
from tests.properties.laws import Ask, Hit

pytestmark = pytest.mark.arithmetic

Guava: TypeAlias = SmoothBursty | SmoothWarmingUp

# Up to 300,000 a second each permit costs at least a microsecond, in however many parts it is sold.
rates = st.one_of(
    st.sampled_from([0.01, 0.3, 1, 2, 3, 7, 10, 100, 3e5]), st.floats(1e-3, 1e3), st.floats(1e3, 3e5)
)
all_rates = st.one_of(rates, st.floats(3e5, 1e6), st.just(1e6))
stored = st.one_of(st.sampled_from([0.0, 0.5, 1.0, 5.0]), st.floats(0, 60))
factors = st.one_of(st.sampled_from([1, 1.5, 3, 10]), st.floats(1, 20))


@st.composite
def bursty(draw: st.DrawFn, speeds: st.SearchStrategy[float] = rates) -> SmoothBursty:
    rate = draw(speeds)
    return SmoothBursty(rate, draw(stored) / rate)


@st.composite
def warming(draw: st.DrawFn, speeds: st.SearchStrategy[float] = rates) -> SmoothWarmingUp:
    rate = draw(speeds)
    return SmoothWarmingUp(rate, draw(stored) / rate, draw(factors))


algorithms: st.SearchStrategy[Guava] = st.one_of(bursty(), warming())
exact = st.one_of(
    st.builds(SlidingWindow, st.integers(1, 200), st.integers(1, 100)),
    st.builds(GCRA, st.integers(1, 200), st.integers(1, 100), st.integers(1, 200)),
)


@st.composite
def traces(draw: st.DrawFn, algorithm: Guava, *, waiting: bool = True) -> list[Ask]:
    """Calls at distances around the algorithm's own scale, to the nanosecond and in whole microseconds."""
    interval_ns = max(4, int(algorithm.stable_us * 1000))
    many = int(algorithm.max_permits) + 2
    gap = st.one_of(
        st.just(0),
        st.integers(0, 3000),
        st.integers(0, 2 * interval_ns),
        st.integers(0, 2 * interval_ns // 1000).map(lambda us: us * 1000),
        st.integers(0, 2 * many * interval_ns),
    )
    cost = st.one_of(st.just(1), st.integers(1, 3), st.integers(1, 2 * many))
    wait = st.one_of(st.just(0), st.integers(0, 3 * many * interval_ns), st.none())
    return draw(st.lists(st.builds(Ask, gap, cost, wait if waiting else st.just(0)), max_size=60))


def reached(data: st.DataObject, algorithm: Guava) -> tuple[State, int]:
    _, state, now_ns = laws.replay(algorithm, data.draw(traces(algorithm)))
    return state, now_ns


def grain(algorithm: Guava, requests: int = 1) -> int:
    """The permits in the fractions of microseconds that this many requests may not have paid."""
    return math.ceil(3 * requests / algorithm.stable_us)


def dearest(algorithm: Guava, cost: int) -> int:
    """What a cost may come to, in permits at the stable price."""
    return cost if isinstance(algorithm, SmoothBursty) else math.ceil(cost * algorithm.cold_factor)


def check_all_but_the_last(algorithm: Guava, hits: Sequence[Hit]) -> None:
    """In any time t all requests but the last get at most the burst and what flows in, to the microsecond.

    Bookings lie in whole microseconds: a request that starts between two counts from the one before. The
    last is the one booked last; one booked for a start between two microseconds may start after it.
    """
    free, parts = (algorithm.max_permits, 1) if isinstance(algorithm, SmoothBursty) else (0.0, 3)
    for first, start in enumerate(hits):
        total = 0
        for requests, hit in enumerate(hits[first:]):
            assert hit.at_ns > start.at_ns - 1000
            t_us = (hit.at_ns - start.at_ns) / 1000 + 1 + parts * requests
            allowed = free + t_us / algorithm.stable_us
            assert total <= allowed * (1 + 1e-12) + 1e-9, (start, hit, total)
            total += hit.cost


@given(st.data())
def test_all_requests_but_the_last_keep_burst_and_rate(data: st.DataObject) -> None:
    """Also at rates whose permits cost hardly a microsecond, and with bookings for a later start."""
    algorithm: Guava = data.draw(st.one_of(bursty(all_rates), warming(all_rates)))
    now_ns, state, hits = laws.START_NS, algorithm.start(laws.START_NS), []
    for ask in data.draw(traces(algorithm)):
        now_ns += ask.after_ns
        from_ns = now_ns + data.draw(st.sampled_from([0, 0, 0, 1, 2500, algorithm.window_ns]))
        decision, state = algorithm.take(state, now_ns, ask.cost, ask.max_wait_ns, from_ns)
        laws.check_decision(decision, now_ns, ask.max_wait_ns)
        if decision.allowed:
            assert decision.at_ns >= from_ns
            hits.append(Hit(decision.at_ns, ask.cost))
    check_all_but_the_last(algorithm, hits)


@given(st.data())
def test_giving_back_never_lets_the_used_permits_break_the_bound(data: st.DataObject) -> None:
    """Bookings are given back at random moments; the ones that were used still keep the bound."""
    algorithm = data.draw(algorithms)
    now_ns, state, hits = laws.START_NS, algorithm.start(laws.START_NS), []
    for ask in data.draw(traces(algorithm)):
        now_ns += ask.after_ns
        decision, state = algorithm.take(state, now_ns, ask.cost, ask.max_wait_ns)
        if decision.allowed:
            hits.append(Hit(decision.at_ns, ask.cost))
        while hits and data.draw(st.sampled_from([True, False])):
            gone = hits.pop(data.draw(st.sampled_from([-1, -1, 0, len(hits) // 2])))
            before = algorithm.used(state, now_ns)
            state = algorithm.give_back(state, now_ns, gone.cost, gone.at_ns)
            after = algorithm.used(state, now_ns)
            # One more for each of the two that is rounded up.
            assert before - dearest(algorithm, gone.cost) - 1 <= after <= before + 1
    check_all_but_the_last(algorithm, hits)


@given(st.data())
def test_a_queue_that_leaves_from_its_end_leaves_the_state_as_before(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    states, bookings = [algorithm.step(state, now_ns)], []
    for cost in data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=12)):
        decision, state = algorithm.take(states[-1], now_ns, cost, None)
        states.append(state)
        bookings.append(Hit(decision.at_ns, cost))
    for booking, before in zip(reversed(bookings), reversed(states[:-1]), strict=True):
        state = algorithm.give_back(state, now_ns, booking.cost, booking.at_ns)
        assert state[:2] == before[:2]
        if before[0]:
            # Before that, whole permits are added to a double, which need not give the double they left.
            break


@given(st.data())
def test_refused_before_retry_after_and_admitted_exactly_at_it(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    cost = data.draw(st.one_of(st.integers(1, 5), st.just(algorithm.smallest_full_take)))
    max_wait_ns = data.draw(st.one_of(st.just(0), st.integers(0, 2 * algorithm.window_ns)))
    laws.check_retry_after(algorithm, state, now_ns, cost, max_wait_ns)


@given(st.data())
def test_any_size_is_granted_exactly_when_one_permit_is(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    single = algorithm.peek(state, now_ns)
    huge = algorithm.peek(state, now_ns, algorithm.smallest_full_take)
    assert huge[:4] == single[:4]


@given(st.data())
def test_a_refused_call_consumes_nothing(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    laws.check_refusal_consumes_nothing(algorithm, state, now_ns, data.draw(st.integers(1, 9)))


@given(st.data())
def test_an_earlier_moment_never_gets_more(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    laws.check_time_back(algorithm, state, now_ns, data.draw(st.integers(0, 3 * algorithm.window_ns)))


@given(st.data())
def test_forgetting_only_makes_stricter(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    laws.check_forgetting(algorithm, state, now_ns)


@given(st.data())
def test_a_charge_takes_what_it_says_up_to_its_cap(data: st.DataObject) -> None:
    """`laws.check_charge`, in permits at the stable price and but for the fractions of microseconds."""
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    cost = data.draw(st.integers(1, 3 * algorithm.quota))
    charged = algorithm.charge(state, now_ns, cost)
    before, after = algorithm.used(state, now_ns), algorithm.used(charged, now_ns)
    assert before <= after <= before + dearest(algorithm, cost) + 1
    assert after >= min(before + cost, 2 * algorithm.quota) - grain(algorithm) - 1
    laws.check_no_more(algorithm, charged, state, now_ns)


@given(st.data(), st.sampled_from(["keep", "scale"]))
def test_new_numbers_and_back_never_mint(data: st.DataObject, mode: AdoptMode) -> None:
    """The debt is the same; free permits are not more, cold ones not fewer, but for a double's last bits."""
    algorithm, other = data.draw(algorithms), data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    before = algorithm.step(state, now_ns)
    back = algorithm.adopt(other.adopt(state, now_ns, algorithm, mode), now_ns, other, mode)
    assert back[1] == before[1]
    if isinstance(algorithm, SmoothBursty):
        assert back[0] <= before[0] * (1 + 1e-12)
    else:
        assert back[0] >= before[0] * (1 - 1e-12)


@given(st.data(), st.sampled_from(["keep", "scale"]))
def test_another_algorithm_and_back_never_mints(data: st.DataObject, mode: AdoptMode) -> None:
    """Debt and missing permits survive as whole permits in use, rounded up each time."""
    algorithm, other = data.draw(algorithms), data.draw(exact)
    state, now_ns = reached(data, algorithm)
    there = other.adopt(state, now_ns, algorithm, mode)
    assert algorithm.used(algorithm.adopt(there, now_ns, other, mode), now_ns) >= algorithm.used(
        state, now_ns
    )


@given(st.data())
def test_looking_in_between_stores_the_same_but_for_rounding(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    end_ns = now_ns + data.draw(st.integers(0, 20 * algorithm.window_ns))
    middle_ns = data.draw(st.integers(now_ns, end_ns))
    stepped = algorithm.step(algorithm.step(state, middle_ns), end_ns)
    straight = algorithm.step(state, end_ns)
    assert stepped[1] == straight[1]
    assert stepped[0] == pytest.approx(straight[0], rel=1e-12, abs=1e-12)


@given(st.data())
def test_the_state_is_plain_numbers_and_never_out_of_bounds(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, _ = reached(data, algorithm)
    assert [type(number) for number in state] == [float, int, int, float, int]
    assert 0 <= state[0] <= algorithm.max_permits
