"""The laws of `laws.py` for the buckets: TokenBucket with both refills, and LeakyBucket."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import AdoptMode, State
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from tests.properties import laws
from tests.properties.laws import Ask, Hit

pytestmark = pytest.mark.arithmetic

Bucket: TypeAlias = TokenBucket | LeakyBucket

intervals_s = st.one_of(
    st.sampled_from([1e-9, 7e-9, 1e-6, 0.001, 1, 60, 86_400]),
    st.integers(1, 10**7).map(lambda us: us / 1e6),
)
quanta = st.one_of(st.just(1), st.integers(1, 60))
rates = st.one_of(
    st.sampled_from([0.5, 1.5, 5, 10, 1000, 10**7]), st.integers(1, 10**6).map(lambda n: n / 1000)
)
stepwise = st.builds(TokenBucket, st.integers(1, 60), intervals_s, quanta)
greedy = st.builds(TokenBucket, st.integers(1, 60), intervals_s, quanta, st.just("greedy"))
delays = st.one_of(st.just("nodelay"), st.just(0), st.integers(0, 60))
leaky = st.builds(LeakyBucket, rates, st.integers(0, 60), delays)
buckets: st.SearchStrategy[Bucket] = st.one_of(stepwise, greedy, leaky)


@st.composite
def waits(draw: st.DrawFn, bucket: Bucket) -> int | None:
    return draw(st.one_of(st.just(0), st.integers(0, 3 * bucket.window_ns), st.none()))


@st.composite
def traces(draw: st.DrawFn, bucket: Bucket, *, waiting: bool = True) -> list[Ask]:
    """Calls at distances around the bucket's own scale, most of them close together."""
    scale = max(2, bucket.window_ns)
    edges = [bucket.fill_interval_ns] if isinstance(bucket, TokenBucket) else []
    gap = st.one_of(
        st.sampled_from([0, 0, 1, *edges]),
        st.integers(0, 3),
        st.integers(0, scale // 50 + 1),
        st.integers(0, scale + 2),
    )
    cost = st.one_of(st.just(1), st.integers(1, bucket.quota + 5))
    wait = waits(bucket) if waiting else st.just(0)
    return draw(st.lists(st.builds(Ask, gap, cost, wait), max_size=60))


def check_bound(bucket: Bucket, hits: list[Hit], costs: list[int]) -> None:
    """The bound in the class's docstring; `costs` are those that may have waited (none: nobody waited)."""
    if isinstance(bucket, LeakyBucket):
        at_once = 1 + (bucket.burst if bucket.delay == "nodelay" else min(bucket.burst, bucket.delay))
        burst = max(at_once, *costs) if costs else at_once
        laws.check_burst_and_rate(hits, burst, bucket.rate_milli, 10**12, 1 if costs else 0)
        return
    capacity, quantum, interval_ns = bucket.capacity, bucket.quantum, bucket.fill_interval_ns
    if bucket.refill == "greedy":
        burst = max(capacity, *costs) if costs else capacity
        laws.check_burst_and_rate(hits, burst, quantum, interval_ns, 1 if costs else 0)
        return
    burst = max(capacity, quantum - 1 + max(costs)) if costs else capacity
    laws.check_envelope(hits, lambda t_ns: burst + quantum * -(-t_ns // interval_ns))


def reached(data: st.DataObject, bucket: Bucket, *, waiting: bool = True) -> tuple[State, int]:
    _, state, now_ns = laws.replay(bucket, data.draw(traces(bucket, waiting=waiting)))
    return state, now_ns


def line(bucket: Bucket, state: State, now_ns: int) -> tuple[int, int]:
    """Permits in use, and how many are left."""
    return bucket.used(state, now_ns), bucket.peek(state, now_ns).remaining


@given(st.data(), st.booleans())
def test_no_stretch_of_time_gets_more_than_the_bound(data: st.DataObject, waiting: bool) -> None:
    bucket = data.draw(buckets)
    trace = data.draw(traces(bucket, waiting=waiting))
    hits, _, _ = laws.replay(bucket, trace)
    check_bound(bucket, hits, [hit.cost for hit in hits] if waiting else [])


@given(st.data())
def test_bookings_for_a_later_start_time_keep_the_bound(data: st.DataObject) -> None:
    """Bookings at a moment that another limit asked for (`from_ns`), mixed with ones for now."""
    bucket = data.draw(buckets)
    now_ns, state, hits = laws.START_NS, bucket.start(laws.START_NS), list[Hit]()
    for ask in data.draw(traces(bucket)):
        now_ns += ask.after_ns
        from_ns = now_ns + data.draw(st.sampled_from([0, 0, 1, bucket.window_ns // 3, 2 * bucket.window_ns]))
        max_wait_ns = None if ask.max_wait_ns is None else ask.max_wait_ns + from_ns - now_ns
        decision, state = bucket.take(state, now_ns, ask.cost, max_wait_ns, from_ns)
        laws.check_decision(decision, now_ns, max_wait_ns)
        if decision.allowed:
            assert decision.at_ns >= from_ns
            hits.append(Hit(decision.at_ns, ask.cost))
    check_bound(bucket, hits, [hit.cost for hit in hits])


@given(st.data())
def test_a_booking_may_not_lie_further_ahead_than_the_wait(data: st.DataObject) -> None:
    bucket = data.draw(buckets)
    state, now_ns = reached(data, bucket)
    from_ns = now_ns + data.draw(st.integers(1, bucket.window_ns + 1))
    decision, after = bucket.take(state, now_ns, 1, from_ns - now_ns - 1, from_ns)
    assert not decision.allowed
    assert after == bucket.step(state, now_ns)


@given(st.data())
def test_refused_before_retry_after_and_admitted_exactly_at_it(data: st.DataObject) -> None:
    bucket = data.draw(buckets)
    state, now_ns = reached(data, bucket)
    cost = data.draw(st.integers(1, bucket.quota + 5))
    laws.check_retry_after(bucket, state, now_ns, cost, data.draw(st.integers(0, 2 * bucket.window_ns)))


@given(st.data())
def test_retry_after_is_exact_around_the_least_wait_of_a_large_cost(data: st.DataObject) -> None:
    """A cost above the capacity waits even when the bucket is full; patience just under it never helps."""
    bucket = data.draw(st.one_of(stepwise, greedy))
    state, now_ns = reached(data, bucket)
    cost = bucket.capacity + data.draw(st.integers(1, 3 * bucket.quantum))
    edges = -(-(cost - bucket.capacity) * bucket.unit // bucket.quantum) - 1
    for max_wait_ns in (edges * bucket.grain_ns, edges * bucket.grain_ns + 1):
        laws.check_retry_after(bucket, state, now_ns, cost, max_wait_ns)
    never = bucket.take(bucket.start(now_ns), now_ns, cost, edges * bucket.grain_ns)[0]
    assert (never.allowed, never.retry_after_ns) == (False, None)


@given(st.data())
def test_reset_of_an_empty_bucket_is_the_wait_for_the_next_permit(data: st.DataObject) -> None:
    bucket = data.draw(buckets)
    state, now_ns = reached(data, bucket)
    max_wait_ns = data.draw(st.integers(0, bucket.window_ns))
    decision, _ = bucket.take(state, now_ns, 1, max_wait_ns)
    if not decision.allowed and not decision.remaining:
        alone = bucket.peek(state, now_ns) if isinstance(bucket, TokenBucket) else decision
        assert decision.reset_after_ns == alone.retry_after_ns


@given(st.data())
def test_remaining_permits_are_there_and_reset_brings_them_all(data: st.DataObject) -> None:
    bucket = data.draw(buckets)
    state, now_ns = reached(data, bucket)
    decision = bucket.peek(state, now_ns, bucket.quota + 1)
    assert laws.capacity(bucket, state, now_ns) == decision.remaining
    if decision.remaining:
        full_ns = now_ns + decision.reset_after_ns
        assert bucket.used(state, full_ns) == 0
        assert decision.reset_after_ns == 0 or bucket.used(state, full_ns - 1) > 0


@given(st.data())
def test_a_refused_call_consumes_nothing(data: st.DataObject) -> None:
    bucket = data.draw(buckets)
    state, now_ns = reached(data, bucket)
    laws.check_refusal_consumes_nothing(bucket, state, now_ns, data.draw(st.integers(1, bucket.quota + 1)))


@given(st.data())
def test_an_earlier_moment_never_gets_more(data: st.DataObject) -> None:
    bucket = data.draw(buckets)
    state, now_ns = reached(data, bucket)
    state = data.draw(st.sampled_from([state, bucket.step(state, now_ns)]))
    back_ns = data.draw(st.one_of(st.integers(0, 3), st.integers(0, 3 * bucket.window_ns)))
    laws.check_time_back(bucket, state, now_ns, back_ns)


@given(st.data())
def test_going_back_and_forth_in_time_never_mints(data: st.DataObject) -> None:
    """Asked in any order of moments, a bucket holds no more at the end than one never asked."""
    bucket = data.draw(buckets)
    state, now_ns = reached(data, bucket)
    asked = state
    for _ in range(5):
        moment_ns = now_ns + data.draw(st.integers(-2 * bucket.window_ns, 0))
        _, asked = bucket.take(asked, moment_ns, bucket.quota + 1, 0)
        asked = bucket.step(asked, moment_ns)
    assert line(bucket, asked, now_ns) == line(bucket, state, now_ns)


@given(st.data())
def test_forgetting_only_makes_stricter(data: st.DataObject) -> None:
    bucket = data.draw(buckets)
    state, now_ns = reached(data, bucket)
    laws.check_forgetting(bucket, state, now_ns)


@given(st.data(), st.booleans())
def test_a_key_forgotten_whenever_it_may_be_keeps_the_bound(data: st.DataObject, waiting: bool) -> None:
    """Intervals are counted anew after that; edges of before and after are still an interval apart."""
    bucket = data.draw(buckets)
    now_ns, state, hits = laws.START_NS, bucket.start(laws.START_NS), list[Hit]()
    for ask in data.draw(traces(bucket, waiting=waiting)):
        now_ns += ask.after_ns
        if bucket.forget_at_ns(state) <= now_ns and data.draw(st.integers(0, 1)) == 1:
            state = bucket.start(now_ns)
        decision, state = bucket.take(state, now_ns, ask.cost, ask.max_wait_ns)
        if decision.allowed:
            hits.append(Hit(decision.at_ns, ask.cost))
    check_bound(bucket, hits, [hit.cost for hit in hits] if waiting else [])


@given(st.data())
def test_the_first_refill_of_a_forgotten_key_comes_no_earlier(data: st.DataObject) -> None:
    bucket = data.draw(buckets)
    state, now_ns = reached(data, bucket)
    now_ns = max(now_ns, bucket.forget_at_ns(state)) + data.draw(st.integers(0, 2 * bucket.window_ns))
    cost = data.draw(st.integers(1, bucket.smallest_full_take))
    _, remembered = bucket.take(state, now_ns, cost, None)
    _, forgotten = bucket.take(bucket.start(now_ns), now_ns, cost, None)
    laws.check_no_more(bucket, forgotten, remembered, now_ns, data.draw(st.lists(st.integers(0, 10**10))))


@given(st.data())
def test_a_charge_takes_what_it_says_up_to_its_cap(data: st.DataObject) -> None:
    bucket = data.draw(buckets)
    state, now_ns = reached(data, bucket, waiting=False)
    laws.check_charge(bucket, state, now_ns, data.draw(st.integers(1, 3 * bucket.quota)))


@given(st.data())
def test_a_charge_never_gives_even_beyond_its_cap_or_back_in_time(data: st.DataObject) -> None:
    bucket = data.draw(buckets)
    state, now_ns = reached(data, bucket)
    now_ns -= data.draw(st.sampled_from([0, bucket.window_ns]))
    cost = data.draw(st.integers(1, 3 * bucket.quota))
    charged, before = bucket.charge(state, now_ns, cost), bucket.used(state, now_ns)
    highest = max(before, 2 * bucket.quota)
    assert min(before + cost, highest) <= bucket.used(charged, now_ns) <= highest
    laws.check_no_more(bucket, charged, state, now_ns)


@given(st.data(), st.sampled_from(["keep", "scale"]))
def test_new_numbers_and_back_never_mint(data: st.DataObject, mode: AdoptMode) -> None:
    bucket = data.draw(buckets)
    other = data.draw(
        st.one_of(buckets, st.builds(GCRA, st.integers(1, 60), intervals_s, st.integers(1, 60)))
    )
    state, now_ns = reached(data, bucket, waiting=data.draw(st.booleans()))
    laws.check_adopt_there_and_back(bucket, other, state, now_ns, mode)


@given(st.data(), st.sampled_from(["keep", "scale"]))
def test_equal_numbers_adopt_the_same_permits(data: st.DataObject, mode: AdoptMode) -> None:
    bucket = data.draw(buckets)
    state, now_ns = reached(data, bucket)
    adopted = bucket.adopt(state, now_ns, bucket, mode)
    for later_ns in (0, 1, bucket.window_ns // 3, bucket.window_ns):
        assert line(bucket, adopted, now_ns + later_ns) == line(bucket, state, now_ns + later_ns)


@given(st.data())
def test_giving_back_never_lets_the_used_permits_break_the_bound(data: st.DataObject) -> None:
    """Bookings are given back at random moments, some of them made for a later start time."""
    bucket = data.draw(buckets)
    now_ns, state = laws.START_NS, bucket.start(laws.START_NS)
    hits = list[Hit]()
    for ask in data.draw(traces(bucket)):
        now_ns += ask.after_ns
        from_ns = now_ns + data.draw(st.sampled_from([0, 0, 0, bucket.window_ns // 3]))
        decision, state = bucket.take(state, now_ns, ask.cost, ask.max_wait_ns, from_ns)
        if decision.allowed:
            hits.append(Hit(decision.at_ns, ask.cost))
        if hits and data.draw(st.integers(0, 1)) == 1:
            gone = hits.pop(data.draw(st.integers(max(0, len(hits) - 3), len(hits) - 1)))
            used = bucket.used(state, now_ns)
            state = bucket.give_back(state, now_ns, gone.cost, gone.at_ns)
            assert used - gone.cost <= bucket.used(state, now_ns) <= used
    check_bound(bucket, hits, [1, *(hit.cost for hit in hits)])


@given(st.data())
def test_a_booking_given_back_at_once_leaves_the_state_as_before(data: st.DataObject) -> None:
    bucket = data.draw(buckets)
    state, now_ns = reached(data, bucket)
    cost = data.draw(st.integers(1, bucket.quota))
    decision, booked = bucket.take(state, now_ns, cost, None)
    if decision.allowed:
        after = bucket.give_back(booked, now_ns, cost, decision.at_ns)
        assert line(bucket, after, now_ns) == line(bucket, state, now_ns)


@given(st.data())
def test_waiters_that_leave_from_the_end_leave_no_trace(data: st.DataObject) -> None:
    bucket = data.draw(buckets)
    state, now_ns = reached(data, bucket, waiting=False)
    before, bookings = state, list[Hit]()
    for cost in data.draw(st.lists(st.integers(1, bucket.quota), max_size=8)):
        decision, state = bucket.take(state, now_ns, cost, None)
        if decision.wait_ns:
            bookings.append(Hit(decision.at_ns, cost))
        elif decision.allowed:
            before = state
    for booking in reversed(bookings):
        state = bucket.give_back(state, now_ns, booking.cost, booking.at_ns)
    assert line(bucket, state, now_ns) == line(bucket, before, now_ns)


@given(st.data())
def test_scaled_buckets_keep_their_rate_within_the_factor(data: st.DataObject) -> None:
    bucket = data.draw(buckets)
    factor = data.draw(st.one_of(st.sampled_from([1, 0.5, 1 / 3, 2, 2.5]), st.floats(0.01, 100)))
    scaled = bucket.scaled(factor)
    assert scaled.quota == max(1, int(bucket.quota * factor))
    if isinstance(bucket, TokenBucket) and isinstance(scaled, TokenBucket):
        now, then = (b.quantum / b.fill_interval_ns for b in (bucket, scaled))
        assert then <= now * factor * (1 + 1e-12)
    elif isinstance(bucket, LeakyBucket) and isinstance(scaled, LeakyBucket):
        assert scaled.rate_milli == max(1, int(bucket.rate_milli * factor))


@given(st.data())
def test_greedy_refill_decides_as_gcra_does(data: st.DataObject) -> None:
    """Two descriptions of one thing: ours by balance, GCRA by the moment at which the bucket is full."""
    bucket = data.draw(greedy)
    gcra = GCRA(bucket.quantum, bucket.fill_interval, bucket.capacity)
    now_ns, state, other = laws.START_NS, bucket.start(laws.START_NS), gcra.start(laws.START_NS)
    for ask in data.draw(traces(bucket)):
        now_ns += ask.after_ns
        cost = min(ask.cost, bucket.capacity)
        decision, state = bucket.take(state, now_ns, cost, ask.max_wait_ns)
        expected, other = gcra.take(other, now_ns, cost, ask.max_wait_ns)
        assert decision == expected


@given(st.data())
def test_the_state_is_plain_whole_numbers(data: st.DataObject) -> None:
    state, _ = reached(data, data.draw(buckets))
    assert all(type(number) is int for number in state)
