"""A server that is ill, gone, strange or strict: errors are StoreErrors, and nothing is charged twice."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from redis import Redis

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._redis_trip import LateReplyError
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.redis import RedisStore
from tests.redis_server import RedisServer, make_certificate

TEN = [Check("a|1", SlidingWindow(10, 60), "a|*")]

StartServer: TypeAlias = Callable[..., RedisServer]


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Servers of this test's own."""
    servers: list[RedisServer] = []

    def start(*options: str) -> RedisServer:
        folder = tmp_path / str(len(servers))
        folder.mkdir()
        servers.append(RedisServer(folder, *options))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_killed_server_is_an_error_until_it_is_back(start_server: StartServer) -> None:
    server = start_server()
    store = RedisStore(server.url)
    assert store.take(TEN)[0].remaining == 9
    server.kill()
    with pytest.raises(StoreError, match="cannot answer"):
        store.take(TEN)
    server.start()
    assert store.take(TEN)[0].remaining == 9
    store.close()


def test_so_it_is_on_an_event_loop(start_server: StartServer) -> None:
    server = start_server()

    async def live_through_it() -> None:
        store = RedisStore(server.url)
        await store.take_async(TEN)
        await asyncio.to_thread(server.kill)
        answers = await asyncio.gather(*(store.take_async(TEN) for _ in range(20)), return_exceptions=True)
        assert {type(answer) for answer in answers} == {StoreError}
        await asyncio.to_thread(server.start)
        assert (await store.take_async(TEN))[0].remaining == 9
        before = asyncio.all_tasks()
        await store.close_async()
        assert asyncio.all_tasks() <= before

    asyncio.run(live_through_it())


@pytest.mark.parametrize("together", [1, 30])
def test_a_server_that_stands_still_is_an_error_in_time(start_server: StartServer, together: int) -> None:
    server = start_server()

    async def ask() -> None:
        store = RedisStore(server.url, timeout=0.2)
        await store.take_async(TEN)
        server.send_signal(signal.SIGSTOP)
        loop = asyncio.get_running_loop()
        started = loop.time()
        asks = [store.take_async(TEN) for _ in range(together)]
        answers = await asyncio.gather(*asks, return_exceptions=True)
        took = loop.time() - started
        server.send_signal(signal.SIGCONT)
        assert {type(answer) for answer in answers} == {LateReplyError}
        assert took < 2
        # What was asked is booked when the server goes on: a lost reply costs its permits, once.
        assert (await store.peek_async(TEN[0])).remaining == max(0, 10 - 1 - together - 1)
        await store.close_async()

    asyncio.run(ask())


def test_a_request_that_is_cancelled_on_its_way_gets_its_permits_back(start_server: StartServer) -> None:
    """Shadow checks too; what the call of the others has brought stays theirs."""
    server = start_server()
    shadow = Check("b|1", SlidingWindow(10, 60), "b|*", 2, shadow=True)

    async def ask() -> tuple[int, int]:
        store = RedisStore(server.url)
        await store.take_async(TEN)
        server.send_signal(signal.SIGSTOP)
        tasks = [asyncio.ensure_future(store.take_async([TEN[0], shadow])) for _ in range(3)]
        for _ in range(100):
            await asyncio.sleep(0)
        tasks[0].cancel()
        server.send_signal(signal.SIGCONT)
        assert [d.allowed for answer in await asyncio.gather(*tasks[1:]) for d in answer] == [True] * 4
        await store.close_async()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        left = [await store.peek_async(check) for check in (TEN[0], shadow._replace(cost=1))]
        await store.close_async()
        return left[0].remaining, left[1].remaining

    assert asyncio.run(ask()) == (10 - 3 - 1, 10 - 4 - 1)


def test_threads_get_an_error_in_time_too(start_server: StartServer) -> None:
    server = start_server()
    store = RedisStore(server.url, timeout=0.2)
    store.take(TEN)
    server.send_signal(signal.SIGSTOP)
    with pytest.raises(LateReplyError, match="TimeoutError"):
        store.take(TEN)
    server.send_signal(signal.SIGCONT)
    assert store.take(TEN)[0].allowed
    store.close()


