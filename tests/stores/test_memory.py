"""MemoryStore: atomic, all or nothing with one start time, bounded."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import Algorithm, State
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore
from tests.properties import laws

pytestmark = pytest.mark.arithmetic

SECOND = 1_000_000_000


def check(
    key: str, algorithm: Algorithm, *, cost: int = 1, max_wait_ns: int | None = 0, shadow: bool = False
) -> Check:
    return Check(key, algorithm, f"{key.partition('|')[0]}|*", cost, max_wait_ns, shadow)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000)


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock=clock)


@pytest.fixture
def restless_threads() -> Iterator[None]:
    """Threads switch as often as the interpreter can, so that a missing lock shows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("restless_threads")
@pytest.mark.parametrize("algorithm", [SlidingWindow(50, 60), GCRA(1, 60, 50)], ids=["window", "gcra"])
def test_100_threads_against_a_limit_of_50_get_exactly_50(store: MemoryStore, algorithm: Algorithm) -> None:
    admitted: list[bool] = []
    gate = threading.Barrier(100)

    def caller() -> None:
        gate.wait()
        admitted.append(store.take([check("a|1", algorithm)])[0].allowed)

    threads = [threading.Thread(target=caller) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(admitted), sum(admitted)) == (100, 50)


def test_a_refusal_by_one_limit_consumes_nothing_from_the_others(store: MemoryStore) -> None:
    wide, narrow = check("wide|1", SlidingWindow(10, 60)), check("narrow|1", SlidingWindow(2, 60))
    answers = [store.take([wide, narrow]) for _ in range(6)]
    assert [d.allowed for _, d in answers] == [True, True, False, False, False, False]
    assert answers[-1][0].allowed
    assert answers[-1][0].remaining == 8
    assert store.peek(wide).remaining == 7


def test_a_refused_request_leaves_no_bucket_behind(store: MemoryStore) -> None:
    store.take([check("a|1", SlidingWindow(10, 60)), check("b|1", SlidingWindow(2, 60), cost=3)])
    store.take([check("b|1", SlidingWindow(2, 60), cost=3)])
    assert store.stats().keys == 0


def test_two_checks_on_one_bucket_both_count(store: MemoryStore) -> None:
    one = check("a|1", SlidingWindow(3, 60))
    assert all(d.allowed for d in store.take([one, one]))
    assert not all(d.allowed for d in store.take([one, one]))
    assert store.peek(one).remaining == 0


def test_a_delayed_request_starts_when_all_its_limits_admit(store: MemoryStore) -> None:
    pace, window = GCRA(1, 1, 1), SlidingWindow(2, 1.5)
    checks = [check("pace|1", pace, max_wait_ns=10 * SECOND), check("w|1", window, max_wait_ns=10 * SECOND)]
    starts = [store.take(checks) for _ in range(4)]
    assert all(d.allowed for answer in starts for d in answer)
    assert all(one.at_ns == other.at_ns for one, other in starts)
    assert [one.wait_ns for one, _ in starts] == [0, SECOND, 2 * SECOND, 3 * SECOND]


def test_a_rejecting_limit_must_admit_at_the_start_time_that_a_delaying_one_sets(store: MemoryStore) -> None:
    pace, window = GCRA(1, 1, 1), SlidingWindow(1, 5)
    checks = [check("pace|1", pace, max_wait_ns=10 * SECOND), check("w|1", window)]
    assert all(d.allowed for d in store.take(checks))
    delayed, refused = store.take(checks)
    assert (delayed.allowed, refused.allowed) == (True, False)
    assert store.peek(checks[0]).retry_after_ns == SECOND


def test_the_smallest_max_wait_of_the_delaying_limits_holds(store: MemoryStore) -> None:
    slow = check("slow|1", GCRA(1, 3, 1), max_wait_ns=10 * SECOND)
    hasty = check("hasty|1", GCRA(1, 1, 1), max_wait_ns=2 * SECOND)
    assert all(d.allowed for d in store.take([slow, hasty]))
    refused, _ = store.take([slow, hasty])
    assert (refused.allowed, refused.retry_after_ns) == (False, SECOND)


