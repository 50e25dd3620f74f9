"""SharedStore: the promises of the memory store, in a file."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import AdoptMode, Algorithm
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import InvalidLimitError, StoreError
from ratelimit_middleware.stores.base import AsyncStore, Check, Store
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.stores.open import open_store
from ratelimit_middleware.stores.shared import SharedStore

SECOND = 1_000_000_000
MIB = 1 << 20


def check(
    key: str, algorithm: Algorithm, *, cost: int = 1, max_wait_ns: int | None = 0, shadow: bool = False
) -> Check:
    return Check(key, algorithm, f"{key.partition('|')[0]}|*", cost, max_wait_ns, shadow)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> SharedStore:
    return SharedStore(tmp_path / "limits", clock=clock, size=MIB)


@pytest.fixture
def restless_threads() -> Iterator[None]:
    """Threads switch as often as the interpreter can, so that a missing lock shows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


ALGORITHMS: list[Algorithm] = [
    SlidingWindow(3, 10),
    SlidingWindow(6, 10),
    GCRA(2, 10, 3),
    GCRA(10**9, 1, 2),
    LeakyBucket(0.5, 2, 1),
    TokenBucket(4, 5, 2),
    WarmUp(5, 10),
    WarmUpWindow(6, 1, 10),
]
CHECKS = st.builds(
    lambda key, index, cost, wait, shadow: Check(
        f"|{key}", ALGORITHMS[index], f"{index}|*", cost, wait, shadow
    ),
    st.integers(0, 3),
    st.integers(0, len(ALGORITHMS) - 1),
    st.integers(1, 3),
    st.sampled_from([0, 0, 5 * SECOND, None]),
    st.booleans(),
)
STEPS = st.lists(
    st.tuples(st.integers(0, 12 * SECOND), st.lists(CHECKS, min_size=1, max_size=3)), max_size=25
)


Twins: TypeAlias = "tuple[ManualClock, MemoryStore, SharedStore, Iterator[int]]"


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[Twins]:
    """Stores that never sweep: a dropped bucket may be stricter than one that was kept."""
    clock = ManualClock(1000)
    shared = SharedStore(tmp_path / "limits", clock=clock, size=8 * MIB)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ratelimit_middleware.stores.memory._SWEEP_KEYS", 0)
        patch.setattr("ratelimit_middleware.stores._shared_buckets._SWEEP_EVERY", 10**9)
        patch.setattr("ratelimit_middleware.stores._shared_buckets._SWEEP_KEYS_FOR_A_NEW_ONE", 0)
        yield clock, MemoryStore(clock=clock), shared, itertools.count()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(STEPS, st.sampled_from(["take", "take", "charge", "give_back", "peek", "reset"]))
def test_every_answer_is_that_of_the_memory_store(
    twins: Twins,
    steps: list[tuple[int, list[Check]]],
    between: str,
) -> None:
    """Keys meet any of the algorithms, so buckets are adopted all the time."""
    clock, memory, shared, examples = twins
    prefix = str(next(examples))
    for after_ns, asked in steps:
        clock.set_ns(clock.now_ns() + after_ns)
        checks = [each._replace(key=prefix + each.key, overflow=prefix + each.overflow) for each in asked]
        decisions = memory.take(checks)
        assert shared.take(checks) == decisions
        if between == "reset":
            assert shared.reset(checks[0].key) == memory.reset(checks[0].key)
        elif between == "give_back":
            shared.give_back(checks[0], decisions[0].at_ns)
            memory.give_back(checks[0], decisions[0].at_ns)
        elif between == "charge":
            shared.charge(checks[0])
            memory.charge(checks[0])
        assert shared.peek(checks[0]) == memory.peek(checks[0])


def test_it_serves_threads_and_event_loops(store: SharedStore) -> None:
    assert isinstance(store, Store)
    assert isinstance(store, AsyncStore)


@pytest.mark.anyio
async def test_on_an_event_loop_it_answers_the_same(store: SharedStore) -> None:
    one = check("a|1", SlidingWindow(2, 60))
    [first] = await store.take_async([one])
    await store.charge_async(one)
    assert await store.peek_async(one) == store.peek(one)
    await store.give_back_async(one, first.at_ns)
    assert store.peek(one).remaining == 0
    assert (await store.peek_async(one)).allowed
    assert await store.reset_async("a|1")
    for _ in range(1000):  # it looks after its file now and then
        await store.take_async([one])
    await store.close_async()


