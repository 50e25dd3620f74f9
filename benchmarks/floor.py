"""The floor: the least that a limiter can do, written out by hand for one limit; what ours is compared with.

A dict lookup, the arithmetic of GCRA and three header fields. No lock, no rules, no bound on memory, one
way to name a client: nobody should use it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

LIMIT, PERIOD_S = 100, 60
INTERVAL_NS = PERIOD_S * 1_000_000_000 // LIMIT

_Asgi = Callable[..., Awaitable[None]]


class Floor:
    """Decides for clients by their name.

    Args:
        burst: permits that an idle client may take at once.
    """

    def __init__(self, burst: int = LIMIT) -> None:
        self._burst_ns = burst * INTERVAL_NS
        self._tats: dict[str, int] = {}

    def take(self, client: str) -> tuple[bool, int, int]:
        """Whether it is admitted, the permits left, and the nanoseconds to wait or until all are back."""
        now_ns = time.monotonic_ns()
        tat_ns = self._tats.get(client, 0)
        new_ns = (tat_ns if tat_ns > now_ns else now_ns) + INTERVAL_NS
        left_ns = now_ns + self._burst_ns - new_ns
        if left_ns < 0:
            return False, 0, -left_ns
        self._tats[client] = new_ns
        return True, left_ns // INTERVAL_NS, new_ns - now_ns


class FloorAsgi:
    """The ASGI middleware made of it."""

    def __init__(self, app: _Asgi, burst: int = LIMIT) -> None:
        self._app = app
        self._take = Floor(burst).take

    async def __call__(self, scope: MutableMapping[str, Any], receive: _Asgi, send: _Asgi) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        allowed, remaining, wait_ns = self._take(scope["client"][0])
        fields = [
            (b"ratelimit-limit", b"%d" % LIMIT),
            (b"ratelimit-remaining", b"%d" % remaining),
            (b"ratelimit-reset", b"%d" % -(-wait_ns // 1_000_000_000)),
        ]
        if not allowed:
            await send({"type": "http.response.start", "status": 429, "headers": fields})
            await send({"type": "http.response.body", "body": b""})
            return

        async def send_with_fields(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *fields]
            await send(message)

        await self._app(scope, receive, send_with_fields)


class FloorWsgi:
    """The WSGI middleware made of it."""

    def __init__(self, app: Callable[..., Iterable[bytes]], burst: int = LIMIT) -> None:
        self._app = app
        self._take = Floor(burst).take

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve one request."""
        allowed, remaining, wait_ns = self._take(environ["REMOTE_ADDR"])
        fields = [
            ("RateLimit-Limit", str(LIMIT)),
            ("RateLimit-Remaining", str(remaining)),
            ("RateLimit-Reset", str(-(-wait_ns // 1_000_000_000))),
        ]
        if not allowed:
            start_response("429 Too Many Requests", fields)
            return [b""]

        def start_with_fields(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            return start_response(status, [*headers, *fields], exc_info)

        return self._app(environ, start_with_fields)