def test_a_shadow_limit_is_counted_apart_and_never_refuses_the_others(store: MemoryStore) -> None:
    real, watched = check("real|1", SlidingWindow(3, 60)), check("w|1", SlidingWindow(1, 60), shadow=True)
    answers = [store.take([real, watched]) for _ in range(5)]
    assert [d.allowed for d, _ in answers] == [True, True, True, False, False]
    assert [d.allowed for _, d in answers] == [True, False, False, False, False]


def test_a_shadow_limit_is_counted_though_the_request_is_refused(store: MemoryStore) -> None:
    never, watched = (
        check("n|1", SlidingWindow(1, 60), cost=2),
        check("w|1", SlidingWindow(3, 60), shadow=True),
    )
    store.take([never, watched])
    assert store.peek(watched).remaining == 1


def test_a_shadow_limit_alone_never_waits(store: MemoryStore) -> None:
    watched = check("w|1", GCRA(1, 1, 1), max_wait_ns=None, shadow=True)
    store.take([watched])
    assert not store.take([watched])[0].allowed


def test_expired_keys_go_as_new_clients_come(store: MemoryStore, clock: ManualClock) -> None:
    for client in range(1000):
        store.take([check(f"a|{client}", SlidingWindow(10, 60))])
    assert store.stats().keys == 1000
    clock.advance(60)
    for client in range(1000):
        store.take([check(f"b|{client}", SlidingWindow(10, 60))])
    assert store.stats().keys == 1000


def test_clients_that_change_all_the_time_hold_less_than_twice_the_buckets_in_use(clock: ManualClock) -> None:
    store = MemoryStore(clock=clock)
    for client in range(20_000):
        store.take([check(f"a|{client}", SlidingWindow(10, 60))])
        clock.advance(0.06)
    assert store.stats().keys < 2 * 60 / 0.06


def test_a_signal_that_raises_where_the_lock_is_taken_leaves_it_free(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = check("a|1", SlidingWindow(10, 60))
    acquire = store._acquire

    def acquire_and_raise() -> None:
        acquire()
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "_acquire", acquire_and_raise)
    with pytest.raises(KeyboardInterrupt):
        store.take([one])
    monkeypatch.undo()
    other = threading.Thread(target=store.take, args=([one],), daemon=True)
    other.start()
    other.join(10)
    assert not other.is_alive()


