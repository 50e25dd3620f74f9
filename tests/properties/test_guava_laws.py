"""What holds for Guava's limiters only, where a request of any size is granted and paid for later."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from tests.properties.cases import Case, cases
from tests.properties.laws import Hit

pytestmark = pytest.mark.arithmetic

guava = cases(names=("SmoothBursty", "SmoothWarmingUp"))


@given(guava, st.lists(st.integers(1, 5), min_size=1, max_size=12))
def test_a_queue_that_leaves_from_its_end_leaves_the_state_as_before(case: Case, costs: list[int]) -> None:
    algorithm = case.algorithm
    state, now_ns, _ = case.reached()
    states, bookings = [algorithm.step(state, now_ns)], []
    for cost in costs:
        decision, state = algorithm.take(states[-1], now_ns, cost, None)
        states.append(state)
        bookings.append(Hit(decision.at_ns, cost))
    for booking, before in zip(reversed(bookings), reversed(states[:-1]), strict=True):
        if [other.at_ns for other in bookings].count(booking.at_ns) > 1:
            break  # of those that stored permits let go at one moment the last one stands for all
        state = algorithm.give_back(state, now_ns, booking.cost, booking.at_ns)
        assert state[:2] == before[:2]
        if before[0]:
            # Before that, whole permits are added to a double, which need not give the double they left.
            break


@given(guava, st.lists(st.integers(1, 5), min_size=1, max_size=12))
def test_a_queue_that_leaves_from_its_end_never_mints_and_takes_no_more_than_it_had(
    case: Case, costs: list[int]
) -> None:
    """Of those that stored permits let go at one moment not every one comes back."""
    algorithm = case.algorithm
    state, now_ns, _ = case.reached()
    before, bookings = algorithm.used(state, now_ns), list[Hit]()
    for cost in costs:
        decision, state = algorithm.take(state, now_ns, cost, None)
        bookings.append(Hit(decision.at_ns, cost))
    booked = algorithm.used(state, now_ns)
    for booking in reversed(bookings):
        state = algorithm.give_back(state, now_ns, booking.cost, booking.at_ns)
    assert before <= algorithm.used(state, now_ns) <= booked


@given(guava)
def test_any_size_is_granted_exactly_when_one_permit_is(case: Case) -> None:
    state, now_ns, _ = case.reached()
    single = case.algorithm.peek(state, now_ns)
    huge = case.algorithm.peek(state, now_ns, case.algorithm.smallest_full_take)
    assert huge[:4] == single[:4]


@given(guava)
def test_new_numbers_and_back_change_no_more_than_the_last_bits_of_a_double(case: Case) -> None:
    """The debt is the same; free permits are not more, cold ones not fewer."""
    algorithm, other = (
        case.algorithm,
        case.algorithm.scaled(min(case.factor, 9e5 / case.algorithm.permits_per_second)),
    )
    state, now_ns, _ = case.reached()
    before = algorithm.step(state, now_ns)
    back = algorithm.adopt(other.adopt(state, now_ns, algorithm, case.mode), now_ns, other, case.mode)
    assert back[1] == before[1]
    if isinstance(algorithm, SmoothBursty):
        assert back[0] <= before[0] * (1 + 1e-12)
    else:
        assert back[0] >= before[0] * (1 - 1e-12)


@given(guava, st.floats(0, 1))
def test_looking_in_between_stores_the_same_but_for_rounding(case: Case, share: float) -> None:
    algorithm = case.algorithm
    state, now_ns, _ = case.reached()
    middle_ns, end_ns = now_ns + int(share * case.moment_ns), now_ns + case.moment_ns
    stepped = algorithm.step(algorithm.step(state, middle_ns), end_ns)
    straight = algorithm.step(state, end_ns)
    assert stepped[1] == straight[1]
    assert stepped[0] == pytest.approx(straight[0], rel=1e-12, abs=1e-12)


@given(guava)
def test_the_state_is_never_out_of_bounds(case: Case) -> None:
    state, _, _ = case.reached()
    assert [type(number) for number in state] == [float, int, int, float, int]
    assert 0 <= state[0] <= case.algorithm.max_permits