@pytest.mark.usefixtures("restless_threads")
def test_100_threads_against_a_limit_of_50_get_exactly_50(store: SharedStore) -> None:
    algorithm, admitted, gate = SlidingWindow(50, 60), list[bool](), threading.Barrier(100)

    def caller() -> None:
        gate.wait()
        admitted.append(store.take([check("a|1", algorithm)])[0].allowed)

    threads = [threading.Thread(target=caller) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(admitted), sum(admitted)) == (100, 50)


def test_stores_of_one_directory_share_their_buckets(tmp_path: Path, clock: ManualClock) -> None:
    one, other = (SharedStore(tmp_path / "limits", clock=clock, size=MIB) for _ in range(2))
    apart = SharedStore(tmp_path / "others", clock=clock, size=MIB)
    ask = check("a|1", SlidingWindow(1, 60))
    assert one.take([ask])[0].allowed
    one.close()
    assert not other.take([ask])[0].allowed
    assert not one.take([ask])[0].allowed
    assert apart.take([ask])[0].allowed


@pytest.mark.parametrize(("mode", "remaining"), [("keep", 9), ("scale", 14), ("reset", 19)])
def test_another_store_with_other_numbers_adopts_the_bucket(
    tmp_path: Path, clock: ManualClock, mode: AdoptMode, remaining: int
) -> None:
    old, new = (SharedStore(tmp_path / "limits", clock=clock, size=MIB, keep_state=mode) for _ in range(2))
    for _ in range(10):
        old.take([check("a|1", SlidingWindow(40, 60))])
    assert new.peek(check("a|1", SlidingWindow(20, 60))).remaining == remaining


def test_expired_keys_go_as_calls_come(store: SharedStore, clock: ManualClock) -> None:
    for client in range(1000):
        store.take([check(f"a|{client}", SlidingWindow(10, 60))])
    assert store.stats().keys == 1000
    clock.advance(60)
    for client in range(300):
        store.take([check(f"b|{client}", SlidingWindow(10, 60))])
    assert store.stats().keys == 300
    clock.advance(60)
    for _ in range(3000):
        store.take([check("c|1", SlidingWindow(10, 60))])
    assert store.stats().keys == 1


