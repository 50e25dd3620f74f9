"""The script, the memory store and the pure functions give the same answers, on a time of the test's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.penalty import Penalty, Strike
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.algorithms.related import Related, RelatedCharge
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.stores.redis import RedisStore
from tests.redis_server import RedisServer

US = 1000
MS = 1_000_000
SECOND = 1_000_000_000

Twins: TypeAlias = "tuple[ManualClock, MemoryStore, RedisStore, Iterator[int]]"


@pytest.fixture(scope="module")
def twins(redis_server: RedisServer) -> Iterator[Twins]:
    """Stores that never sweep: a dropped bucket may be stricter than one that was kept."""
    clock = ManualClock()
    remote = RedisStore(redis_server.url, prefix="same:", clock=clock, known_refusals=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ratelimit_middleware.stores.memory._SWEEP_KEYS", 0)
        yield clock, MemoryStore(clock=clock), remote, itertools.count()
    remote.close()


PENALTY = Penalty(2, (1, 2.5, 2.5, 4, 5, 6, 7))
WINDOWS: list[Algorithm] = [SlidingWindow(3, 10), SlidingWindow(200, 10), SlidingWindow(10**9, 3600)]
# Moments come out whole in microseconds; between two of these they would not.
OTHERS: list[Algorithm] = [
    GCRA(2, 10, 3),
    GCRA(10**9, 1000, 2),
    GCRA(8, 1, 10**6),
    LeakyBucket(0.5, 2, 1),
    LeakyBucket(10**6, 1000, "nodelay"),
    TokenBucket(4, 5, 2),
    TokenBucket(1000, 0.001, 3),
    TokenBucket(4, 5, 2, "greedy"),
    TokenBucket(10**6, 1, 10**6, "greedy"),
    SmoothBursty(5),
    SmoothBursty(0.7, 3.3),
    SmoothWarmingUp(2, 4),
    SmoothWarmingUp(1000, 0.123456, 7),
    FixedWindow(5, 10),
    FixedWindow(7, "minute"),
    FixedWindow(100, "month", "Europe/Berlin"),
    SlidingCounter(8, 7.2072),  # divided by any number of permits up to 16
    Concurrency(5, 4),
    WarmUpWindow(6, 1, 10),
    WarmUpWindow(30, 2, 10, 2.5),
    WarmUpWindow(10**9, 1, 60),
    QpsWindow(3.5),
    QpsWindow(0.5),
    Pacing(10, 3),
    Pacing(10**6, 0.5),
    Pacing(0.4, 6),
    Pacing(0, 1),
    WarmUp(5, 10),
    WarmUp(100, 3, 2.5),
    WarmUp(3.7, 20, 1.1),
    WarmUp(0.4, 10),
    WarmUp(0, 10),
    WarmUpPacing(10, 5, 3, 6, whole_ms=True),
    WarmUpPacing(700, 1, 1.7, 0.5, whole_ms=True),
    WarmUpPacing(0.8, 5, 3, 20, whole_ms=True),
    WarmUpPacing(0, 5),
    Related(SlidingWindow(3, 10)),
    RelatedCharge(SlidingWindow(3, 10)),
    Related(GCRA(2, 10, 3)),
    RelatedCharge(GCRA(2, 10, 3)),
    Related(WarmUpWindow(6, 1, 10)),
    RelatedCharge(WarmUpWindow(6, 1, 10)),
    Related(WarmUp(5, 10)),
    RelatedCharge(WarmUp(5, 10)),
    RelatedCharge(FixedWindow(7, "minute")),
    RelatedCharge(SlidingWindow(200, 10)),
    PENALTY,
    PENALTY.strike,
]
ALGORITHMS = WINDOWS + OTHERS
GAPS_NS = st.one_of(
    st.just(0),
    st.integers(1, 60).map(US.__mul__),
    st.integers(0, 500_000).map(US.__mul__),
    st.integers(0, 12_000_000).map(US.__mul__),
)


@st.composite
def requests(draw: st.DrawFn) -> list[tuple[int, list[Check]]]:
    """Checks of windows and one other algorithm on a few keys."""
    others = [draw(st.sampled_from(OTHERS))]
    if isinstance(others[0], (Related, RelatedCharge)):  # the two of them meet on a bucket
        others = [Related(others[0].limit), RelatedCharge(others[0].limit)]
    elif isinstance(others[0], (Penalty, Strike)):
        others = [PENALTY, PENALTY.strike]
    # The moments of a counter with many permits would not be whole.
    windows = WINDOWS[:1] if isinstance(others[0], SlidingCounter) else WINDOWS
    algorithms = [*windows, *others]
    checks = st.builds(
        lambda key, algorithm, cost, wait, shadow: Check(f"|{key}", algorithm, "|*", cost, wait, shadow),
        st.integers(0, 3),
        st.sampled_from(algorithms),
        st.one_of(st.integers(1, 3), st.sampled_from([50, 10**6])),
        st.sampled_from([0, 0, 5 * SECOND, None]),
        st.booleans(),
    )
    return draw(st.lists(st.tuples(GAPS_NS, st.lists(checks, min_size=1, max_size=3)), max_size=12))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(requests(), st.sampled_from(["take", "take", "charge", "give_back", "settle", "renew", "reset"]))
def test_every_answer_is_that_of_the_memory_store(
    twins: Twins, steps: list[tuple[int, list[Check]]], between: str
) -> None:
    """Keys meet any of the algorithms, so buckets are adopted all the time."""
    clock, memory, remote, examples = twins
    prefix = str(next(examples))
    bookings: list[tuple[Check, int]] = []
    for after_ns, asked in steps:
        clock.set_ns(clock.now_ns() + after_ns)
        checks = [each._replace(key=prefix + each.key) for each in asked]
        decisions = memory.take(checks)
        assert remote.take(checks) == decisions
        if all(decision.allowed for decision in decisions):
            bookings.append((checks[0], decisions[0].at_ns))
        if between == "settle" and bookings:
            check, at_ns = bookings[len(bookings) // 2]
            for store in (remote, memory):
                store.give_back(check._replace(cost=(check.cost + 1) // 2), at_ns)
        if between == "reset":
            assert remote.reset(checks[0].key) == memory.reset(checks[0].key)
        elif between == "give_back":
            remote.give_back(checks[0], decisions[0].at_ns)
            memory.give_back(checks[0], decisions[0].at_ns)
        elif between == "renew" and isinstance(checks[0].algorithm, Concurrency):
            remote.renew(checks[0], decisions[0].at_ns)
            memory.renew(checks[0], decisions[0].at_ns)
        elif between == "charge":
            remote.charge(checks[0])
            memory.charge(checks[0])
        assert remote.peek(checks[0]) == memory.peek(checks[0])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.sampled_from(ALGORITHMS), st.data())
def test_a_long_trace_answers_as_the_pure_function_does(
    twins: Twins, algorithm: Algorithm, data: st.DataObject
) -> None:
    """Long enough for a window to be merged many times."""
    clock, _, remote, examples = twins
    key, state = f"long{next(examples)}", None
    costs, waits = st.integers(1, 3), st.sampled_from([0, SECOND, 20 * SECOND])
    for after_ns, cost, wait_ns in data.draw(st.lists(st.tuples(GAPS_NS, costs, waits), min_size=60)):
        clock.set_ns(clock.now_ns() + after_ns)
        state = algorithm.start(clock.now_ns()) if state is None else state
        expected, state = algorithm.take(state, clock.now_ns(), cost, wait_ns)
        [decision] = remote.take([Check(key, algorithm, "|*", cost, wait_ns)])
        assert decision == expected


AWKWARD: list[Algorithm] = [
    GCRA(3, 1, 2),
    GCRA(7, 0.001, 1),
    GCRA(999_999_937, 1, 5),
    LeakyBucket(1.666, 4, 2),
    LeakyBucket(999_999.937, 10**6),
    TokenBucket.from_rate(333.333, 5),
    TokenBucket.from_rate(3e6, 2),
    TokenBucket(3, 7e-9, 2, "greedy"),
    SlidingWindow(2, 1e-6 * 7.3),
    SlidingCounter(7, 0.0001),
    Pacing(3, 10**6),
    Pacing(7e5, 10**6),
    Pacing(3e6, 10**6),
    WarmUpPacing(3, 2, 3, 10**6),
    WarmUpPacing(12.3, 4.5, 1.1, 10**6),
    WarmUpPacing(333.333, 0.01, 2.7, 10**6),
    WarmUpPacing(3e6, 20, 3, 10**6),
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.sampled_from(AWKWARD),
    st.lists(st.tuples(st.integers(0, 700) | st.integers(0, 3 * 10**6), st.integers(1, 2)), max_size=40),
)
def test_moments_that_are_no_whole_microseconds_are_up_to_one_later_and_never_earlier(
    twins: Twins, algorithm: Algorithm, trace: list[tuple[int, int]]
) -> None:
    """All wait as long as it takes, so that both book the same requests in the same order."""
    clock, _, remote, examples = twins
    key, state = f"odd{next(examples)}", None
    for after_us, cost in trace:
        clock.set_ns(clock.now_ns() + after_us * US)
        state = algorithm.start(clock.now_ns()) if state is None else state
        expected, state = algorithm.take(state, clock.now_ns(), cost, None)
        [decision] = remote.take([Check(key, algorithm, "|*", cost, None)])
        if isinstance(algorithm, (SlidingWindow, SlidingCounter)):  # moments follow from each other
            assert decision.at_ns >= expected.at_ns
        else:
            assert 0 <= decision.at_ns - expected.at_ns < US
        assert decision.at_ns % US == 0


def test_hits_that_had_left_a_window_when_it_refused_do_not_count_in_a_longer_one(twins: Twins) -> None:
    clock, memory, remote, examples = twins
    hit = Check(f"left{next(examples)}", SlidingWindow(3, 10), "|*")
    for store in (memory, remote):
        assert store.take([hit])[0].allowed
    clock.advance(10)
    for store in (memory, remote):
        assert not store.take([hit._replace(cost=4)])[0].allowed
        assert store.take([hit._replace(algorithm=SlidingWindow(100, 3600))])[0].remaining == 99


def test_a_place_before_one_that_has_gone_comes_back_at_the_price_of_its_own_second(twins: Twins) -> None:
    clock, memory, remote, examples = twins
    single = Check(f"gone{next(examples)}", WarmUpPacing(10, 5, max_queueing_time=2), "|*", 1, None)
    five = single._replace(cost=5)
    clock.set_ns((clock.now_ns() // SECOND + 2) * SECOND - SECOND // 10)
    for store in (memory, remote):
        assert store.take([single])[0].allowed
    [gone], [same] = memory.take([five]), remote.take([five])
    assert gone == same
    clock.advance(0.2)
    for store in (memory, remote):
        [behind] = store.take([single])
        store.give_back(single, behind.at_ns)
        store.give_back(five, gone.at_ns)
        before = store.peek(single)
        [booking] = store.take([single])
        assert booking.at_ns == gone.at_ns - 5 * 100 * MS + 292 * MS
        store.give_back(single, booking.at_ns)
        assert store.peek(single) == before


def test_a_wait_below_a_microsecond_is_still_a_wait(twins: Twins) -> None:
    _, memory, remote, examples = twins
    check = Check(f"short{next(examples)}", GCRA(1, 1, 1), "|*", 1, 500)
    assert memory.take([check])[0].allowed
    assert remote.take([check])[0].allowed
    [ours], [theirs] = remote.take([check]), memory.take([check])
    assert not ours.allowed
    assert theirs.retry_after_ns == SECOND - 500
    assert ours.retry_after_ns == SECOND
