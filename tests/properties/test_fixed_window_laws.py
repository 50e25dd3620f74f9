"""The laws of `laws.py` for FixedWindow, whose bound is one per window of its grid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import AdoptMode
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from tests.properties import laws
from tests.properties.laws import Ask

pytestmark = pytest.mark.arithmetic

UNITS = ["minute", "hour", "day", "week", "month", "year"]
ZONES = [None, "Europe/Berlin", "America/St_Johns", "Africa/Cairo", "Asia/Kolkata", "Pacific/Apia"]
limits = st.integers(1, 30)
plain = st.builds(FixedWindow, limits, st.sampled_from([1e-6, 0.001, 1, 60, 86_400]))
calendars = st.builds(FixedWindow, limits, st.sampled_from(UNITS), st.sampled_from(ZONES))
windows = st.one_of(plain, calendars)


@st.composite
def traces(draw: st.DrawFn, window: FixedWindow, *, waiting: bool = True) -> list[Ask]:
    scale = window.window_ns
    gap = st.one_of(st.just(0), st.integers(0, 3), st.integers(0, scale // 9 + 1), st.integers(0, 3 * scale))
    cost = st.one_of(st.just(1), st.integers(1, window.limit + 1))
    wait = st.one_of(st.just(0), st.integers(0, 3 * scale), st.none()) if waiting else st.just(0)
    return draw(st.lists(st.builds(Ask, gap, cost, wait), max_size=60))


def check_each_window(window: FixedWindow, hits: Iterable[laws.Hit]) -> None:
    taken: Counter[int] = Counter()
    for hit in hits:
        taken[window.start(hit.at_ns)[0]] += hit.cost
    assert max(taken.values(), default=0) <= window.limit


@given(st.data())
def test_no_window_holds_more_than_its_limit(data: st.DataObject) -> None:
    window = data.draw(windows)
    hits, _, _ = laws.replay(window, data.draw(traces(window)))
    check_each_window(window, hits)


@given(st.data())
def test_requests_booked_together_for_a_later_moment_keep_the_bound(data: st.DataObject) -> None:
    window = data.draw(windows)
    now_ns, state, hits = laws.START_NS, window.start(laws.START_NS), []
    for ask in data.draw(traces(window)):
        now_ns += ask.after_ns
        from_ns = now_ns + (ask.max_wait_ns or 0)
        decision, state = window.take(state, now_ns, ask.cost, from_ns - now_ns, from_ns)
        laws.check_decision(decision, now_ns, from_ns - now_ns)
        if decision.allowed:
            assert decision.at_ns == from_ns
            hits.append(laws.Hit(decision.at_ns, ask.cost))
    check_each_window(window, hits)


@given(st.data())
def test_a_clock_that_goes_back_never_breaks_the_bound(data: st.DataObject) -> None:
    window = data.draw(windows)
    state, hits = window.start(laws.START_NS), []
    for moment in data.draw(st.lists(st.integers(-3 * window.window_ns, 3 * window.window_ns), max_size=40)):
        decision, state = window.take(state, laws.START_NS + moment, 1, data.draw(st.sampled_from([0, None])))
        if decision.allowed:
            hits.append(laws.Hit(decision.at_ns, 1))
    check_each_window(window, hits)


@given(st.data())
def test_refused_before_retry_after_and_admitted_exactly_at_it(data: st.DataObject) -> None:
    window = data.draw(windows)
    _, state, now_ns = laws.replay(window, data.draw(traces(window)))
    state = window.charge(state, now_ns, data.draw(st.integers(0, 2 * window.limit)))
    cost = data.draw(st.integers(1, window.limit + 1))
    max_wait_ns = data.draw(st.one_of(st.just(0), st.integers(0, 3 * window.window_ns)))
    laws.check_retry_after(window, state, now_ns, cost, max_wait_ns)


@given(st.data())
def test_a_refused_call_consumes_nothing(data: st.DataObject) -> None:
    window = data.draw(windows)
    _, state, now_ns = laws.replay(window, data.draw(traces(window)))
    laws.check_refusal_consumes_nothing(window, state, now_ns, data.draw(st.integers(1, window.limit + 1)))


@given(st.data())
def test_an_earlier_moment_never_gets_more(data: st.DataObject) -> None:
    window = data.draw(windows)
    _, state, now_ns = laws.replay(window, data.draw(traces(window)))
    laws.check_time_back(window, state, now_ns, data.draw(st.integers(0, 3 * window.window_ns)))


@given(st.data())
def test_forgetting_only_makes_stricter(data: st.DataObject) -> None:
    window = data.draw(windows)
    _, state, now_ns = laws.replay(window, data.draw(traces(window)))
    state = window.charge(state, now_ns, data.draw(st.integers(0, 2 * window.limit)))
    laws.check_forgetting(window, state, now_ns)


@given(st.data())
def test_a_charge_takes_what_it_says_up_to_its_cap(data: st.DataObject) -> None:
    window = data.draw(windows)
    _, state, now_ns = laws.replay(window, data.draw(traces(window)))
    laws.check_charge(window, state, now_ns, data.draw(st.integers(1, 3 * window.limit)))


@given(st.data(), st.sampled_from(["keep", "scale"]))
def test_new_numbers_and_back_never_mint(data: st.DataObject, mode: AdoptMode) -> None:
    window, other = data.draw(windows), data.draw(windows)
    _, state, now_ns = laws.replay(window, data.draw(traces(window)))
    laws.check_adopt_there_and_back(window, other, state, now_ns, mode)


@given(st.data())
def test_giving_back_never_lets_the_used_permits_break_the_bound(data: st.DataObject) -> None:
    window = data.draw(windows)
    now_ns, state = laws.START_NS, window.start(laws.START_NS)
    hits: list[laws.Hit] = []
    for ask in data.draw(traces(window)):
        now_ns += ask.after_ns
        decision, state = window.take(state, now_ns, ask.cost, ask.max_wait_ns)
        if decision.allowed:
            hits.append(laws.Hit(decision.at_ns, ask.cost))
        if hits and data.draw(st.integers(0, 1)) == 1:
            gone = hits.pop(data.draw(st.integers(0, len(hits) - 1)))
            used = window.used(state, now_ns)
            state = window.give_back(state, now_ns, gone.cost, gone.at_ns)
            assert used - gone.cost <= window.used(state, now_ns) <= used
    check_each_window(window, hits)


@given(st.data())
def test_a_booking_given_back_at_once_leaves_the_state_as_before(data: st.DataObject) -> None:
    window = data.draw(windows)
    _, state, now_ns = laws.replay(window, data.draw(traces(window)))
    decision, booked = window.take(state, now_ns, 1, None)
    after = window.give_back(booked, now_ns, 1, decision.at_ns) if decision.allowed else booked
    assert after == window.step(state, now_ns)


@given(st.data())
def test_windows_follow_each_other_without_gap_or_overlap(data: st.DataObject) -> None:
    window = data.draw(calendars)
    end_ns = window.start(data.draw(st.integers(0, 2**62)))[1]
    for _ in range(30):
        start_ns, next_ns, _, _ = window.start(end_ns)
        assert start_ns == end_ns < next_ns
        assert window.start(next_ns - 1)[:2] == (start_ns, next_ns)
        end_ns = next_ns
