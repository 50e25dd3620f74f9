"""RequestView: the little of a request that a rule may look at, the same under ASGI and WSGI.

Views are lazy: nothing is decoded before a rule asks for it.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from ratelimit_middleware._types import Environ, Scope

__all__ = ["AsgiView", "Kind", "RequestView", "WsgiView"]

Kind: TypeAlias = Literal["http", "websocket"]


class RequestView(Protocol):
    """What a rule may look at."""

    @property
    def kind(self) -> Kind:
        """`http`, or `websocket` for a handshake."""

    @property
    def method(self) -> str:
        """The method, upper case; `GET` for a handshake."""

    @property
    def path(self) -> str:
        """The path as the app's router sees it: percent-decoded once, without mount point or root_path."""

    @property
    def peer(self) -> str | None:
        """The address at the other end of the socket; None for a Unix socket or when unknown."""

    def header(self, name: str) -> str | None:
        """A header by its lower-case name, all its lines joined with `, `; None when absent."""


class AsgiView:
    """A view of an ASGI `http` or `websocket` scope."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @property
    def kind(self) -> Kind:
        """`http` or `websocket`, as the scope says."""
        return "websocket" if self._scope["type"] == "websocket" else "http"

    @property
    def method(self) -> str:
        """The method, upper case."""
        return str(self._scope.get("method", "GET")).upper()

    @property
    def path(self) -> str:
        """The scope's path with `root_path` taken off where it leads it (servers differ in adding it)."""
        path: str = self._scope["path"]
        root: str = self._scope.get("root_path", "").rstrip("/")
        if root and (path == root or path.startswith(root + "/")):
            path = path[len(root) :]
        return path or "/"

    @property
    def peer(self) -> str | None:
        """The client's address in the scope, if it has one."""
        client = self._scope.get("client")
        return (client[0] or None) if client else None

    def header(self, name: str) -> str | None:
        """All lines of a header, joined."""
        wanted = name.encode("latin-1")
        lines = [value for key, value in self._scope.get("headers", ()) if key.lower() == wanted]
        return b", ".join(lines).decode("latin-1") if lines else None


class WsgiView:
    """A view of a WSGI environ."""

    __slots__ = ("_environ",)

    def __init__(self, environ: Environ) -> None:
        self._environ = environ

    @property
    def kind(self) -> Kind:
        """Always `http`: WSGI knows no handshakes."""
        return "http"

    @property
    def method(self) -> str:
        """The method, upper case."""
        return str(self._environ.get("REQUEST_METHOD", "GET")).upper()

    @property
    def path(self) -> str:
        """`PATH_INFO` (PEP 3333 hands the UTF-8 bytes over as latin-1 text), without `SCRIPT_NAME`."""
        raw: str = self._environ.get("PATH_INFO", "")
        return raw.encode("latin-1").decode("utf-8", "replace") or "/"

    @property
    def peer(self) -> str | None:
        """`REMOTE_ADDR`, if it is set and not empty."""
        return self._environ.get("REMOTE_ADDR") or None

    def header(self, name: str) -> str | None:
        """A header; the server has joined its lines already."""
        key = name.upper().replace("-", "_")
        value = self._environ.get(key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}")
        return None if value is None else str(value)