def test_random_clients_cannot_grow_the_store(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = SharedStore(tmp_path / "limits", max_keys=100, clock=clock, size=MIB)
    with caplog.at_level(logging.WARNING):
        admitted = sum(
            store.take([check(f"a|{client}", SlidingWindow(5, 60))])[0].allowed for client in range(2000)
        )
    assert store.stats() == (101, 100, 1900)
    assert admitted == 100 + 5
    assert len(caplog.records) == 1
    assert "shared store is full with 101 keys in use" in caplog.text


def test_a_full_store_never_frees_a_blocked_client(tmp_path: Path, clock: ManualClock) -> None:
    store = SharedStore(tmp_path / "limits", max_keys=10, clock=clock, size=MIB)
    blocked = check("a|blocked", SlidingWindow(1, 60))
    store.take([blocked])
    for client in range(300):
        store.take([check(f"a|{client}", SlidingWindow(1, 60))])
        assert not store.take([blocked])[0].allowed


def test_a_full_store_makes_room_as_soon_as_keys_expire(tmp_path: Path, clock: ManualClock) -> None:
    store = SharedStore(tmp_path / "limits", max_keys=10, clock=clock, size=MIB)
    for client in range(20):
        store.take([check(f"a|{client}", SlidingWindow(1, 60))])
    clock.advance(60)
    assert all(store.take([check(f"b|{client}", SlidingWindow(1, 60))])[0].allowed for client in range(9))


def test_a_full_file_is_a_full_store(store: SharedStore) -> None:
    """More clients than a file of 1 MiB can hold: they share a bucket, and nothing is raised."""
    long = "x" * 300
    for client in range(4000):
        store.take([check(f"a|{long}{client}", GCRA(1, 60, 5))])
    stats = store.stats()
    assert 500 < stats.keys < 4000
    assert stats.overflowed > 0
    assert not store.take([check(f"a|{long}-new", GCRA(1, 60, 5))])[0].allowed


def test_keys_that_outgrow_the_file_fail_closed(store: SharedStore, clock: ManualClock) -> None:
    """Windows with many hits are larger than new ones: the reserve may be used up by them."""
    clients = [check(f"a|{client}", SlidingWindow(1000, 3600)) for client in range(3000)]

    def take_often() -> None:
        for client in clients * 60:
            clock.advance(0.001)
            store.take([client])

    with pytest.raises(StoreError, match="too small"):
        take_often()
    assert store.peek(clients[0]).remaining < 1000
    clock.advance(3600)
    for client in clients:
        assert store.take([client])[0].allowed
    assert store.stats().keys <= len(clients)


def test_keys_of_any_length_and_text_are_kept_apart(store: SharedStore) -> None:
    keys = ["", "\0", "=", "x" * 510, "x" * 511, "x" * 512, "x" * 5000, "x" * 4999 + "y", "\udcff", "é"]
    for key in keys:
        assert store.take([check(key, SlidingWindow(1, 60))])[0].allowed
    assert not any(store.take([check(key, SlidingWindow(1, 60))])[0].allowed for key in keys)
    assert store.stats().keys == len(keys)


def test_a_refused_request_leaves_no_bucket_behind(store: SharedStore) -> None:
    store.take([check("a|1", SlidingWindow(10, 60)), check("b|1", SlidingWindow(2, 60), cost=3)])
    store.take([check("b|1", SlidingWindow(2, 60), cost=3)])
    store.peek(check("b|1", SlidingWindow(2, 60)))
    store.give_back(check("b|1", SlidingWindow(2, 60)), 0)
    assert store.stats().keys == 0


def test_a_step_of_the_clock_neither_locks_out_nor_mints(store: SharedStore, clock: ManualClock) -> None:
    one = check("a|1", SlidingWindow(1, 60))
    store.take([one])
    clock.set_ns(500 * SECOND)
    assert store.take([one])[0].retry_after_ns == 60 * SECOND
    clock.advance(60)
    assert store.take([one])[0].allowed


def test_reset_and_close_twice_are_fine(store: SharedStore) -> None:
    one = check("a|1", SlidingWindow(1, 60))
    store.take([one])
    assert (store.reset("a|1"), store.reset("a|1")) == (True, False)
    store.close()
    store.close()
    assert store.take([one])[0].allowed


@pytest.mark.parametrize(("argument", "value"), [("max_keys", 0), ("size", -1), ("size", MIB - 1)])
def test_a_size_that_makes_no_sense_is_refused(tmp_path: Path, argument: str, value: int) -> None:
    with pytest.raises(InvalidLimitError, match=f"{argument}="):
        SharedStore(tmp_path / "limits", **{argument: value})  # type: ignore[arg-type]  # both are ints


def test_a_url_names_the_directory(tmp_path: Path) -> None:
    store = open_store(f"shared://{tmp_path}/my%20limits")
    assert isinstance(store, SharedStore)
    assert (tmp_path / "my limits").is_dir()
    store.close()


def test_a_url_without_a_path_names_a_directory_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratelimit_middleware.stores.shared.default_directory", lambda: tmp_path / "mine")
    open_store("shared://").close()
    assert (tmp_path / "mine").is_dir()


@pytest.mark.parametrize("url", ["shared://run/limits", "reddis://", "lmdb:///x"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(StoreError, match="expected"):
        open_store(url)


def test_without_lmdb_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(StoreError, match=r"pip install .ratelimit-middleware\[shared\]"):
        open_store(f"shared://{tmp_path}/limits")


def test_elsewhere_than_on_linux_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(StoreError, match="needs Linux"):
        open_store(f"shared://{tmp_path}/limits")


def test_a_client_counted_in_the_overflow_bucket_gets_no_second_quota_when_room_appears(
    tmp_path: Path, clock: ManualClock
) -> None:
    store = SharedStore(tmp_path / "limits", max_keys=1, clock=clock)
    limit = SlidingWindow(5, 60)
    store.take([check("a|first", limit)])
    clock.advance(59)
    assert sum(store.take([check("a|late", limit)])[0].allowed for _ in range(9)) == 5
    clock.advance(2)
    assert not store.take([check("a|late", limit)])[0].allowed
    assert not store.take([check("a|late", limit), check("b|late", limit)])[0].allowed
    clock.advance(58)
    assert sum(store.take([check("a|late", limit)])[0].allowed for _ in range(9)) == 5


def test_slots_held_in_the_overflow_bucket_still_count_when_room_appears(
    tmp_path: Path, clock: ManualClock
) -> None:
    store = SharedStore(tmp_path / "limits", max_keys=1, clock=clock)
    store.take([check("b|first", SlidingWindow(5, 60))])
    clock.advance(59)
    slots = [store.take([check("a|late", Concurrency(2))])[0] for _ in range(2)]
    assert all(slot.allowed for slot in slots)
    clock.advance(2)
    assert not store.take([check("a|late", Concurrency(2))])[0].allowed
