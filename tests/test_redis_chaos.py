"""Whole middlewares while their Redis is killed, stopped, emptied, full, locked or out of reach.

The rule admits 20 an hour; the file says that two processes share it, so that each counts 10 by itself while
Redis does not answer. Nobody gets a 500 or more than that, nobody waits long, and it goes on by itself.
"""

from __future__ import annotations

import _thread
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from redis import Redis

from ratelimit_middleware.clock import ManualClock
from tests.redis_cluster import free_ports, wait_until
from tests.redis_hosts import Host, Machine, asgi_host, nothing_left, wsgi_host
from tests.redis_server import RedisServer, require_server

LIMIT, SHARE = 20, 10
PASSWORD = "set while it ran"  # noqa: S105 - the test's own
TIMEOUT_MS, MORE_MS = 200, 100
PATIENT = "5s"  # where nothing is to go unanswered, also on a busy machine

StartHost: TypeAlias = Callable[..., Host]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    require_server()
    server, threads = RedisServer(tmp_path), _thread._count()
    yield server
    wait_until(lambda: nothing_left(server.url, threads))  # the host is closed by now
    server.kill()


@pytest.fixture(params=[asgi_host, wsgi_host], ids=["asgi", "wsgi"])
def start_host(request: pytest.FixtureRequest) -> Iterator[StartHost]:
    """A host whose rules name this Redis; none of its requests may have been held up."""
    hosts: list[Host] = []
    with Machine() as machine:

        def start(url: str, timeout: str = f"{TIMEOUT_MS}ms") -> Host:
            store = {"url": url, "timeout": timeout, "expected_workers": LIMIT // SHARE}
            rules = {"store": store, "default": f"{LIMIT}/hour"}
            hosts.append(request.param(rules, ManualClock(), machine))
            return hosts[-1]

        yield start
    for host in hosts:
        host.close()
        assert 1000 * max(host.waits) < TIMEOUT_MS + MORE_MS


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
    server: RedisServer, start_host: StartHost, name: str
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
    assert host.registry.store.health().timeouts or name != "SIGSTOP"
    assert host.ask(LIMIT + 1).count(429) >= 1
    assert set(host.statuses) == {200, 429}
    assert host.statuses.count(200) <= LIMIT + SHARE + lost


@pytest.mark.parametrize(("flush", "lost"), [("SCRIPT FLUSH", 0), ("FLUSHALL", LIMIT)])
def test_a_redis_that_is_emptied_under_load_costs_no_request(
    server: RedisServer, start_host: StartHost, flush: str, lost: int
) -> None:
    host = start_host(server.url, PATIENT)
    host.ask(15)
    command(server, *flush.split())
    host.ask(2 * LIMIT)
    assert set(host.statuses) == {200, 429}
    assert host.statuses.count(200) == LIMIT + (15 if lost else 0)
    assert host.registry.store.health().errors == 0


def test_an_address_that_swallows_everything_is_given_up_in_time(
    start_host: StartHost, tmp_path: Path
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
