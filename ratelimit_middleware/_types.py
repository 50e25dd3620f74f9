"""Type aliases of the two server interfaces (ASGI 3, PEP 3333)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Protocol, TypeAlias

__all__ = ["ASGIApp", "Environ", "Message", "Receive", "Scope", "Send", "StartResponse", "WSGIApp", "Write"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

Environ: TypeAlias = dict[str, Any]
Write: TypeAlias = Callable[[bytes], object]


class StartResponse(Protocol):
    """The callable a WSGI server hands to the app."""

    def __call__(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Write:
        """Begin the response; returns the legacy `write` callable."""


WSGIApp: TypeAlias = Callable[[Environ, Any], Iterable[bytes]]
