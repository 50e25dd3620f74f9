"""What holds for the algorithms that warm up only."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from tests.properties import laws
from tests.properties.cases import Case, cases
from tests.properties.kinds import factors, warm_up_windows, warm_ups

pytestmark = pytest.mark.arithmetic

windows = cases(names=("WarmUpWindow",))
# Prices are rounded up there; in `Pacing` and in whole milliseconds they are rounded to the nearest.
in_ns = cases(names=("WarmUpPacing",)).map(
    lambda case: case._replace(algorithm=replace(case.algorithm, whole_ms=False))
)


@given(cases(names=("WarmUp", "WarmUpWindow")))
def test_a_cold_window_admits_its_cold_limit_at_most(case: Case) -> None:
    state = case.algorithm.start(laws.START_NS)
    assert laws.capacity(case.algorithm, state, laws.START_NS) == case.algorithm.smallest_full_take


@given(windows, warm_up_windows())
def test_new_numbers_for_a_window_and_back_do_not_mint_later_either(case: Case, other: object) -> None:
    state, now_ns, _ = case.reached()
    laws.check_adopt_there_and_back(
        case.algorithm, case._replace(other=other).other, state, now_ns, case.mode
    )


@given(windows, st.floats(0, 1), st.integers(0, 20))
def test_looking_in_between_changes_nothing_for_a_window(case: Case, share: float, periods: int) -> None:
    """Time let pass in steps is time let pass at once."""
    algorithm = case.algorithm
    state, now_ns, _ = case.reached()
    later_ns = case.moment_ns + periods * algorithm.window_ns
    middle_ns, end_ns = now_ns + int(share * later_ns), now_ns + later_ns
    assert algorithm.step(algorithm.step(state, middle_ns), end_ns) == algorithm.step(state, end_ns)


@given(in_ns)
def test_all_paced_requests_but_the_first_never_exceed_the_count(case: Case) -> None:
    hits = case.reached().hits
    top, bottom = float(case.algorithm.count).as_integer_ratio()
    for first, start in enumerate(hits):
        total = 0
        for hit in hits[first + 1 :]:
            total += hit.cost
            assert total * bottom * 10**9 <= (hit.at_ns - start.at_ns) * top


@given(cases(names=("Pacing", "WarmUpPacing")))
def test_single_paced_permits_keep_the_quota_in_any_window(case: Case) -> None:
    singles = case._replace(trace=tuple(call._replace(cost=1) for call in case.trace))
    laws.check_at_most(singles.reached().hits, case.algorithm.window_ns, case.algorithm.quota)


@given(in_ns)
def test_a_cold_bucket_spaces_them_by_the_cold_interval(case: Case) -> None:
    """As long as no second border has been crossed."""
    algorithm = case.algorithm
    state, moments = algorithm.start(laws.START_NS), list[int]()
    for _ in range(5):
        decision, state = algorithm.take(state, laws.START_NS, 1, None)
        if decision.allowed:
            moments.append(decision.at_ns)
    cold_ns = math.ceil(algorithm.cold_factor / algorithm.count * 1e9)
    if algorithm.max_token > algorithm.warning_token:
        assert all(late - early == pytest.approx(cold_ns, abs=2) for early, late in pairwise(moments))
    assert moments


@given(
    st.builds(WarmUpPacing, st.floats(1, 50), warm_ups, factors, st.floats(2, 30)),
    st.integers(0, 120),
    st.lists(st.integers(1, 10), max_size=30),
    st.integers(1, 300),
    st.integers(0, 20 * 10**9),
)
def test_no_second_before_retry_after_would_have_admitted(
    algorithm: WarmUpPacing, warm_up: int, queue: list[int], cost: int, max_wait_ns: int
) -> None:
    """The price changes from second to second, up and down, while those pass who are booked."""
    state, now_ns, _ = Case("WarmUpPacing", algorithm, warm_up=warm_up).reached()
    for size in queue:
        _, state = algorithm.take(state, now_ns, size, None)
    refused, kept = algorithm.take(state, now_ns, cost, max_wait_ns)
    if refused.retry_after_ns is None:
        assert refused.allowed
        return
    due_ns = now_ns + refused.retry_after_ns
    ends = range((now_ns // 10**9 + 1) * 10**9 - 1, due_ns, 10**9)
    assert not any(algorithm.take(kept, end_ns, cost, max_wait_ns)[0].allowed for end_ns in ends)
    assert algorithm.take(kept, due_ns, cost, max_wait_ns)[0].allowed


@given(cases(names=("Pacing", "WarmUpPacing")))
def test_remaining_is_what_one_as_patient_as_the_asker_can_take(case: Case) -> None:
    algorithm = case.algorithm
    state, now_ns, _ = case.reached()
    decision, state = algorithm.take(state, now_ns, 1, case.wait_ns)
    for left in range(min(decision.remaining, 200), 0, -1):
        decision, state = algorithm.take(state, now_ns, 1, case.wait_ns)
        assert decision.allowed
        assert decision.remaining >= left - 1


@given(in_ns)
def test_a_warm_bucket_is_no_warmer_after_new_numbers_and_back(case: Case) -> None:
    """Now: a bucket just below the line may have been refilled over it a second later."""
    algorithm, other = case.algorithm, case.other
    state, now_ns, _ = case.reached()
    before = algorithm.step(state, now_ns)
    back = algorithm.adopt(other.adopt(state, now_ns, algorithm, case.mode), now_ns, other, case.mode)
    assert back[0] >= before[0]
