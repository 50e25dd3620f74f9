"""Requests made in-process: what drives an app for the n-th time."""

from __future__ import annotations

import asyncio
import io
import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

from apps import PATH

Do: TypeAlias = Callable[[int], object]

CLIENTS = 1000


def addresses(clients: int) -> list[str]:
    """So many."""
    return [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(clients)]


SCOPE: dict[str, Any] = {
    "type": "http",
    "asgi": {"version": "3.0", "spec_version": "2.3"},
    "http_version": "1.1",
    "server": ("127.0.0.1", 8000),
    "scheme": "http",
    "method": "GET",
    "root_path": "",
    "path": PATH,
    "raw_path": PATH.encode(),
    "query_string": b"",
    "headers": [(b"host", b"127.0.0.1:8000"), (b"user-agent", b"bench"), (b"accept", b"*/*")],
}


async def receive() -> dict[str, Any]:
    """An empty body."""
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send(message: Any) -> None:
    pass


def asgi_by_hand(app: Any, clients: int = CLIENTS) -> Do:
    """One request, its coroutine driven without a loop: for apps that wait for nothing."""
    peers = [(address, 50_000) for address in addresses(clients)]

    def do(turn: int) -> None:
        try:
            app({**SCOPE, "client": peers[turn % clients]}, receive, _send).send(None)
        except StopIteration:
            return
        raise RuntimeError("the app waits for something")

    return do


def asgi_made_up(app: Any) -> Do:
    """One request that nobody has made before, from a client of its own: whatever the turn."""
    numbers = itertools.count()

    def do(_: int) -> None:
        number = next(numbers)
        peer = (f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 50_000)
        try:
            app({**SCOPE, "path": f"/items/{number}", "client": peer}, receive, _send).send(None)
        except StopIteration:
            return
        raise RuntimeError("the app waits for something")

    return do


def asgi_on_loop(app: Any, clients: int = CLIENTS) -> Do:
    """One request on an asyncio loop, for apps that need one."""
    loop = asyncio.new_event_loop()
    peers = [(address, 50_000) for address in addresses(clients)]

    def do(turn: int) -> None:
        loop.run_until_complete(app({**SCOPE, "client": peers[turn % clients]}, receive, _send))

    return do


def wsgi(app: Any, clients: int = CLIENTS) -> Do:
    """One request of a WSGI server."""
    peers = addresses(clients)
    environ = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": PATH,
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "127.0.0.1:8000",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }

    def do(turn: int) -> None:
        body = app({**environ, "REMOTE_ADDR": peers[turn % clients]}, _start)
        b"".join(body)
        close = getattr(body, "close", None)
        if close:
            close()

    return do


def _start(status: str, *_: Any) -> Any:
    if not status.startswith("200"):
        raise RuntimeError(f"the app answered {status}")
    return None
