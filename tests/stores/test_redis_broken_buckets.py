"""What stands under a bucket's key is no entry, or a broken one: its client alone is unanswered, and soon."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import StoreError, UnreadableBucketError
from ratelimit_middleware.store_settings import StoreSettings
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.guard import GuardedDualStore
from ratelimit_middleware.stores.redis import RedisStore
from tests.redis_server import RedisServer
from tests.stores.test_redis_same_answers import ALGORITHMS

LIMIT = SlidingWindow(10, 60)


def check(key: str, algorithm: Algorithm = LIMIT) -> Check:
    return Check(key, algorithm, "a|*")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    yield server
    server.kill()


@pytest.fixture
def client(server: RedisServer) -> Iterator[Redis]:
    with Redis.from_url(server.url, socket_timeout=5) as client:
        yield client


def patient(server: RedisServer, **settings: Any) -> RedisStore:
    """A store that a busy machine does not make give up."""
    return RedisStore(server.url, timeout=10, **settings)


def broken(client: Redis, store: RedisStore, kind: str) -> None:
    """Make `a|broken` a bucket that cannot be counted."""
    if kind == "list":
        client.rpush("ratelimit:a|broken", "x")
        return
    store.take([check("a|broken")])
    entry = client.get("ratelimit:a|broken")
    assert isinstance(entry, bytes)
    client.set("ratelimit:a|broken", entry[:-1])


@pytest.mark.parametrize("kind", ["list", "cut off"])
def test_those_who_share_its_call_are_answered(server: RedisServer, client: Redis, kind: str) -> None:
    store = patient(server)
    broken(client, store, kind)

    async def together() -> None:
        asks = [[check(f"a|{name}")] for name in ("1", "2", "broken", "1", "3")]
        asks.append([check("a|1"), check("a|broken")])

        async def answer(ask: list[Check]) -> int | type[BaseException]:
            try:
                return (await store.take_async(ask))[0].remaining
            except StoreError as error:
                return type(error)

        answers = await asyncio.gather(*map(answer, asks))
        assert answers == [9, 9, UnreadableBucketError, 8, 9, UnreadableBucketError]
        assert (await store.take_async([check("a|1")]))[0].remaining == 7
        await store.close_async()

    asyncio.run(together())
    store.close()


@pytest.mark.parametrize(
    "limit", [LIMIT, WarmUp(5, 10), WarmUpWindow(6, 1, 10)], ids=lambda a: type(a).__name__
)
def test_a_log_that_is_cut_off_is_not_read_as_a_shorter_one(
    server: RedisServer, client: Redis, limit: Algorithm
) -> None:
    store = RedisStore(server.url)
    store.take([check("a|1", limit)])
    entry = client.get("ratelimit:a|1")
    assert isinstance(entry, bytes)
    client.set("ratelimit:a|1", entry + b"half an entry"[:7])
    with pytest.raises(UnreadableBucketError, match="a broken log"):
        store.take([check("a|1", limit)])
    store.close()


def test_its_client_does_not_open_the_breaker(server: RedisServer, client: Redis) -> None:
    guard = GuardedDualStore(
        patient(server), StoreSettings(on_error="fallback", expected_workers=5), clock=ManualClock()
    )
    client.rpush("ratelimit:a|broken", "x")
    got: list[Decision] = [guard.take([check("a|broken")])[0] for _ in range(12)]
    assert [decision.allowed for decision in got] == [True] * 2 + [False] * 10  # its share, here
    assert guard.health().open_since_ns is None
    assert guard.take([check("a|1")])[0].remaining == 9
    guard.close()


def test_a_user_that_may_read_nothing_does_open_it(server: RedisServer, client: Redis) -> None:
    guard = GuardedDualStore(patient(server), StoreSettings(on_error="allow"), clock=ManualClock())
    client.acl_setuser("default", enabled=True, commands=["-get"])
    for _ in range(5):
        assert guard.take([check("a|1")])[0].allowed
    assert guard.health().open_since_ns is not None
    guard.close()


def test_it_can_be_listed_and_reset(server: RedisServer, client: Redis) -> None:
    store = patient(server)
    client.rpush("ratelimit:a|broken", "x")
    client.set(b"ratelimit:\xff is no text", b"x")
    assert list(store.scan()) == ["a|broken"]
    with pytest.raises(UnreadableBucketError):
        store.look("a|broken")
    assert store.reset("a|broken")
    assert store.take([check("a|broken")])[0].remaining == 9
    store.close()


def test_no_broken_entry_keeps_the_server_busy(server: RedisServer, client: Redis) -> None:
    store, chance = RedisStore(server.url, timeout=5, known_refusals=0), random.Random(7)  # noqa: S311
    kinds = set()
    for place, algorithm in enumerate(ALGORITHMS):
        one = check(f"a|{place}", algorithm)
        booked = store.take([one])[0]
        store.charge(one)
        entry = client.get(f"ratelimit:a|{place}")
        if not isinstance(entry, bytes):
            continue  # it keeps nothing yet
        kinds.add(type(algorithm))
        head = int.from_bytes(entry[:2], "little")
        for _ in range(12):
            client.set(f"ratelimit:a|{place}", entry[:head] + _spoilt(entry[head:], chance))
            for act in (lambda: store.take([one]), lambda: store.give_back(one, booked.at_ns)):  # noqa: B023
                with suppress(UnreadableBucketError):
                    act()
    assert len(kinds) > 15
    store.close()


def _spoilt(state: bytes, chance: random.Random) -> bytes:
    begin, size = chance.randrange(len(state)) // 4 * 4, chance.choice([4, 8, 24])
    return state[:begin] + chance.randbytes(size) + state[begin + size :]


def test_one_with_other_numbers_counts_as_none(server: RedisServer, client: Redis) -> None:
    store = patient(server, clock=ManualClock())  # the day does not end meanwhile
    store.take([check("a|1", FixedWindow(5, "day"))])
    entry = client.get("ratelimit:a|1")
    assert isinstance(entry, bytes)
    client.set("ratelimit:a|1", entry[:-32] + struct.pack("<4d", 1e300, 2e300, 1, 0))
    assert store.take([check("a|1", FixedWindow(7, "month"))])[0].remaining == 6
    store.close()