class Liar:
    """Takes one command after another and hangs up without an answer."""

    def __init__(self, path: Path) -> None:
        self.commands = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self.commands += b"EVALSHA" in connection.recv(65536)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def test_a_lost_reply_is_not_asked_for_again(tmp_path: Path) -> None:
    """The command may have run."""
    liar = Liar(tmp_path / "liar.sock")
    store = RedisStore(f"unix://{tmp_path}/liar.sock")
    with pytest.raises(StoreError, match="ConnectionError"):
        store.take(TEN)
    assert liar.commands == 1
    with pytest.raises(StoreError, match="ConnectionError"):
        asyncio.run(store.take_async(TEN))
    assert liar.commands == 2
    store.close()
    liar.close()


def test_a_full_server_is_an_error_and_books_nothing(start_server: StartServer) -> None:
    server = start_server("--maxmemory-policy", "noeviction")
    store = RedisStore(server.url)
    store.take(TEN)
    with Redis.from_url(server.url) as client:
        client.config_set("maxmemory", "1")
        with pytest.raises(StoreError, match="OutOfMemoryError"):
            store.take([TEN[0], Check("b|1", SlidingWindow(9, 60), "b|*")])
        client.config_set("maxmemory", "0")
        assert client.dbsize() == 1
    assert store.take(TEN)[0].remaining == 8
    store.close()


def test_a_replica_is_never_written_to(start_server: StartServer) -> None:
    server = start_server("--replicaof", "127.0.0.1 1")
    store = RedisStore(server.url)
    with pytest.raises(StoreError, match="ReadOnlyError"):
        store.take(TEN)
    with Redis.from_url(server.url) as client:
        client.replicaof("NO", "ONE")
    assert store.take(TEN)[0].remaining == 9
    store.close()


@pytest.mark.parametrize("password", ["", ":wrong@", "shop:wrong@"])
def test_a_wrong_password_is_an_error_that_does_not_tell_it(start_server: StartServer, password: str) -> None:
    server = start_server("--requirepass", "right")
    store = RedisStore(server.url.replace("unix://", f"unix://{password}"))
    with pytest.raises(StoreError, match="AuthenticationError") as caught:
        store.take(TEN)
    assert ":wrong" not in str(caught.value)
    store.close()


def test_passwords_and_users_open_the_door(start_server: StartServer) -> None:
    server = start_server("--requirepass", "right")
    with Redis.from_url(server.url, password="right") as client:  # noqa: S106 - the test's own
        client.acl_setuser("shop", enabled=True, passwords="+secret", keys=["*"], commands=["+@all"])
    for user in (":right@", "shop:secret@"):
        store = RedisStore(server.url.replace("unix://", f"unix://{user}"))
        store.take(TEN)
        asyncio.run(take_and_close(store))
    assert store.peek(TEN[0]).remaining == 5
    store.close()


async def take_and_close(store: RedisStore) -> None:
    await store.take_async(TEN)
    await store.close_async()


@pytest.mark.parametrize("scheme", ["redis", "valkey"])
def test_tcp(start_server: StartServer, scheme: str) -> None:
    port = free_port()
    start_server("--port", str(port))
    store = RedisStore(f"{scheme}://127.0.0.1:{port}/2")
    assert store.take(TEN)[0].remaining == 9
    asyncio.run(take_and_close(store))
    assert store.peek(TEN[0]).remaining == 7
    store.close()


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
def test_tls(start_server: StartServer, tmp_path: Path, scheme: str) -> None:
    port = free_port()
    certificate, options = make_certificate(tmp_path)
    start_server("--tls-port", str(port), *options)
    store = RedisStore(f"{scheme}://localhost:{port}?ssl_ca_certs={certificate}")
    assert store.take(TEN)[0].remaining == 9
    asyncio.run(take_and_close(store))
    store.close()
    stranger = RedisStore(f"{scheme}://localhost:{port}")
    with pytest.raises(StoreError, match="cannot answer"):
        stranger.take(TEN)
    stranger.close()


def test_connections_of_a_parent_are_not_used_by_a_forked_child(start_server: StartServer) -> None:
    server = start_server()
    store = RedisStore(server.url)
    store.take(TEN)
    child = os.fork()
    if not child:
        os._exit(store.take(TEN)[0].remaining)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8
    assert store.take(TEN)[0].remaining == 7
    store.close()
