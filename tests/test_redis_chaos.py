"""Whole middlewares while their Redis is killed, stopped, emptied, full, locked or out of reach.

The rule admits 20 an hour; the file says that two processes share it, so that each counts 10 by itself while
Redis does not answer. Nobody gets a 500 or more than that, nobody waits long, and it goes on by itself.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from redis import Redis

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware._types import Environ, Message, Receive, Scope, Send, StartResponse
from ratelimit_middleware.clock import ManualClock
from tests.redis_cluster import free_ports
from tests.redis_server import RedisServer, require_server

LIMIT, SHARE = 20, 10
PASSWORD = "set while it ran"  # noqa: S105 - the test's own
HANGS_S = 3  # far more than the 100 ms that the rules allow, for a machine that is busy


async def asgi_page(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def wsgi_page(_environ: Environ, start_response: StartResponse) -> list[bytes]:
    start_response("200 OK", [])
    return [b"ok"]


@dataclass
class Host:
    """One process with the middleware: what its requests get."""

    ask_all: Callable[[int], list[int]]
    registry: Any
    clock: ManualClock
    close: Callable[[], None]
    statuses: list[int] = field(default_factory=list)

    def ask(self, number: int) -> list[int]:
        """The statuses of as many requests at the same time."""
        began = time.monotonic()
        statuses = self.ask_all(number)
        assert time.monotonic() - began < HANGS_S
        self.statuses += statuses
        return statuses

    def wait_for(self, *, answering: bool) -> None:
        """Ask until the guard has noticed."""
        for _ in range(50):
            self.clock.advance(2)  # the next probe is due
            self.ask(5)
            if (self.registry.store.health().open_since_ns is None) is answering:
                return
        raise AssertionError("the guard has not noticed")


def asgi_host(rules: dict[str, Any], clock: ManualClock) -> Host:
    app = asgi.RateLimitMiddleware(asgi_page, rules, clock=clock)
    loop = asyncio.new_event_loop()

    async def one() -> int:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request"}

        scope: Scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": ("1.2.3.4", 1)}
        await app({**scope, "raw_path": b"/", "query_string": b"", "scheme": "http"}, receive, send)
        return int(sent[0]["status"])

    async def some(number: int) -> list[int]:
        return await asyncio.gather(*(one() for _ in range(number)))

    def close() -> None:
        loop.run_until_complete(app._registry.close_async())
        assert not asyncio.all_tasks(loop)
        loop.close()

    return Host(lambda number: loop.run_until_complete(some(number)), app._registry, clock, close)


def wsgi_host(rules: dict[str, Any], clock: ManualClock) -> Host:
    app = wsgi.RateLimitMiddleware(wsgi_page, rules, clock=clock)
    threads = ThreadPoolExecutor(8)

    def one(_: int) -> int:
        environ: Environ = {"REMOTE_ADDR": "1.2.3.4"}
        setup_testing_defaults(environ)
        said: list[str] = []

        def start_response(status: str, *_: Any) -> Callable[[bytes], object]:
            said.append(status)
            return lambda _: None

        list(app(environ, start_response))
        return int(said[0].split()[0])

    def close() -> None:
        threads.shutdown()
        app._registry.close()

    return Host(lambda number: list(threads.map(one, range(number))), app._registry, clock, close)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    require_server()
    server = RedisServer(tmp_path)
    yield server
    server.kill()


@pytest.fixture(params=[asgi_host, wsgi_host], ids=["asgi", "wsgi"])
def start_host(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Host]]:
    """A host whose rules name this Redis."""
    with ExitStack() as hosts:

        def start(url: str) -> Host:
            store = {"url": url, "timeout": "100ms", "expected_workers": LIMIT // SHARE}
            host: Host = request.param({"store": store, "default": f"{LIMIT}/hour"}, ManualClock())
            hosts.callback(host.close)
            return host

        yield start


def command(server: RedisServer, *words: str, password: str | None = None) -> Any:
    with Redis.from_url(server.url, password=password) as client:
        return client.execute_command(*words)


def lock(server: RedisServer) -> None:
    command(server, "CONFIG", "SET", "requirepass", PASSWORD)
    command(server, "CLIENT", "KILL", "TYPE", "normal", password=PASSWORD)


def unlock(server: RedisServer) -> None:
    command(server, "CONFIG", "SET", "requirepass", "", password=PASSWORD)


_Do = Callable[[RedisServer], object]
OUTAGES: dict[str, tuple[_Do, _Do, int]] = {
    "kill -9 and restart": (RedisServer.kill, RedisServer.start, LIMIT),
    "SIGSTOP": (
        lambda server: server.send_signal(signal.SIGSTOP),
        lambda server: server.send_signal(signal.SIGCONT),
        0,
    ),
    "maxmemory": (
        lambda server: command(server, "CONFIG", "SET", "maxmemory", "1"),
        lambda server: command(server, "CONFIG", "SET", "maxmemory", "0"),
        0,
    ),
    "password": (lock, unlock, 0),
}


@pytest.mark.parametrize("name", OUTAGES)
def test_while_redis_does_not_answer_the_policy_holds_and_afterwards_the_limit(
    server: RedisServer, start_host: Callable[[str], Host], name: str
) -> None:
    break_it, heal_it, lost = OUTAGES[name]
    host = start_host(server.url)
    assert host.ask(5) == [200] * 5
    break_it(server)
    try:
        host.wait_for(answering=False)
        assert host.ask(SHARE + 5).count(429) >= 5
    finally:
        heal_it(server)
    host.wait_for(answering=True)
    assert host.ask(LIMIT + 1).count(429) >= 1
    assert set(host.statuses) == {200, 429}
    assert host.statuses.count(200) <= LIMIT + SHARE + lost


@pytest.mark.parametrize(("flush", "lost"), [("SCRIPT FLUSH", 0), ("FLUSHALL", LIMIT)])
def test_a_redis_that_is_emptied_under_load_costs_no_request(
    server: RedisServer, start_host: Callable[[str], Host], flush: str, lost: int
) -> None:
    host = start_host(server.url)
    host.ask(15)
    command(server, *flush.split())
    host.ask(2 * LIMIT)
    assert set(host.statuses) == {200, 429}
    assert host.statuses.count(200) == LIMIT + (15 if lost else 0)
    assert host.registry.store.health().errors == 0


def test_an_address_that_swallows_everything_is_given_up_in_time(
    start_host: Callable[[str], Host], tmp_path: Path
) -> None:
    """Nothing answers there, not even with a refusal; later there is a Redis."""
    require_server()
    [port] = free_ports(1)
    with ExitStack() as sockets:
        hole = sockets.enter_context(socket.socket())
        hole.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        hole.bind(("127.0.0.1", port))
        hole.listen(0)
        for _ in range(4):  # from then on the kernel drops what wants to connect
            caller = sockets.enter_context(socket.socket())
            caller.settimeout(0)
            caller.connect_ex(("127.0.0.1", port))
        host = start_host(f"redis://127.0.0.1:{port}")
        host.wait_for(answering=False)
        host.ask(SHARE + 5)
        assert set(host.statuses) == {200, 429}
        assert host.statuses.count(200) == SHARE
    server = RedisServer(tmp_path, "--port", str(port))
    try:
        host.wait_for(answering=True)
        host.ask(LIMIT + 1)
        assert set(host.statuses) == {200, 429}
        assert host.statuses.count(200) == SHARE + LIMIT
    finally:
        server.kill()
