"""Entrances: what a request was reached from within this process, for rules with `chain`.

While the app serves a request, it may send requests to itself or to other apps in the process, and it may
say by name what it is about. Both are kept in a context variable, which follows tasks and threads as
`contextvars` do; no header has a part in it, so no client can claim an entrance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from ratelimit_middleware._types import ASGIApp, Environ, Receive, Scope, Send, StartResponse, WSGIApp
from ratelimit_middleware.request import AsgiView, RequestView, WsgiView

__all__ = ["AsgiEntrance", "Road", "WsgiEntrance", "entrance", "road_of"]

Road: TypeAlias = "tuple[RequestView | str, ...]"
"""Requests that are being served further out, and names that the app has given, the outermost first."""

_KEY = "ratelimit_middleware.road"
"""Where a request keeps how it was reached, for instances of the middleware further in. Whatever a client
sends becomes a text elsewhere."""
_road: ContextVar[Road] = ContextVar("ratelimit_middleware_road", default=())


@contextmanager
def entrance(name: str) -> Iterator[None]:
    """What the app does in the block is reached from here.

    Args:
        name: as rules with `chain` have it.
    """
    token = _road.set((*_road.get(), name))
    try:
        yield
    finally:
        _road.reset(token)


def road_of(raw: Mapping[str, Any]) -> Road:
    """How a request was reached; without itself, also where it is asked further in."""
    kept: Road | None = raw.get(_KEY)
    return _road.get() if kept is None else kept


@contextmanager
def _entered(raw: MutableMapping[str, Any], view: RequestView) -> Iterator[None]:
    """The app serves this request."""
    road = road_of(raw)
    raw[_KEY] = road
    token = _road.set((*road, view))
    try:
        yield
    finally:
        _road.reset(token)
        raw.pop(_KEY, None)  # an app may be tried with a scope that was used before


class AsgiEntrance:
    """An ASGI app, whose requests are entrances while it serves them.

    Args:
        app: the app.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        with _entered(scope, AsgiView(scope)):
            await self.app(scope, receive, send)


class WsgiEntrance:
    """A WSGI app, whose requests are entrances until it has returned the body (not while that is sent).

    Args:
        app: the app.
    """

    def __init__(self, app: WSGIApp) -> None:
        self.app = app

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request."""
        with _entered(environ, WsgiView(environ)):
            return self.app(environ, start_response)
