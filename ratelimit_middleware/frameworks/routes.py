"""All routes of an app, flat, each with its whole path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ratelimit_middleware.frameworks.litestar import is_mount
from ratelimit_middleware.frameworks.reach import reach, routes_in
from ratelimit_middleware.frameworks.template import Piece, pieces_of

__all__ = ["AppRoute", "UnreachableError", "routes_of"]

_DEEPEST = 32
_HANDLERS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_BELOW = "/{path:path}"


class UnreachableError(LookupError):
    """The routes of an app cannot be found."""


@dataclass(frozen=True, slots=True)
class AppRoute:
    """A route of an app.

    Attributes:
        path: the template with all prefixes, in the framework's own spelling (`/items/{id:int}`,
            `/items/<int:id>`); `/static/{path:path}` for an app that is mounted and knows no routes.
        methods: upper-case methods, `WS` for handshakes; None = whatever comes.
        host: the hosts that it is for, in the framework's own spelling; empty = all.
        pieces: the template, read.
    """

    path: str
    methods: frozenset[str] | None = None
    host: str = ""
    pieces: tuple[Piece, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        """Read the template, where it takes no more than its text."""
        if not self.pieces:
            object.__setattr__(self, "pieces", pieces_of(self.path))


def routes_of(app: Any) -> tuple[AppRoute, ...]:
    """The routes of a FastAPI, Starlette, Litestar, Flask or Quart app, or of one inside middlewares.

    Raises:
        UnreachableError: nothing that can be seen from `app` knows routes.
    """
    if reach(app) is None:
        raise UnreachableError(
            f"the routes of {type(app).__name__} cannot be found: neither it nor what it wraps as `app` has"
            " `routes` (Starlette, FastAPI, Litestar) or a `url_map` (Flask, Quart); Django keeps its routes"
            " apart from the app"
        )
    return tuple(dict.fromkeys(_below(app, "", "", 0)))


def _below(app: Any, prefix: str, host: str, depth: int) -> Iterator[AppRoute]:
    """The routes of an app that is mounted at `prefix`."""
    found = reach(app) if depth < _DEEPEST else None
    if found is None:
        yield AppRoute(prefix.rstrip("/") + _BELOW, None, host)
        return
    for place, inner in found.mounts.items():
        yield from _below(inner, prefix + place, host, depth + 1)
    if found.url_map is not None:
        yield from _of_werkzeug(found.url_map, prefix, host)
    for route in routes_in(found.router):
        read = _of_litestar if hasattr(route, "scope_type") else _of_starlette
        yield from read(route, prefix, host, depth)


def _of_starlette(route: Any, prefix: str, host: str, depth: int) -> Iterator[AppRoute]:
    path = getattr(route, "path", None)
    if isinstance(getattr(route, "host", None), str):
        yield from _below(route.app, prefix, route.host, depth + 1)
    elif not path and hasattr(getattr(route, "original_route", route), "routes"):
        yield from _of_frontends(route, prefix, host)
    elif hasattr(route, "endpoint"):
        whole = prefix + str(path)
        yield AppRoute(whole, _methods(route), host, pieces_of(whole, _is_open(route)))
    elif hasattr(route, "app"):
        yield from _below(route.app, prefix + str(path), host, depth + 1)


def _of_litestar(route: Any, prefix: str, host: str, depth: int) -> Iterator[AppRoute]:
    whole = prefix.rstrip("/") + str(route.path)
    if is_mount(route):
        yield from _below(route.route_handler.fn, whole, host, depth + 1)
        return
    methods = {"http": route.methods, "websocket": {"WS"}}.get(str(route.scope_type.value))
    yield AppRoute(whole, frozenset(methods) if methods else None, host)


def _of_frontends(group: Any, prefix: str, host: str) -> Iterator[AppRoute]:
    """Files below a path, as FastAPI serves them when no route matches."""
    prefix += getattr(group, "frontend_prefix", "")
    for route in getattr(group, "original_route", group).routes:
        yield AppRoute(prefix + route.path.rstrip("/") + _BELOW, frozenset(route.methods), host)


def _methods(route: Any) -> frozenset[str] | None:
    """The methods of a route; those that a class handles where the route itself takes all."""
    if not hasattr(route, "methods"):
        return frozenset({"WS"})
    if route.methods:
        return frozenset(route.methods)
    if not isinstance(route.endpoint, type):
        return None
    handled = {name for name in _HANDLERS if callable(getattr(route.endpoint, name.lower(), None))}
    return frozenset(handled | {"HEAD"} if "GET" in handled else handled) or None


def _is_open(route: Any) -> Any:
    converters = getattr(route, "param_convertors", {})

    def is_open(name: str, converter: str) -> bool:  # noqa: ARG001 - Starlette knows them by parameter
        return bool(re.fullmatch(getattr(converters.get(name), "regex", ""), "a/b"))

    return is_open


def _of_werkzeug(url_map: Any, prefix: str, host: str) -> Iterator[AppRoute]:
    def is_open(name: str, converter: str) -> bool:  # noqa: ARG001 - Werkzeug knows them by converter
        return not getattr(url_map.converters.get(converter), "part_isolating", True)

    for rule in url_map.iter_rules():
        if not rule.build_only:
            methods = frozenset({"WS"}) if rule.websocket else rule.methods and frozenset(rule.methods)
            place = rule.host or (f"{rule.subdomain}.<domain>" if rule.subdomain else host)
            whole = prefix + rule.rule
            yield AppRoute(whole, methods, place, pieces_of(whole, is_open))
