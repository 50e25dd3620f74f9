"""What holds for the buckets only: TokenBucket with both refills, and LeakyBucket."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from tests.properties import laws
from tests.properties.cases import Case, cases

pytestmark = pytest.mark.arithmetic

token_buckets = cases(names=("TokenBucket", "TokenBucket, greedy"))
buckets = cases(names=("TokenBucket", "TokenBucket, greedy", "LeakyBucket"))


def line(bucket: Any, state: State, now_ns: int) -> tuple[int, int]:
    """Permits in use, and how many are left."""
    return bucket.used(state, now_ns), bucket.peek(state, now_ns).remaining


@given(token_buckets, st.integers(1, 180))
def test_retry_after_is_exact_around_the_least_wait_of_a_large_cost(case: Case, above: int) -> None:
    """A cost above the capacity waits even when the bucket is full; patience just under it never helps."""
    bucket = case.algorithm
    state, now_ns, _ = case.reached()
    cost = bucket.capacity + above
    edges = -(-above * bucket.unit // bucket.quantum) - 1
    for max_wait_ns in (edges * bucket.grain_ns, edges * bucket.grain_ns + 1):
        laws.check_retry_after(bucket, state, now_ns, cost, max_wait_ns)
    never = bucket.take(bucket.start(now_ns), now_ns, cost, edges * bucket.grain_ns)[0]
    assert (never.allowed, never.retry_after_ns) == (False, None)


@given(buckets)
def test_exactly_the_remaining_permits_are_there_and_reset_brings_them_all(case: Case) -> None:
    bucket = case.algorithm
    state, now_ns, _ = case.reached()
    decision = bucket.peek(state, now_ns, bucket.quota + 1)
    assert laws.capacity(bucket, state, now_ns) == decision.remaining
    if decision.remaining:
        full_ns = now_ns + decision.reset_after_ns
        assert bucket.used(state, full_ns) == 0
        assert decision.reset_after_ns == 0 or bucket.used(state, full_ns - 1) > 0


@given(buckets, st.lists(st.floats(0, 2), max_size=5))
def test_going_back_and_forth_in_time_never_mints(case: Case, windows_back: list[float]) -> None:
    """Asked in any order of moments, a bucket holds no more at the end than one never asked."""
    bucket = case.algorithm
    state, now_ns, _ = case.reached()
    asked = state
    for back in windows_back:
        moment_ns = now_ns - int(back * bucket.window_ns)
        _, asked = bucket.take(asked, moment_ns, bucket.quota + 1, 0)
        asked = bucket.step(asked, moment_ns)
    assert line(bucket, asked, now_ns) == line(bucket, state, now_ns)


@given(buckets, st.lists(st.integers(0, 10**10)))
def test_the_first_refill_of_a_forgotten_key_comes_no_earlier(case: Case, later_ns: list[int]) -> None:
    bucket = case.algorithm
    state, now_ns, _ = case.reached()
    now_ns = max(now_ns, bucket.forget_at_ns(state)) + case.moment_ns
    cost = min(case.cost, bucket.smallest_full_take)
    _, remembered = bucket.take(state, now_ns, cost, None)
    _, forgotten = bucket.take(bucket.start(now_ns), now_ns, cost, None)
    laws.check_no_more(bucket, forgotten, remembered, now_ns, later_ns)


@given(buckets, st.booleans())
def test_a_charge_never_gives_even_beyond_its_cap_or_back_in_time(case: Case, earlier: bool) -> None:
    bucket = case.algorithm
    state, now_ns, _ = case.reached()
    now_ns -= bucket.window_ns * earlier
    charged, before = bucket.charge(state, now_ns, case.cost), bucket.used(state, now_ns)
    highest = max(before, 2 * bucket.quota)
    assert min(before + case.cost, highest) <= bucket.used(charged, now_ns) <= highest
    laws.check_no_more(bucket, charged, state, now_ns)


@given(buckets)
def test_equal_numbers_adopt_the_same_permits(case: Case) -> None:
    bucket = case.algorithm
    state, now_ns, _ = case.reached()
    adopted = bucket.adopt(state, now_ns, bucket, case.mode)
    for later_ns in (0, 1, bucket.window_ns // 3, bucket.window_ns):
        assert line(bucket, adopted, now_ns + later_ns) == line(bucket, state, now_ns + later_ns)


def assert_times(count: int, factor: float, scaled: int) -> None:
    """Rounded down, at least 1; what a double's last bits take from a whole number is no permit less."""
    assert max(1, int(count * factor)) <= scaled <= max(1, int(count * factor * (1 + 1e-15)))


@given(buckets, st.one_of(st.sampled_from([1, 0.5, 1 / 3, 2, 2.5]), st.floats(0.01, 100)))
@example(Case("TokenBucket", TokenBucket(1, 1e-9)), 15.999999999999986)
def test_scaled_buckets_keep_their_rate_within_the_factor(case: Case, factor: float) -> None:
    bucket = case.algorithm
    scaled = bucket.scaled(factor)
    assert_times(bucket.quota, factor, scaled.quota)
    if isinstance(bucket, TokenBucket):
        now, then = (b.quantum / b.fill_interval_ns for b in (bucket, scaled))
        assert then <= now * factor * (1 + 1e-12)
    else:
        assert_times(bucket.rate_milli, factor, scaled.rate_milli)


@given(cases(names=("TokenBucket, greedy",)))
def test_greedy_refill_decides_as_gcra_does(case: Case) -> None:
    """Two descriptions of one thing: ours by balance, GCRA by the moment at which the bucket is full."""
    bucket = case.algorithm
    gcra = GCRA(bucket.quantum, bucket.fill_interval, bucket.capacity)
    now_ns, state, other = laws.START_NS, bucket.start(laws.START_NS), gcra.start(laws.START_NS)
    for call in case.trace:
        now_ns += call.after_ns
        cost = min(call.cost, bucket.capacity)
        decision, state = bucket.take(state, now_ns, cost, call.max_wait_ns)
        expected, other = gcra.take(other, now_ns, cost, call.max_wait_ns)
        assert decision == expected