def test_random_clients_cannot_grow_the_store(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore(max_keys=100, clock=clock)
    with caplog.at_level(logging.WARNING):
        admitted = sum(
            store.take([check(f"a|{client}", SlidingWindow(5, 60))])[0].allowed for client in range(10_000)
        )
    assert store.stats().keys <= 101
    assert admitted == 100 + 5
    assert store.stats().overflowed == 9900
    assert len(caplog.records) == 1
    assert "all of its 100 keys are in use" in caplog.text


def test_a_full_store_never_frees_a_blocked_client(clock: ManualClock) -> None:
    store = MemoryStore(max_keys=10, clock=clock)
    blocked = check("a|blocked", SlidingWindow(1, 60))
    store.take([blocked])
    for client in range(1000):
        store.take([check(f"a|{client}", SlidingWindow(1, 60))])
        assert not store.take([blocked])[0].allowed


def test_a_full_store_makes_room_as_soon_as_keys_expire(clock: ManualClock) -> None:
    store = MemoryStore(max_keys=10, clock=clock)
    for client in range(20):
        store.take([check(f"a|{client}", SlidingWindow(1, 60))])
    clock.advance(60)
    assert all(store.take([check(f"b|{client}", SlidingWindow(1, 60))])[0].allowed for client in range(9))


def full_of_minutes(clock: ManualClock) -> MemoryStore:
    """Four buckets that expire in a minute, and so many newcomers that all have been looked at."""
    store = MemoryStore(max_keys=4, clock=clock)
    for client in range(20):
        store.take([check(f"a|{client}", SlidingWindow(2, 60))])
    return store


def has_room(store: MemoryStore) -> bool:
    """Whether one of a few newcomers gets a bucket of its own."""
    overflowed = store.stats().overflowed
    for client in range(5):
        store.take([check(f"c|{client}", SlidingWindow(1, 60), cost=2)])
    return store.stats().overflowed < overflowed + 5


def test_a_full_store_is_not_searched_until_its_first_bucket_expires(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = full_of_minutes(clock)
    looks: list[int] = []
    forget_at_ns = SlidingWindow.forget_at_ns

    def looked_at(window: SlidingWindow, state: State) -> int:
        looks.append(1)
        return forget_at_ns(window, state)

    monkeypatch.setattr(SlidingWindow, "forget_at_ns", looked_at)
    clock.advance(59)
    assert not has_room(store)
    assert not looks
    clock.advance(1)
    assert has_room(store)
    assert looks


def test_a_bucket_that_was_made_later_and_expires_sooner_makes_room(clock: ManualClock) -> None:
    store = full_of_minutes(clock)
    store.reset("a|1")
    store.take([check("b|1", SlidingWindow(1, 1))])
    assert not has_room(store)
    clock.advance(1)
    assert has_room(store)


def test_a_booking_that_is_given_back_makes_room(clock: ManualClock) -> None:
    store = full_of_minutes(clock)
    assert not has_room(store)
    store.give_back(check("a|1", SlidingWindow(2, 60)), clock.now_ns())
    assert has_room(store)


def test_numbers_that_let_a_bucket_expire_sooner_make_room(clock: ManualClock) -> None:
    store = full_of_minutes(clock)
    clock.advance(2)
    assert not has_room(store)
    store.take([check("a|1", SlidingWindow(2, 1))])
    clock.advance(1)
    assert has_room(store)


def test_clients_of_other_limits_keep_their_own_overflow_bucket(clock: ManualClock) -> None:
    store = MemoryStore(max_keys=1, clock=clock)
    store.take([check("a|0", SlidingWindow(1, 60))])
    assert store.take([check("a|1", SlidingWindow(1, 60))])[0].allowed
    assert not store.take([check("a|2", SlidingWindow(1, 60))])[0].allowed
    assert store.take([check("b|1", SlidingWindow(1, 60))])[0].allowed


def test_a_step_of_the_clock_neither_locks_out_nor_mints(store: MemoryStore, clock: ManualClock) -> None:
    one = check("a|1", SlidingWindow(1, 60))
    store.take([one])
    clock.set_ns(500 * SECOND)
    assert store.take([one])[0].retry_after_ns == 60 * SECOND
    clock.advance(60)
    assert store.take([one])[0].allowed


@pytest.mark.parametrize(("mode", "remaining"), [("keep", 9), ("scale", 14), ("reset", 19)])
def test_new_numbers_adopt_the_bucket_when_it_is_next_used(
    clock: ManualClock, mode: str, remaining: int
) -> None:
    store = MemoryStore(clock=clock, keep_state=mode)  # type: ignore[arg-type]  # parametrised text
    for _ in range(10):
        store.take([check("a|1", SlidingWindow(40, 60))])
    assert store.peek(check("a|1", SlidingWindow(20, 60))).remaining == remaining


def test_charge_and_give_back_change_one_bucket(store: MemoryStore) -> None:
    one = check("a|1", SlidingWindow(5, 60))
    decision = store.take([one])[0]
    store.charge(one._replace(cost=3))
    assert store.peek(one).remaining == 0
    store.give_back(one, decision.at_ns)
    assert store.peek(one).remaining == 1
    store.give_back(check("b|1", SlidingWindow(5, 60)), decision.at_ns)
    assert store.stats().keys == 1


def test_reset_and_close_forget(store: MemoryStore) -> None:
    one = check("a|1", SlidingWindow(1, 60))
    store.take([one])
    assert (store.reset("a|1"), store.reset("a|1")) == (True, False)
    store.take([one])
    store.close()
    store.close()
    assert store.stats().keys == 0


def test_peek_consumes_nothing(store: MemoryStore) -> None:
    one = check("a|1", SlidingWindow(1, 60))
    assert store.peek(one) == store.peek(one)
    assert store.stats().keys == 0


@pytest.mark.parametrize("max_keys", [0, -1, 1.5])
def test_a_size_that_makes_no_sense_is_refused(max_keys: int) -> None:
    with pytest.raises(InvalidLimitError, match="max_keys="):
        MemoryStore(max_keys=max_keys)


ALGORITHMS: list[Algorithm] = [
    SlidingWindow(3, 10),
    SlidingWindow(7, 25),
    GCRA(2, 10, 3),
    GCRA(1, 4, 1),
]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 12 * SECOND),
            st.lists(
                st.tuples(
                    st.integers(0, 3), st.integers(1, 3), st.sampled_from([0, 0, 5 * SECOND, 30 * SECOND])
                ),
                min_size=1,
                max_size=4,
            ),
        ),
        max_size=40,
    )
)
def test_whatever_limits_meet_in_a_request_every_bound_holds(
    requests: list[tuple[int, list[tuple[int, int, int]]]],
) -> None:
    """Any mix of rejecting and delaying limits: one start time, all or nothing, bounds kept."""
    clock = ManualClock(1000)
    store = MemoryStore(clock=clock)
    hits: dict[int, list[laws.Hit]] = {index: [] for index in range(len(ALGORITHMS))}
    for after_ns, asked in requests:
        clock.set_ns(clock.now_ns() + after_ns)
        checks = [
            check(f"{index}|x", ALGORITHMS[index], cost=cost, max_wait_ns=wait) for index, cost, wait in asked
        ]
        decisions = store.take(checks)
        if not all(decision.allowed for decision in decisions):
            continue
        assert len({decision.at_ns for decision in decisions}) == 1
        waits = [wait for _, _, wait in asked if wait]
        assert decisions[0].wait_ns <= min(waits, default=0)
        for index, cost, _ in asked:
            hits[index].append(laws.Hit(decisions[0].at_ns, cost))
    for index, algorithm in enumerate(ALGORITHMS):
        if isinstance(algorithm, SlidingWindow):
            laws.check_at_most(hits[index], algorithm.period_ns, algorithm.limit)
        elif isinstance(algorithm, GCRA):
            laws.check_burst_and_rate(
                hits[index], algorithm.burst, algorithm.limit, algorithm.period_ns, rounding_ns=1
            )


def test_a_client_counted_in_the_overflow_bucket_gets_no_second_quota_when_room_appears(
    clock: ManualClock,
) -> None:
    store = MemoryStore(max_keys=1, clock=clock)
    limit = SlidingWindow(5, 60)
    store.take([check("a|first", limit)])
    clock.advance(59)
    assert sum(store.take([check("a|late", limit)])[0].allowed for _ in range(9)) == 5
    clock.advance(2)
    assert not store.take([check("a|late", limit)])[0].allowed
    assert not store.take([check("a|late", limit), check("b|late", limit)])[0].allowed
    clock.advance(58)
    assert sum(store.take([check("a|late", limit)])[0].allowed for _ in range(9)) == 5


def test_slots_held_in_the_overflow_bucket_still_count_when_room_appears(clock: ManualClock) -> None:
    store = MemoryStore(max_keys=1, clock=clock)
    store.take([check("b|first", SlidingWindow(5, 60))])
    clock.advance(59)
    slots = [store.take([check("a|late", Concurrency(2))])[0] for _ in range(2)]
    assert all(slot.allowed for slot in slots)
    clock.advance(2)
    assert not store.take([check("a|late", Concurrency(2))])[0].allowed
