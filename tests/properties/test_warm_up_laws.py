"""The laws of `laws.py` for the algorithms that warm up: WarmUp and WarmUpWindow."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import AdoptMode, State
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from tests.properties import laws
from tests.properties.laws import Ask

pytestmark = pytest.mark.arithmetic

Warming: TypeAlias = WarmUp | WarmUpWindow

factors = st.one_of(st.sampled_from([1.5, 2, 3, 10]), st.integers(1001, 8000).map(lambda n: n / 1000))
counts = st.one_of(st.integers(1, 120), st.floats(0.05, 60))
sentinels = st.builds(WarmUp, counts, st.one_of(st.integers(1, 20), st.floats(0.01, 20)), factors)


@st.composite
def windows(draw: st.DrawFn) -> WarmUpWindow:
    period_us = draw(st.one_of(st.sampled_from([1000, 10**6, 60 * 10**6]), st.integers(1, 10**7)))
    periods = draw(st.one_of(st.integers(2, 20), st.floats(2, 20)))
    return WarmUpWindow(
        draw(st.integers(1, 120)), period_us / 1e6, (period_us + 1) * periods / 1e6, draw(factors)
    )


algorithms: st.SearchStrategy[Warming] = st.one_of(sentinels, windows())


@st.composite
def traces(draw: st.DrawFn, algorithm: Warming, *, waiting: bool = True) -> list[Ask]:
    """Calls at distances around the algorithm's own scale, most of them close together."""
    scale = max(4, algorithm.window_ns)
    gap = st.one_of(
        st.just(0),
        st.integers(0, 3),
        st.integers(0, scale // 20),
        st.integers(0, 3 * scale),
        st.just(scale // 2),
    )
    cost = st.one_of(st.just(1), st.integers(1, max(1, algorithm.smallest_full_take)))
    wait = st.one_of(st.just(0), st.integers(0, 3 * scale), st.none()) if waiting else st.just(0)
    return draw(st.lists(st.builds(Ask, gap, cost, wait), max_size=60))


def warmed(algorithm: Warming, periods: int) -> tuple[State, int]:
    """The state after some periods under full load, a few large takes in each half of a period."""
    now_ns = laws.START_NS
    state = algorithm.start(now_ns)
    for _ in range(8 * periods):
        decision = algorithm.peek(state, now_ns)
        if decision.allowed:
            _, state = algorithm.take(state, now_ns, decision.remaining + 1)
        now_ns += algorithm.window_ns // 8 + 1
    return state, now_ns


def reached(data: st.DataObject, algorithm: Warming, *, waiting: bool = True) -> tuple[State, int]:
    """A state of some temperature with some recent history, and the present moment."""
    state, now_ns = warmed(algorithm, data.draw(st.sampled_from([0, 0, 3, 15, 30])))
    for ask in data.draw(traces(algorithm, waiting=waiting)):
        now_ns += ask.after_ns
        decision, state = algorithm.take(state, now_ns, ask.cost, ask.max_wait_ns)
        laws.check_decision(decision, now_ns, ask.max_wait_ns)
    return state, now_ns


@given(st.data())
def test_no_window_holds_more_than_the_quota(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = warmed(algorithm, data.draw(st.sampled_from([0, 15, 30])))
    now_ns += 2 * algorithm.window_ns
    hits: list[laws.Hit] = []
    for ask in data.draw(traces(algorithm)):
        now_ns += ask.after_ns
        from_ns = now_ns + data.draw(
            st.sampled_from([0, 0, algorithm.window_ns // 3, 2 * algorithm.window_ns])
        )
        decision, state = algorithm.take(state, now_ns, ask.cost, ask.max_wait_ns, from_ns)
        if decision.allowed:
            assert decision.at_ns >= from_ns
            hits.append(laws.Hit(decision.at_ns, ask.cost))
    laws.check_at_most(hits, algorithm.window_ns, algorithm.quota)


@given(st.data())
def test_a_cold_window_admits_its_cold_limit_at_most(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state = algorithm.start(laws.START_NS)
    assert laws.capacity(algorithm, state, laws.START_NS) == algorithm.smallest_full_take


@given(st.data())
def test_refused_before_retry_after_and_admitted_exactly_at_it(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    cost = data.draw(st.integers(1, algorithm.quota + 1))
    max_wait_ns = data.draw(st.one_of(st.just(0), st.integers(0, 2 * algorithm.window_ns)))
    laws.check_retry_after(algorithm, state, now_ns, cost, max_wait_ns)


@given(st.data())
def test_the_next_single_permit_always_comes_and_reset_tells_when(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    decision, state = algorithm.take(state, now_ns)
    if decision.allowed:
        return
    assert decision.retry_after_ns is not None
    if not decision.remaining:
        assert decision.reset_after_ns == decision.retry_after_ns
    assert algorithm.peek(state, now_ns + decision.retry_after_ns).allowed


@given(st.data())
def test_a_refused_call_consumes_nothing(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    cost = data.draw(st.integers(1, algorithm.quota + 1))
    laws.check_refusal_consumes_nothing(algorithm, state, now_ns, cost)


@given(st.data())
def test_an_earlier_moment_never_gets_more(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    state = algorithm.step(state, now_ns)
    laws.check_time_back(algorithm, state, now_ns, data.draw(st.integers(0, 3 * algorithm.window_ns)))


@given(st.data())
def test_forgetting_only_makes_stricter(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    laws.check_forgetting(algorithm, state, now_ns)


@given(st.data())
def test_a_charge_takes_what_it_says_up_to_its_cap(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm, waiting=False)
    laws.check_charge(algorithm, state, now_ns, data.draw(st.integers(1, 3 * algorithm.quota)))


@given(st.data(), st.sampled_from(["keep", "scale"]))
def test_new_numbers_and_back_never_mint(data: st.DataObject, mode: AdoptMode) -> None:
    algorithm, other = data.draw(algorithms), data.draw(algorithms)
    state, now_ns = reached(data, algorithm)
    there = other.adopt(state, now_ns, algorithm, mode)
    back = algorithm.adopt(there, now_ns, other, mode)
    assert algorithm.used(back, now_ns) >= algorithm.used(state, now_ns)
    laws.check_no_more(algorithm, back, state, now_ns)


@given(st.data(), st.sampled_from(["keep", "scale"]))
def test_new_numbers_for_a_window_and_back_do_not_mint_later_either(
    data: st.DataObject, mode: AdoptMode
) -> None:
    algorithm, other = data.draw(windows()), data.draw(windows())
    state, now_ns = reached(data, algorithm)
    laws.check_adopt_there_and_back(algorithm, other, state, now_ns, mode)


@given(st.data())
def test_giving_back_never_mints(data: st.DataObject) -> None:
    """Bookings are given back at random moments; the ones that were used still keep the bound."""
    algorithm = data.draw(algorithms)
    now_ns, state = laws.START_NS, algorithm.start(laws.START_NS)
    hits: list[laws.Hit] = []
    for ask in data.draw(traces(algorithm)):
        now_ns += ask.after_ns
        decision, state = algorithm.take(state, now_ns, ask.cost, ask.max_wait_ns)
        if decision.allowed:
            hits.append(laws.Hit(decision.at_ns, ask.cost))
        if hits and data.draw(st.integers(0, 1)) == 1:
            gone = hits.pop(data.draw(st.integers(0, len(hits) - 1)))
            used = algorithm.used(state, now_ns)
            state = algorithm.give_back(state, now_ns, gone.cost, gone.at_ns)
            assert used - gone.cost <= algorithm.used(state, now_ns) <= used
    laws.check_at_most(hits, algorithm.window_ns, algorithm.quota)


@given(st.data())
def test_a_booking_given_back_at_once_leaves_the_same_permits(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, now_ns = reached(data, algorithm, waiting=False)
    before = algorithm.step(state, now_ns)
    cost = data.draw(st.integers(1, algorithm.quota))
    decision, booked = algorithm.take(state, now_ns, cost)
    if decision.allowed:
        after = algorithm.give_back(booked, now_ns, cost, decision.at_ns)
        assert algorithm.used(after, now_ns) == algorithm.used(before, now_ns)
        assert algorithm.peek(after, now_ns).remaining == algorithm.peek(before, now_ns).remaining


@given(st.data())
def test_looking_in_between_changes_nothing_for_a_window(data: st.DataObject) -> None:
    """Time let pass in steps is time let pass at once."""
    algorithm = data.draw(windows())
    state, now_ns = reached(data, algorithm)
    end_ns = now_ns + data.draw(st.integers(0, 20 * algorithm.window_ns))
    middle_ns = data.draw(st.integers(now_ns, end_ns))
    stepped = algorithm.step(algorithm.step(state, middle_ns), end_ns)
    assert stepped == algorithm.step(state, end_ns)


@given(st.data())
def test_the_state_is_plain_numbers(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    state, _ = reached(data, algorithm)
    *numbers, log = state
    assert all(type(number) is int for number in numbers)
    assert type(log) is bytes or all(type(number) is int for number in log)
