"""RequestView: the little of a request that a rule may look at, the same under ASGI and WSGI.

Views are lazy: nothing is decoded before a rule asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from ratelimit_middleware._types import Environ, Scope
from ratelimit_middleware.request_texts import (
    Doubtful,
    cookie_of,
    host_of,
    identity_of,
    joined,
    parameter_of,
    path_of,
    without_root,
)

__all__ = ["AsgiView", "Asked", "Kind", "RequestView", "Target", "WsgiView"]

Kind: TypeAlias = Literal["http", "websocket"]
Target: TypeAlias = "tuple[str | None, ...]"
"""What kind, method and path of a request are read from, unread: where it is the same, so are they."""


class RequestView(Protocol):
    """What a rule may look at."""

    @property
    def kind(self) -> Kind:
        """`http`, or `websocket` for a handshake."""

    @property
    def method(self) -> str:
        """The method, upper case; `GET` for a handshake."""

    @property
    def target(self) -> Target:
        """See `Target`."""

    @property
    def is_head(self) -> bool:
        """Whether the answer goes without a body: only `HEAD` to the letter, servers send one for `head`."""

    @property
    def path(self) -> str:
        """The path as the app's router sees it: percent-decoded once, without mount point or root_path.

        `request_texts.Doubtful` where routers differ, and so is the host.
        """

    @property
    def peer(self) -> str | None:
        """The address at the other end of the socket; None for a Unix socket or when unknown."""

    @property
    def host(self) -> str:
        """The host that the client asked for: lower case, without port and final dot; empty when unknown."""

    @property
    def user(self) -> str | None:
        """Who is logged in, as the authentication outside of the middleware says; None for nobody."""

    @property
    def raw(self) -> Mapping[str, Any]:
        """The ASGI scope or WSGI environ itself, for functions of the app."""

    @property
    def memo(self) -> dict[str, Any]:
        """What functions of the app have said of this request, so that each is asked once."""

    def header(self, name: str) -> str | None:
        """A header by its lower-case name, all its lines joined with `, `; None when absent."""

    def query(self, name: str) -> str | None:
        """A parameter of the query, all its values joined with `, `; None when absent."""

    def cookie(self, name: str) -> str | None:
        """A cookie as it was sent, all its values joined with `, `; None when absent."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A function of the app that rules ask about a request.

    Attributes:
        name: `MODULE:FUNCTION`, by which two are the same.
        function: takes the view.
        awaited: whether it gives something to await; then `ask` must have been awaited before the call.
    """

    name: str
    function: Callable[[RequestView], Any] = field(compare=False, repr=False)
    awaited: bool = field(default=False, compare=False)

    def __call__(self, view: RequestView) -> Any:
        """What the function says of this request; it is called once a request, whoever asks."""
        memo = view.memo
        if self.name not in memo:
            if self.awaited:
                raise RuntimeError(f"the async function {self.name} cannot be asked here")
            memo[self.name] = self.function(view)
        return memo[self.name]

    async def ask(self, view: RequestView) -> None:
        """Await the function's answer, to be had from the view afterwards."""
        if self.name not in view.memo:
            view.memo[self.name] = await self.function(view)


