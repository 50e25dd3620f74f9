"""Sentinel: the primary of now is asked, also after a failover under load; replicas never."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.store_settings import StoreSettings
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.guard import GuardedDualStore
from ratelimit_middleware.stores.redis import RedisStore
from tests.redis_cluster import free_ports, wait_until
from tests.redis_sentinel import Sentinels, sentinel_with_tls
from tests.redis_server import require_server

MANY = [Check("a|1", SlidingWindow(1_000_000, 3600), "*")]


@pytest.fixture
def sentinels(tmp_path: Path) -> Iterator[Sentinels]:
    require_server()
    sentinels = Sentinels(tmp_path)
    yield sentinels
    sentinels.stop()


async def take_and_close(store: RedisStore) -> int:
    try:
        return (await store.take_async(MANY))[0].remaining
    finally:
        await store.close_async()


def answers(take: Callable[[], object]) -> Callable[[], bool]:
    """Whether there is an answer now."""

    def once() -> bool:
        try:
            take()
        except StoreError:
            return False
        return True

    return once


def test_the_primary_is_asked_and_the_replica_never(sentinels: Sentinels) -> None:
    store = RedisStore(sentinels.url)
    assert store.take(MANY)[0].remaining == 999_999
    assert asyncio.run(take_and_close(store)) == 999_998
    assert list(store.scan("a|")) == ["a|1"]
    assert store.stats().keys == 1
    assert b"cmdstat_eval" in sentinels.ask(sentinels.first, "INFO", "commandstats")
    assert b"cmdstat_eval" not in sentinels.ask(sentinels.second, "INFO", "commandstats")
    assert store.reset("a|1")
    store.close()


def test_a_failover_under_load_goes_on_with_the_new_primary(sentinels: Sentinels) -> None:
    """Both servers live on, and the old one takes writes for a while; within a second nobody asks it."""
    store, stop, seen = RedisStore(sentinels.url, known_refusals=0), threading.Event(), list[bool]()

    def ask() -> None:
        while not stop.is_set():
            seen.append(answers(lambda: store.take(MANY))())

    asker = threading.Thread(target=ask)
    asker.start()
    sentinels.fail_over()
    wait_until(lambda: b"cmdstat_eval" in sentinels.ask(sentinels.second, "INFO", "commandstats"))
    so_far = len(seen)
    wait_until(lambda: len(seen) > so_far + 20)
    stop.set()
    asker.join()
    assert all(seen[-10:])
    left = store.take(MANY)[0].remaining
    assert store.take(MANY)[0].remaining == left - 1
    store.close()


def test_behind_a_guard_no_request_notices_more_than_the_policy(sentinels: Sentinels) -> None:
    """SIGKILL of the primary under load on an event loop: `fallback` counts here until there is a new one."""
    settings = StoreSettings(sentinels.url, 200_000_000, expected_workers=2)
    store = RedisStore(sentinels.url, timeout=0.2)
    guard = GuardedDualStore(store, settings)
    ask = [Check("b|1", SlidingWindow(1_000_000, 3600), "*")]
    stop = threading.Event()

    def fail_over() -> None:
        sentinels.kill(sentinels.first)
        wait_until(lambda: sentinels.primary == sentinels.second)
        wait_until(lambda: guard.health().open_since_ns is None and guard.health().errors > 0)
        stop.set()

    async def load() -> list[int]:
        chaos = threading.Thread(target=fail_over)
        await guard.take_async(ask)
        chaos.start()
        limits = []
        while not stop.is_set():
            [decision] = await guard.take_async(ask)
            assert decision.allowed
            limits.append(decision.limit)
            await asyncio.sleep(0.005)
        limits.append((await guard.take_async(ask))[0].limit)
        chaos.join()
        before = asyncio.all_tasks()
        await guard.close_async()
        assert asyncio.all_tasks() <= before == {asyncio.current_task()}
        return limits

    limits = asyncio.run(load())
    assert set(limits) == {1_000_000, 500_000}
    assert limits[-1] == 1_000_000
    sentinels.start(sentinels.first)  # it takes itself for the primary; the sentinel does not
    assert store.take(MANY)
    assert b"cmdstat_eval" not in sentinels.ask(sentinels.first, "INFO", "commandstats")
    store.close()


def test_a_service_that_nobody_knows_and_sentinels_that_are_not_there_are_errors(
    sentinels: Sentinels,
) -> None:
    wrong = RedisStore(sentinels.url.replace("/limits/", "/linits/"))
    with pytest.raises(
        StoreError, match=f"the sentinel 127.0.0.1:{sentinels.port} knows no service 'linits'"
    ):
        wrong.take(MANY)
    stranger = RedisStore(sentinels.url.replace("sentinel_password=watch", "sentinel_password=wrong"))
    with pytest.raises(StoreError, match="AuthenticationError") as caught:
        stranger.take(MANY)
    assert "wrong" not in str(caught.value).replace("wrong number", "")
    [port] = free_ports(1)
    nobody = RedisStore(f"redis+sentinel://127.0.0.1:{port}/limits")
    with pytest.raises(StoreError, match=f"the sentinel 127.0.0.1:{port} cannot answer"):
        asyncio.run(take_and_close(nobody))
    for store in (wrong, stranger, nobody):
        store.close()


def test_sentinel_and_primary_are_reached_by_tls(tmp_path: Path) -> None:
    require_server()
    with sentinel_with_tls(tmp_path) as url:
        store = RedisStore(f"{url}?ssl_ca_certs={tmp_path}/cert.pem")
        assert store.take(MANY)[0].remaining == 999_999
        assert asyncio.run(take_and_close(store)) == 999_998
        stranger = RedisStore(url)
        with pytest.raises(StoreError, match=r"cannot answer: .*CERTIFICATE_VERIFY_FAILED"):
            stranger.take(MANY)
        for each in (store, stranger):
            each.close()
