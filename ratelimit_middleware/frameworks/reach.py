"""From an app, through the middlewares around it, to what knows its routes.

Nothing here imports a framework: Starlette's, FastAPI's and Litestar's are known by their `routes`, those on
Werkzeug (Flask, Quart) by their `url_map`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

__all__ = ["Reached", "chain", "reach", "routes_in"]

_DEEPEST = 64
_INNER = ("app", "_app", "wsgi_app", "asgi_app", "application")


class Reached(NamedTuple):
    """What knows routes.

    Attributes:
        url_map: the `Map` of an app on Werkzeug, else None.
        router: an object with `routes` as Starlette has them, else None.
        mounts: apps that a dispatcher on the way serves instead, by the prefix of their paths.
    """

    url_map: Any
    router: Any
    mounts: Mapping[str, Any]


def reach(app: Any) -> Reached | None:
    """What knows the routes of `app`; None where nothing does, or it hides behind something unknown."""
    mounts: dict[str, Any] = {}
    for inner in chain(app):
        url_map = getattr(inner, "url_map", None)
        if callable(getattr(url_map, "iter_rules", None)):
            return Reached(url_map, None, mounts)
        if isinstance(getattr(inner, "routes", None), (list, tuple)):
            return Reached(None, inner, mounts)
        dispatched = getattr(inner, "mounts", None)  # werkzeug.middleware.dispatcher
        if isinstance(dispatched, Mapping):
            mounts.update(dispatched)
    return Reached(None, None, mounts) if mounts else None


def routes_in(router: Any) -> Iterator[Any]:
    """The routes of a router in order, those that FastAPI includes from others with their prefixes."""
    routes = list(getattr(router, "routes", ()))
    for route in routes:
        if hasattr(route, "effective_route_contexts"):
            yield from map(_effective, route.effective_route_contexts())
        else:
            yield route
    yield from getattr(getattr(router, "router", router), "_low_priority_routes", ())
    for route in routes:
        if hasattr(route, "effective_low_priority_routes"):
            yield from map(_effective, route.effective_low_priority_routes())


def _effective(context: Any) -> Any:
    """What FastAPI makes of a route that it includes."""
    return getattr(context, "starlette_route", None) or context


def chain(app: Any) -> Iterator[Any]:
    """An app and what it wraps, from the outside to the inside."""
    seen: set[int] = set()
    while app is not None and id(app) not in seen and len(seen) < _DEEPEST:
        seen.add(id(app))
        yield app
        owner = getattr(app, "__self__", None)  # `flask_app.wsgi_app` is a method
        inner = (getattr(app, name, None) for name in _INNER)
        app = owner if owner is not None else next((one for one in inner if callable(one)), None)
