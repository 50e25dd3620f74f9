"""Requests that cost less in the end than they have booked: no algorithm ever mints, however late it hears.

`charge` and `cost: {reserve, actual}` settle while others have booked meanwhile. What is given back is a
part of a booking, or the whole of it, and seldom the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from tests.properties import laws
from tests.properties import test_fixed_window_laws as fixed
from tests.properties import test_guava_laws as guava
from tests.properties import test_laws as exact
from tests.properties import test_sentinel_laws as sentinel
from tests.properties import test_warm_up_laws as warm_up
from tests.properties.laws import Hit

pytestmark = pytest.mark.arithmetic

Bound: TypeAlias = Callable[[Any, Sequence[Hit]], None]

rates = st.one_of(st.sampled_from([0.5, 1.5, 5, 10, 1000]), st.integers(1, 10**6).map(lambda n: n / 1000))
tokens = st.builds(
    TokenBucket,
    st.integers(1, 60),
    exact.periods_s,
    st.integers(1, 20),
    st.sampled_from(["interval", "greedy"]),
)
leaky = st.builds(LeakyBucket, rates, st.integers(0, 60), st.one_of(st.just("nodelay"), st.integers(0, 60)))
divisible: st.SearchStrategy[Any] = st.one_of(
    exact.windows, exact.buckets, tokens, leaky, fixed.windows, sentinel.counting, warm_up.algorithms
)


def check_gcra(bucket: GCRA, hits: Sequence[Hit]) -> None:
    laws.check_burst_and_rate(hits, bucket.burst, bucket.limit, bucket.period_ns, 1)


def check_tokens(bucket: TokenBucket, hits: Sequence[Hit]) -> None:
    if bucket.refill == "greedy":
        laws.check_burst_and_rate(hits, bucket.capacity, bucket.quantum, bucket.fill_interval_ns, 1)
        return
    # Of those that wait for one refill, the last finds up to a quantum less one besides its own cost.
    burst = max(bucket.capacity, bucket.quantum - 1 + max((hit.cost for hit in hits), default=0))
    laws.check_envelope(hits, lambda t_ns: burst + bucket.quantum * -(-t_ns // bucket.fill_interval_ns))


def check_leaky(bucket: LeakyBucket, hits: Sequence[Hit]) -> None:
    at_once = 1 + (bucket.burst if bucket.delay == "nodelay" else min(bucket.burst, bucket.delay))
    laws.check_burst_and_rate(hits, at_once, bucket.rate_milli, 10**12, 1)


def check_window(window: SlidingWindow, hits: Sequence[Hit]) -> None:
    laws.check_at_most(hits, window.period_ns, window.limit)


def most(algorithm: Algorithm) -> int:
    """The largest cost that may be settled in parts."""
    if isinstance(algorithm, LeakyBucket) and algorithm.delay != "nodelay":
        return min(algorithm.burst, algorithm.delay) + 1
    return max(1, algorithm.smallest_full_take)


def play(data: st.DataObject, algorithm: Any, *, ahead: bool) -> list[Hit]:
    """Requests that book, and settle in any order; what each one has used in the end.

    Args:
        data: draws.
        algorithm: keeps the requests apart.
        ahead: requests may wait, or start at a moment that another limit asked for.
    """
    scale_ns = max(2, algorithm.window_ns)
    gaps = st.one_of(*(st.integers(0, most_ns) for most_ns in (0, 3, scale_ns // 20, scale_ns)))
    now_ns, state = laws.START_NS, algorithm.start(laws.START_NS)
    hits: list[Hit] = []
    for gap_ns in data.draw(st.lists(gaps, max_size=40)):
        now_ns += gap_ns
        wait_ns = data.draw(st.sampled_from([0, 0, scale_ns])) if ahead else 0
        from_ns = now_ns + (data.draw(st.sampled_from([0, 0, wait_ns // 3])))
        cost = data.draw(st.integers(1, most(algorithm)))
        decision, state = algorithm.take(state, now_ns, cost, wait_ns, from_ns)
        if decision.allowed:
            hits.append(Hit(decision.at_ns, cost))
        elif data.draw(st.integers(0, 3)) == 0:
            state = algorithm.charge(state, now_ns, cost)
        while data.draw(st.integers(0, 2)) and hits:
            place = data.draw(st.integers(max(0, len(hits) - 5), len(hits) - 1))
            part = data.draw(st.integers(1, hits[place].cost))
            used = algorithm.used(state, now_ns)
            state = algorithm.give_back(state, now_ns, part, hits[place].at_ns)
            assert used - part <= algorithm.used(state, now_ns) <= used
            left = hits[place].cost - part
            hits[place : place + 1] = [Hit(hits[place].at_ns, left)] if left else []
    return hits


@pytest.mark.parametrize("ahead", [False, True], ids=["at-once", "ahead"])
@pytest.mark.parametrize(
    ("algorithms", "check"),
    [
        (exact.windows, check_window),
        (exact.buckets, check_gcra),
        (tokens, check_tokens),
        (leaky, check_leaky),
        (fixed.windows, fixed.check_each_window),
    ],
    ids=["sliding_window", "gcra", "token_bucket", "leaky_bucket", "fixed_window"],
)
@given(data=st.data())
def test_what_requests_use_in_the_end_keeps_the_bound(
    algorithms: st.SearchStrategy[Any], check: Bound, ahead: bool, data: st.DataObject
) -> None:
    algorithm = data.draw(algorithms)
    check(algorithm, play(data, algorithm, ahead=ahead))


@given(st.data())
def test_a_part_given_back_at_once_leaves_what_a_smaller_request_would_have_left(
    data: st.DataObject,
) -> None:
    algorithm = data.draw(divisible)
    now_ns, state = laws.START_NS, algorithm.start(laws.START_NS)
    for gap_ns in data.draw(st.lists(st.integers(0, max(2, algorithm.window_ns)), max_size=8)):
        now_ns += gap_ns
        state = algorithm.take(state, now_ns)[1]
    cost = data.draw(st.integers(1, most(algorithm)))
    part = data.draw(st.integers(1, cost))
    decision, booked = algorithm.take(state, now_ns, cost)
    if decision.allowed and part < cost:
        settled = algorithm.give_back(booked, now_ns, part, decision.at_ns)
        smaller = algorithm.take(state, now_ns, cost - part)[1]
        assert algorithm.used(settled, now_ns) == algorithm.used(smaller, now_ns)
        assert algorithm.peek(settled, now_ns).remaining == algorithm.peek(smaller, now_ns).remaining


@given(st.data())
def test_of_guavas_debt_a_part_is_never_given_back_for_more_than_it_cost(data: st.DataObject) -> None:
    """Mostly nothing is: what came before a booking is known for the whole of it only."""
    algorithm = data.draw(guava.algorithms)
    state, now_ns = guava.reached(data, algorithm)
    cost = data.draw(st.integers(2, 9))
    decision, booked = algorithm.take(state, now_ns, cost, None)
    part = data.draw(st.integers(1, cost - 1))
    settled = algorithm.give_back(booked, now_ns, part, decision.at_ns)
    smaller = algorithm.take(state, now_ns, cost - part, None)[1]
    # One for what is rounded up, and the fractions of microseconds that nobody has paid.
    least = algorithm.used(smaller, now_ns) - guava.grain(algorithm) - 1
    assert least <= algorithm.used(settled, now_ns) <= algorithm.used(booked, now_ns) + 1


def test_a_bucket_gives_back_what_cannot_have_flowed_in_behind_a_booking() -> None:
    """Another booking 0.5 s later: in that time half a permit may have been lost at the brim."""
    second = 10**9
    for bucket in (GCRA(1, 1, 5), LeakyBucket(1, 4, "nodelay"), TokenBucket(5, 1, 1, "greedy")):
        state = bucket.start(0)
        first, state = bucket.take(state, 0, 4)
        _, state = bucket.take(state, second // 2, 1)
        settled = bucket.give_back(state, second // 2, 4, first.at_ns)
        _, alone = bucket.take(bucket.start(0), second // 2, 1)
        for moment_ns in (second // 2, second, 3 * second // 2):
            assert bucket.used(settled, moment_ns) == bucket.used(alone, moment_ns), bucket


def test_in_a_window_of_the_calendar_the_month_of_the_booking_counts() -> None:
    month = FixedWindow(10, "month")
    october_31, november_1 = 1_698_793_199 * 10**9, 1_698_796_801 * 10**9
    booking, state = month.take(month.start(october_31), october_31, 8)
    _, state = month.take(state, november_1, 3)
    settled = month.give_back(state, november_1, 5, booking.at_ns)
    assert month.used(settled, november_1) == 3
