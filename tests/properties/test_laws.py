"""The laws of `laws.py` for the algorithms with an exact bound: SlidingWindow and GCRA."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import AdoptMode
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from tests.properties import laws
from tests.properties.laws import Ask

pytestmark = pytest.mark.arithmetic

Exact: TypeAlias = SlidingWindow | GCRA

periods_s = st.one_of(
    st.sampled_from([1e-6, 0.001, 1, 60, 3600, 86_400 * 30]),
    st.integers(1, 10**7).map(lambda us: us / 1e6),
)
windows = st.builds(SlidingWindow, st.integers(1, 200), periods_s)
buckets = st.builds(GCRA, st.integers(1, 200), periods_s, st.integers(1, 200))
algorithms: st.SearchStrategy[Exact] = st.one_of(windows, buckets)


@st.composite
def traces(draw: st.DrawFn, algorithm: Exact, *, waiting: bool = True) -> list[Ask]:
    """Calls at distances around the algorithm's own scale, most of them close together."""
    scale = max(2, algorithm.window_ns)
    gap = st.one_of(st.just(0), st.integers(0, 3), st.integers(0, scale // 64 + 1), st.integers(0, scale + 2))
    cost = st.one_of(st.just(1), st.integers(1, algorithm.quota + 1))
    wait = st.one_of(st.just(0), st.integers(0, 3 * scale), st.none()) if waiting else st.just(0)
    return draw(st.lists(st.builds(Ask, gap, cost, wait), max_size=90))


@given(st.data())
def test_a_window_never_holds_more_than_its_limit(data: st.DataObject) -> None:
    window = data.draw(windows)
    hits, _, _ = laws.replay(window, data.draw(traces(window)))
    laws.check_at_most(hits, window.period_ns, window.limit)


@given(st.data(), st.booleans())
def test_a_bucket_never_gives_more_than_burst_and_rate(data: st.DataObject, waiting: bool) -> None:
    bucket = data.draw(buckets)
    hits, _, _ = laws.replay(bucket, data.draw(traces(bucket, waiting=waiting)))
    laws.check_burst_and_rate(hits, bucket.burst, bucket.limit, bucket.period_ns, int(waiting))


@given(st.data())
def test_requests_booked_together_for_a_later_moment_keep_the_bound(data: st.DataObject) -> None:
    """Bookings at a start time that another limit asked for (`from_ns`), mixed with ones for now."""
    window = data.draw(windows)
    now_ns, state, hits = laws.START_NS, window.start(laws.START_NS), []
    for ask in data.draw(traces(window)):
        now_ns += ask.after_ns
        from_ns = now_ns + (ask.max_wait_ns or 0)
        decision, state = window.take(state, now_ns, ask.cost, from_ns - now_ns, from_ns)
        if decision.allowed:
            assert decision.at_ns == from_ns
            hits.append(laws.Hit(decision.at_ns, ask.cost))
    laws.check_at_most(hits, window.period_ns, window.limit)


@given(st.data())
def test_refused_before_retry_after_and_admitted_exactly_at_it(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    _, state, now_ns = laws.replay(algorithm, data.draw(traces(algorithm)))
    cost = data.draw(st.integers(1, algorithm.quota + 1))
    max_wait_ns = data.draw(st.one_of(st.just(0), st.integers(0, 2 * algorithm.window_ns)))
    laws.check_retry_after(algorithm, state, now_ns, cost, max_wait_ns)


@given(st.data())
def test_a_refused_call_consumes_nothing(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    _, state, now_ns = laws.replay(algorithm, data.draw(traces(algorithm)))
    cost = data.draw(st.integers(1, algorithm.quota + 1))
    laws.check_refusal_consumes_nothing(algorithm, state, now_ns, cost)


@given(st.data())
def test_an_earlier_moment_never_gets_more(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    _, state, now_ns = laws.replay(algorithm, data.draw(traces(algorithm)))
    laws.check_time_back(algorithm, state, now_ns, data.draw(st.integers(0, 3 * algorithm.window_ns)))


@given(st.data())
def test_forgetting_only_makes_stricter(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    _, state, now_ns = laws.replay(algorithm, data.draw(traces(algorithm)))
    laws.check_forgetting(algorithm, state, now_ns)


@given(st.data())
def test_a_charge_takes_what_it_says_up_to_its_cap(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    _, state, now_ns = laws.replay(algorithm, data.draw(traces(algorithm, waiting=False)))
    laws.check_charge(algorithm, state, now_ns, data.draw(st.integers(1, 3 * algorithm.quota)))


@given(st.data(), st.sampled_from(["keep", "scale"]))
def test_new_numbers_and_back_never_mint(data: st.DataObject, mode: AdoptMode) -> None:
    algorithm, other = data.draw(algorithms), data.draw(algorithms)
    _, state, now_ns = laws.replay(algorithm, data.draw(traces(algorithm, waiting=False)))
    laws.check_adopt_there_and_back(algorithm, other, state, now_ns, mode)


@given(st.data())
def test_giving_back_never_lets_the_used_permits_break_the_bound(data: st.DataObject) -> None:
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
    if isinstance(algorithm, SlidingWindow):
        laws.check_at_most(hits, algorithm.period_ns, algorithm.limit)
    else:
        laws.check_burst_and_rate(hits, algorithm.burst, algorithm.limit, algorithm.period_ns, 1)


@given(st.data())
def test_a_booking_given_back_at_once_leaves_the_state_as_before(data: st.DataObject) -> None:
    algorithm = data.draw(algorithms)
    _, state, now_ns = laws.replay(algorithm, data.draw(traces(algorithm, waiting=False)))
    before = algorithm.step(state, now_ns)
    cost = data.draw(st.integers(1, algorithm.quota))
    decision, booked = algorithm.take(state, now_ns, cost, None)
    after = algorithm.give_back(booked, now_ns, cost, decision.at_ns)
    assert algorithm.used(after, now_ns) == algorithm.used(before, now_ns)
    assert algorithm.peek(after, now_ns).remaining == algorithm.peek(before, now_ns).remaining
