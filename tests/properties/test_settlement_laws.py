"""Requests that cost less in the end than they have booked: no algorithm ever mints, however late it hears.

`charge` and `cost: {reserve, actual}` settle while others have booked meanwhile. What is given back is a
part of a booking, or the whole of it, and seldom the last one.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from tests.properties.cases import Case, cases
from tests.properties.kinds import KINDS
from tests.properties.laws import START_NS, Hit

pytestmark = pytest.mark.arithmetic

# The others price a request as a whole, before it starts: rules do not settle them in parts.
INDIVISIBLE = {"SmoothBursty", "SmoothWarmingUp", "Pacing", "WarmUpPacing"}
DIVISIBLE = tuple(name for name in KINDS if name not in INDIVISIBLE)

law = settings(max_examples=20 * len(DIVISIBLE))


def most(algorithm: Any) -> int:
    """The largest cost that may be settled in parts."""
    if isinstance(algorithm, LeakyBucket) and algorithm.delay != "nodelay":
        return int(min(algorithm.burst, algorithm.delay)) + 1
    return max(1, int(algorithm.smallest_full_take))


def settled(case: Case, dice: bytes) -> list[Hit]:
    """Play a trace whose requests settle in any order; what each one has used in the end.

    Args:
        case: the trace.
        dice: three bytes for each call: how many have ended, which one, and its part that comes back.
    """
    algorithm = case.algorithm
    now_ns, state, hits = START_NS, algorithm.start(START_NS), list[Hit]()
    for call, ended, which, share in zip(case.trace, dice[::3], dice[1::3], dice[2::3], strict=False):
        now_ns += call.after_ns
        from_ns, cost = now_ns + call.from_after_ns, min(call.cost, most(algorithm))
        decision, state = algorithm.take(state, now_ns, cost, call.max_wait_ns, from_ns)
        if decision.allowed:
            hits.append(Hit(decision.at_ns, cost))
        elif share % 4 == 0:
            state = algorithm.charge(state, now_ns, cost)
        for _ in range(min(ended % 4, len(hits))):
            place = len(hits) - 1 - which % min(5, len(hits))
            hit = hits.pop(place)
            part = max(1, hit.cost * share // 255)
            used = algorithm.used(state, now_ns)
            state = algorithm.give_back(state, now_ns, part, hit.at_ns)
            assert used - part <= algorithm.used(state, now_ns) <= used
            if part < hit.cost:
                hits.insert(place, Hit(hit.at_ns, hit.cost - part))
    return hits


@law
@given(cases(names=DIVISIBLE), st.binary(min_size=120, max_size=120))
def test_what_requests_use_in_the_end_keeps_the_bound(case: Case, dice: bytes) -> None:
    case.kind.keeps(case.algorithm, settled(case, dice), case.waits)


@law
@given(cases(names=DIVISIBLE, waiting=False), st.integers(0, 255))
def test_a_part_given_back_at_once_leaves_what_a_smaller_request_would_have_left(
    case: Case, share: int
) -> None:
    algorithm = case.algorithm
    state, now_ns, _ = case.reached()
    cost = min(case.cost, most(algorithm))
    part = cost * share // 255
    decision, booked = algorithm.take(state, now_ns, cost)
    if decision.allowed and 0 < part < cost:
        after = algorithm.give_back(booked, now_ns, part, decision.at_ns)
        smaller = algorithm.take(state, now_ns, cost - part)[1]
        assert algorithm.used(after, now_ns) == algorithm.used(smaller, now_ns)
        assert algorithm.peek(after, now_ns).remaining == algorithm.peek(smaller, now_ns).remaining


@given(cases(names=("SmoothBursty", "SmoothWarmingUp")), st.integers(1, 9))
def test_of_guavas_debt_a_part_is_never_given_back_for_more_than_it_cost(case: Case, part: int) -> None:
    """Mostly nothing is: what came before a booking is known for the whole of it only."""
    algorithm = case.algorithm
    state, now_ns, _ = case.reached()
    decision, booked = algorithm.take(state, now_ns, part + 1, None)
    after = algorithm.give_back(booked, now_ns, part, decision.at_ns)
    used = algorithm.used(booked, now_ns)
    least = used - case.kind.dearest(algorithm, part) - case.kind.slack
    assert least <= algorithm.used(after, now_ns) <= used + case.kind.slack


def test_a_bucket_gives_back_what_cannot_have_flowed_in_behind_a_booking() -> None:
    """Another booking 0.5 s later: in that time half a permit may have been lost at the brim."""
    second = 10**9
    for bucket in (GCRA(1, 1, 5), LeakyBucket(1, 4, "nodelay"), TokenBucket(5, 1, 1, "greedy")):
        first, state = bucket.take(bucket.start(0), 0, 4)
        _, state = bucket.take(state, second // 2, 1)
        after = bucket.give_back(state, second // 2, 4, first.at_ns)
        _, alone = bucket.take(bucket.start(0), second // 2, 1)
        for moment_ns in (second // 2, second, 3 * second // 2):
            assert bucket.used(after, moment_ns) == bucket.used(alone, moment_ns), bucket


def test_of_a_booking_before_one_that_lies_ahead_nothing_comes_back_that_the_other_counts_on() -> None:
    """The other asked for a later start; by then the bucket would have been full without the first, too."""
    second = 10**9
    for bucket in (GCRA(1, 1, 5), LeakyBucket(1, 4, "nodelay"), TokenBucket(5, 1, 1, "greedy")):
        first, state = bucket.take(bucket.start(0), 0, 4)
        _, ahead = bucket.take(state, 1, 5, None, 20 * second)
        last, state = bucket.take(ahead, 2, 1, None, 20 * second)
        assert bucket.give_back(state, 3, 4, first.at_ns) == state, bucket
        after = bucket.give_back(state, 3, 1, last.at_ns)
        assert bucket.used(after, 20 * second) == bucket.used(ahead, 20 * second), bucket


def test_in_a_window_of_the_calendar_the_month_of_the_booking_counts() -> None:
    month = FixedWindow(10, "month")
    october_31, november_1 = 1_698_793_199 * 10**9, 1_698_796_801 * 10**9
    booking, state = month.take(month.start(october_31), october_31, 8)
    _, state = month.take(state, november_1, 3)
    after = month.give_back(state, november_1, 5, booking.at_ns)
    assert month.used(after, november_1) == 3
