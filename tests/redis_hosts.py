"""A process with the middleware before its Redis, for both worlds: what its requests get, and how late."""

from __future__ import annotations

import _thread
import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from wsgiref.util import setup_testing_defaults

from redis import Redis

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware._types import Environ, Message, Receive, Scope, Send, StartResponse
from ratelimit_middleware.clock import ManualClock

__all__ = ["Host", "Machine", "asgi_host", "nothing_left", "wsgi_host"]

_TICK_S = 0.005


def nothing_left(url: str, threads: int) -> bool:
    """Whether there are no more threads than so many, and the server has no connection but the asker's."""
    with Redis.from_url(url) as client:
        return len(client.client_list()) == 1 and _thread._count() <= threads


class Machine:
    """How long this machine has kept us waiting: a busy one must not look like a request that was held up."""

    def __init__(self) -> None:
        self._seen = 0.0, time.monotonic()  # lost until the last tick, and when that was; of one piece
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._tick)

    def __enter__(self) -> Machine:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def lost_s(self) -> float:
        """By how much all naps so far were too long, the present one included."""
        lost_s, ticked_s = self._seen
        return lost_s + max(0.0, time.monotonic() - ticked_s - _TICK_S)

    def _tick(self) -> None:
        while not self._is_over.is_set():
            time.sleep(_TICK_S)
            lost_s, ticked_s = self._seen
            now_s = time.monotonic()
            self._seen = lost_s + now_s - ticked_s - _TICK_S, now_s


@dataclass
class Host:
    """One process with the middleware."""

    ask_all: Callable[[list[tuple[str, str]]], list[int]]
    registry: Any
    clock: ManualClock
    close: Callable[[], None]
    waits: list[float]
    statuses: list[int] = field(default_factory=list)

    def ask(self, number: int, path: str = "/", client: str = "1.2.3.4") -> list[int]:
        """The statuses of as many requests at the same time."""
        statuses = self.ask_all([(path, client)] * number)
        self.statuses += statuses
        return statuses

    def wait_for(self, *, answering: bool, clients: Sequence[str] = ("1.2.3.4",)) -> None:
        """Ask until the guard has noticed; each server of a cluster has clients of its own."""
        for _ in range(200):
            self.clock.advance(2)  # the next probe is due
            for client in clients:
                self.ask(5, client=client)
            if (self.registry.store.health().open_since_ns is None) is answering:
                return
        raise AssertionError("the guard has not noticed")


async def _asgi_page(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def _wsgi_page(_environ: Environ, start_response: StartResponse) -> list[bytes]:
    start_response("200 OK", [])
    return [b"ok"]


class _Stopwatch:
    """Notes how long each request has waited, without what the machine has kept it."""

    def __init__(self, waits: list[float], machine: Machine) -> None:
        self._waits, self._machine = waits, machine

    def __enter__(self) -> None:
        self._began_s, self._lost_s = time.monotonic(), self._machine.lost_s()

    def __exit__(self, *_: object) -> None:
        lost_s = self._machine.lost_s() - self._lost_s
        self._waits.append(time.monotonic() - self._began_s - lost_s)


def asgi_host(rules: dict[str, Any], clock: ManualClock, machine: Machine) -> Host:
    """On an event loop, all requests at once."""
    app = asgi.RateLimitMiddleware(_asgi_page, rules, clock=clock)
    loop, waits = asyncio.new_event_loop(), list[float]()

    async def one(path: str, client: str) -> int:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request"}

        scope: Scope = {"type": "http", "method": "GET", "path": path, "headers": [], "client": (client, 1)}
        with _Stopwatch(waits, machine):
            more = {"raw_path": path.encode(), "query_string": b"", "scheme": "http"}
            await app({**scope, **more}, receive, send)
        return int(sent[0]["status"])

    async def some(requests: list[tuple[str, str]]) -> list[int]:
        return await asyncio.gather(*(one(*request) for request in requests))

    def close() -> None:
        loop.run_until_complete(app._registry.close_async())
        assert not asyncio.all_tasks(loop)
        loop.close()

    def ask_all(requests: list[tuple[str, str]]) -> list[int]:
        return loop.run_until_complete(some(requests))

    return Host(ask_all, app._registry, clock, close, waits)


def wsgi_host(rules: dict[str, Any], clock: ManualClock, machine: Machine) -> Host:
    """In eight threads."""
    app = wsgi.RateLimitMiddleware(_wsgi_page, rules, clock=clock)
    threads, waits = ThreadPoolExecutor(8), list[float]()

    def one(request: tuple[str, str]) -> int:
        environ: Environ = {"REMOTE_ADDR": request[1], "PATH_INFO": request[0]}
        setup_testing_defaults(environ)
        said: list[str] = []

        def start_response(status: str, *_: Any) -> Callable[[bytes], object]:
            said.append(status)
            return lambda _: None

        with _Stopwatch(waits, machine):
            list(app(environ, start_response))
        return int(said[0].split()[0])

    def close() -> None:
        threads.shutdown()
        app._registry.close()

    def ask_all(requests: list[tuple[str, str]]) -> list[int]:
        return list(threads.map(one, requests))

    return Host(ask_all, app._registry, clock, close, waits)
