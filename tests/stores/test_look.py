"""Which buckets a store has, and what stands in them: in memory, shared, in Redis."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from redis import Redis

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.penalty import Penalty
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import UnreadableBucketError
from ratelimit_middleware.stores.base import BrowsableStore, Check
from ratelimit_middleware.stores.divided import DividedStore
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.stores.redis import RedisStore
from ratelimit_middleware.stores.shared import SharedStore
from tests.redis_server import RedisServer

AnyStore: TypeAlias = MemoryStore | DividedStore | SharedStore | RedisStore

SECOND = 1_000_000_000


@pytest.fixture(params=["memory", "divided", "shared", "redis"])
def store(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[AnyStore]:
    """One of each kind."""
    store: AnyStore
    if request.param == "memory":
        store = MemoryStore(clock=clock)
    elif request.param == "divided":
        store = DividedStore(1, clock=clock)
    elif request.param == "shared":
        store = SharedStore(tmp_path, clock=clock)
    else:
        url = request.getfixturevalue("redis_server").url
        store = RedisStore(url, prefix=f"{request.node.name}:", clock=clock)
    yield store
    store.close()


def take(store: AnyStore, key: str, algorithm: Algorithm, times: int = 1) -> None:
    for _ in range(times):
        store.take([Check(key, algorithm, f"{key.partition('|')[0]}|*")])


def test_every_store_can_be_browsed(store: AnyStore) -> None:
    assert isinstance(store, BrowsableStore)


def test_a_scan_lists_the_keys_that_begin_so_each_once(store: AnyStore) -> None:
    names = {f"login|{number}" for number in range(1100)} | {"log|1", "login*|1", "loginn|1"}
    for name in names:
        take(store, name, SlidingWindow(1, 60))
    assert sorted(store.scan("login|")) == sorted(name for name in names if name.startswith("login|"))
    assert list(store.scan("login*")) == ["login*|1"]
    assert list(store.scan("nobody|")) == []
    assert sorted(store.scan()) == sorted(names)


def test_keys_may_go_while_they_are_listed(store: AnyStore) -> None:
    for number in range(30):
        take(store, f"a|{number}", SlidingWindow(1, 60))
    assert sum(store.reset(key) for key in store.scan("a|")) == 30
    assert list(store.scan()) == []


def test_what_is_left_is_told_in_the_numbers_that_wrote_the_bucket(store: AnyStore) -> None:
    take(store, "a|1", SlidingWindow(3, 60), 2)
    look = store.look("a|1")
    assert look is not None
    assert look.algorithm == SlidingWindow(3, 60)
    assert (look.decision.allowed, look.decision.remaining) == (True, 1)
    take(store, "a|1", SlidingWindow(3, 60))
    full = store.look("a|1")
    assert full is not None
    assert (full.decision.allowed, full.decision.retry_after_ns) == (False, 60 * SECOND)


def test_looking_changes_nothing(store: AnyStore) -> None:
    take(store, "a|1", WarmUp(5, 10))
    looks = [store.look("a|1") for _ in range(5)]
    assert looks == looks[:1] * 5


def test_a_blocked_client_is_seen_to_be_blocked(store: AnyStore) -> None:
    penalty = Penalty(2, (60,))
    take(store, "a|1", penalty.strike, 2)
    look = store.look("a|1")
    assert look is not None
    assert (look.algorithm, look.decision.retry_after_ns) == (penalty, 60 * SECOND)


def test_slots_in_use_are_seen(store: AnyStore) -> None:
    take(store, "a|1", Concurrency(4), 3)
    look = store.look("a|1")
    assert look is not None
    assert look.decision.remaining == 1


def test_a_bucket_that_is_not_there_is_none(store: AnyStore) -> None:
    assert store.look("a|1") is None


def test_the_keys_of_a_store_may_be_any_text(store: AnyStore) -> None:
    keys = ["\0", "=", "x" * 400, "\udcff", "é|1", "a b\r\n", "*", "[a]?\\"]
    for key in keys:
        take(store, key, SlidingWindow(1, 60))
    assert sorted(store.scan()) == sorted(keys)
    assert [key for key in keys if store.look(key) is None] == []


def test_an_entry_that_nobody_can_read_is_an_error(redis_server: RedisServer, clock: ManualClock) -> None:
    store = RedisStore(redis_server.url, prefix="unreadable:", clock=clock)
    take(store, "a|1", FixedWindow(5, "day"))
    with Redis.from_url(redis_server.url) as client:
        entry = client.get("unreadable:a|1")
        assert isinstance(entry, bytes)
        wild = entry[:-32] + struct.pack("<4d", math.nan, math.inf, math.nan, math.inf)
        for broken in (b"\xff\xff something else", entry[:-1], wild):
            client.set("unreadable:a|1", broken, ex=60)
            with pytest.raises(UnreadableBucketError):
                store.look("a|1")
    assert store.reset("a|1")
    store.close()