class AsgiView:
    """A view of an ASGI `http` or `websocket` scope."""

    __slots__ = ("_memo", "_scope", "peer", "target")

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._memo: dict[str, Any] | None = None
        # Hardly a request goes without these two, and a property costs more than they do.
        client = scope.get("client")
        self.peer: str | None = (client[0] or None) if client else None
        self.target: Target = (
            scope["type"],
            scope.get("method"),
            scope["path"],
            scope.get("root_path"),
        )

    @property
    def kind(self) -> Kind:
        """`http` or `websocket`, as the scope says."""
        return "websocket" if self._scope["type"] == "websocket" else "http"

    @property
    def method(self) -> str:
        """The method, upper case."""
        return str(self._scope.get("method", "GET")).upper()

    @property
    def is_head(self) -> bool:
        """Whether the method is `HEAD` to the letter."""
        return bool(self._scope.get("method") == "HEAD")

    @property
    def path(self) -> str:
        """The scope's path with `root_path` taken off where it leads it (servers differ in adding it).

        Some servers hand over the absolute form of a request (`GET http://host/items`, RFC 9112, 3.2.2) as it
        is, and some routers find their way by it.
        """
        path: str = self._scope["path"]
        if path[:1] != "/":
            path = path_of(path)
        root: str = self._scope.get("root_path", "")
        if root:
            path = without_root(path, root.rstrip("/"))
        return path or "/"

    @property
    def host(self) -> str:
        """The `Host` header; without one some frameworks take the server's address, others none."""
        header = self.header("host")
        if header:
            return host_of(header)
        server = self._scope.get("server")
        return Doubtful(host_of(str(server[0])), "") if server else ""

    @property
    def user(self) -> str | None:
        """The `user` that an authentication middleware has put into the scope."""
        return identity_of(self._scope.get("user"))

    @property
    def raw(self) -> Scope:
        """The scope."""
        return self._scope

    @property
    def memo(self) -> dict[str, Any]:
        """What functions of the app have said."""
        if self._memo is None:
            self._memo = {}
        return self._memo

    def query(self, name: str) -> str | None:
        """All values of a parameter, joined."""
        return parameter_of(self._scope.get("query_string", b"").decode("latin-1"), name)

    def cookie(self, name: str) -> str | None:
        """All values of a cookie, joined."""
        lines = [value for key, value in self._scope.get("headers", ()) if key.lower() == b"cookie"]
        return cookie_of(b"; ".join(lines).decode("latin-1"), name)

    def header(self, name: str) -> str | None:
        """All lines of a header, joined."""
        wanted = name.encode("latin-1")
        length = len(wanted)
        lines = []
        for key, value in self._scope.get("headers", ()):
            if len(key) == length and key.lower() == wanted:  # most differ in length, which is told sooner
                lines.append(value)
        if len(lines) > 1:
            return joined([line.decode("latin-1") for line in lines])
        return lines[0].decode("latin-1") if lines else None


class WsgiView:
    """A view of a WSGI environ."""

    __slots__ = ("_environ", "_memo", "peer", "target")

    def __init__(self, environ: Environ) -> None:
        self._environ = environ
        self._memo: dict[str, Any] | None = None
        self.peer: str | None = environ.get("REMOTE_ADDR") or None
        self.target: Target = (environ.get("REQUEST_METHOD"), environ.get("PATH_INFO"))

    @property
    def kind(self) -> Kind:
        """Always `http`: WSGI knows no handshakes."""
        return "http"

    @property
    def method(self) -> str:
        """The method, upper case."""
        return str(self._environ.get("REQUEST_METHOD", "GET")).upper()

    @property
    def is_head(self) -> bool:
        """Whether the method is `HEAD` to the letter."""
        return bool(self._environ.get("REQUEST_METHOD") == "HEAD")

    @property
    def path(self) -> str:
        """`PATH_INFO` (PEP 3333 hands the UTF-8 bytes over as latin-1 text), without `SCRIPT_NAME`."""
        raw: str = self._environ.get("PATH_INFO", "")
        return raw.encode("latin-1").decode("utf-8", "replace") or "/"

    @property
    def host(self) -> str:
        """`HTTP_HOST`; without one most frameworks take `SERVER_NAME`, some none."""
        header = self._environ.get("HTTP_HOST")
        return host_of(str(header)) if header else Doubtful(host_of(self._environ.get("SERVER_NAME", "")), "")

    @property
    def user(self) -> str | None:
        """`REMOTE_USER`, if it is set and not empty."""
        return self._environ.get("REMOTE_USER") or None

    @property
    def raw(self) -> Environ:
        """The environ."""
        return self._environ

    @property
    def memo(self) -> dict[str, Any]:
        """What functions of the app have said."""
        if self._memo is None:
            self._memo = {}
        return self._memo

    def query(self, name: str) -> str | None:
        """All values of a parameter, joined."""
        return parameter_of(str(self._environ.get("QUERY_STRING", "")), name)

    def cookie(self, name: str) -> str | None:
        """All values of a cookie, joined."""
        return cookie_of(str(self._environ.get("HTTP_COOKIE", "")), name)

    def header(self, name: str) -> str | None:
        """A header; the server has joined its lines already."""
        key = name.upper().replace("-", "_")
        value = self._environ.get(key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}")
        return None if value is None else str(value)
