"""Threads wait for Redis until one deadline, whatever there is to wait for."""

from __future__ import annotations

import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._redis_thread_pool import ThreadPool
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.redis import RedisStore
from tests.redis_cluster import wait_until
from tests.redis_hosts import Machine
from tests.redis_server import RedisServer, require_server

MANY = [Check("a|1", SlidingWindow(1000, 60), "*")]
TIMEOUT_S, SLOW_S, MORE_S = 0.4, 0.15, 0.1


class SlowReplies:
    """A way to a server on which each reply takes a while."""

    def __init__(self, server: Path, here: Path) -> None:
        self._server = str(server)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(here))
        self._listener.listen()
        self._start(self._accept)

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            self._start(partial(self._carry, client, server, 0))
            self._start(partial(self._carry, server, client, SLOW_S))

    def _carry(self, source: socket.socket, target: socket.socket, delay_s: float) -> None:
        with target:
            while data := source.recv(65536):
                time.sleep(delay_s)
                target.sendall(data)

    def _start(self, run: Callable[[], object]) -> None:
        def until_closed() -> None:
            with suppress(OSError):
                run()

        threading.Thread(target=until_closed, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[RedisStore]:
    """A store whose connections take two slow replies before they are there."""
    require_server()
    server = RedisServer(tmp_path, "--requirepass", "secret")
    way = SlowReplies(tmp_path / "redis.sock", tmp_path / "slow.sock")
    store = RedisStore(f"unix://:secret@{tmp_path}/slow.sock?db=1", timeout=TIMEOUT_S)
    yield store
    store.close()
    way.close()
    server.kill()


def test_connecting_and_replies_together_take_no_longer_than_the_timeout(slow: RedisStore) -> None:
    with Machine() as machine:
        began_s, lost_s = time.monotonic(), machine.lost_s()
        with pytest.raises(StoreError, match="TimeoutError"):
            slow.take(MANY)
        assert time.monotonic() - began_s - (machine.lost_s() - lost_s) < TIMEOUT_S + MORE_S


def test_a_connection_that_leaves_too_little_time_is_there_for_the_next_call(slow: RedisStore) -> None:
    """Connecting and a reply take longer than the timeout, and yet the store is of use."""
    answered: list[bool] = []

    def is_answered() -> bool:
        with suppress(StoreError):
            answered.extend(decision.allowed for decision in slow.take(MANY))
        return bool(answered)

    wait_until(is_answered)
    assert answered == [True] * len(MANY)


class FakeConnection:
    """Counts what is done to it."""

    def __init__(self, may_connect: threading.Event | None = None) -> None:
        self.may_connect = may_connect or threading.Event()
        self.is_closed = False
        self.has_data: object = False

    def connect(self) -> None:
        self.may_connect.wait(10)

    def can_read(self) -> object:
        if isinstance(self.has_data, Exception):
            raise self.has_data
        return self.has_data

    def disconnect(self) -> None:
        self.is_closed = True


@pytest.fixture
def pool() -> ThreadPool:
    return ThreadPool(FakeConnection)


def made(pool: ThreadPool) -> Any:
    connection = FakeConnection()
    pool.put_back(connection)
    return connection


def test_a_pool_hands_out_what_was_put_back_and_is_in_order(pool: ThreadPool) -> None:
    good, ended, left_over = made(pool), made(pool), made(pool)
    ended.has_data, left_over.has_data = ConnectionError(), True
    assert pool.idle() is good
    assert pool.idle() is None
    assert [c.is_closed for c in (good, ended, left_over)] == [False, True, True]


def test_a_connection_that_was_given_up_is_there_for_the_next_caller() -> None:
    connection = FakeConnection()
    pool = ThreadPool(lambda: connection)
    assert pool.connect().cancel()
    assert pool.idle() is None
    connection.may_connect.set()
    wait_until(lambda: pool.idle() is connection)


def test_one_that_comes_after_the_pool_was_closed_is_kept_by_nobody() -> None:
    may_connect, made = threading.Event(), list[weakref.ref[FakeConnection]]()

    def make() -> FakeConnection:
        connection = FakeConnection(may_connect)
        made.append(weakref.ref(connection))
        return connection

    pool = ThreadPool(make)
    assert pool.connect().cancel()
    wait_until(lambda: made)
    pool.close()
    may_connect.set()
    wait_until(lambda: made[0]() is None)
    assert pool.idle() is None


def test_why_there_is_no_connection_is_told() -> None:
    def refuse() -> object:
        raise ConnectionRefusedError

    future = ThreadPool(refuse).connect()
    wait([future])
    assert isinstance(future.exception(), ConnectionRefusedError)
