"""Which of its routes an app serves a request with: the value of the key part `route`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ratelimit_middleware._types import Scope
from ratelimit_middleware.frameworks.reach import Reached, reach
from ratelimit_middleware.request import AsgiView, RequestView
from ratelimit_middleware.rules.recent import Recent

__all__ = ["SelectedRoute"]

_MOST_REMEMBERED = 2048  # in each of two generations
_LONGEST = 512
_DEEPEST = 32


class SelectedRoute:
    """Asks the app's own router, which therefore reads a path twice; what it says is remembered.

    Only what was found is remembered, and forgotten when the number of routes changes, so that routes that
    are added late are seen.

    Args:
        app: the app, or what wraps it.
    """

    __slots__ = ("_app", "_count", "_known", "_reached")

    def __init__(self, app: Any) -> None:
        self._app = app
        self._reached: Reached | None = None
        self._known: Recent[tuple[str, ...], str] = Recent(_MOST_REMEMBERED)
        self._count = -1

    def __call__(self, view: RequestView) -> str | None:
        """The template of the route, with the prefixes of what it is mounted in.

        None where the router cannot be reached, knows no such route or fails; never raises.
        """
        try:
            return self._found(view)
        except Exception:  # noqa: BLE001 - the app's routers and converters; they fail again where it counts
            return None

    def _found(self, view: RequestView) -> str | None:
        found = self._reached = self._reached or reach(self._app)
        if found is None:
            return None
        count = 0 if found.router is None else len(found.router.routes)  # Flask takes none once it serves
        if count != self._count:
            self._count = count
            self._known = Recent(_MOST_REMEMBERED)
        key = (view.kind, view.method, view.path, view.host, view.raw.get("root_path", ""))
        template = self._known.young.get(key) or self._known.renewed(key)
        if template is None:
            template = _selected(found, view, 0)
            if template is not None and sum(map(len, key)) <= _LONGEST:
                self._known.put(key, template)
        return template


def _selected(found: Reached, view: RequestView, depth: int) -> str | None:
    if found.url_map is not None:
        return _of_werkzeug(found.url_map, view)
    if found.router is None or depth > _DEEPEST:
        return None
    return _of_starlette(found.router.routes, {**view.raw}, depth)


def _of_starlette(routes: Iterable[Any], scope: Scope, depth: int) -> str | None:
    """The first route that matches in full, else the first that lacks the method only."""
    partial: tuple[Any, Scope] | None = None
    for route in routes:
        match, child = route.matches({**scope})
        if match.name == "FULL":
            return _within(route, {**scope, **child}, depth)
        if match.name == "PARTIAL" and partial is None:
            partial = (route, child)
    return _within(partial[0], {**scope, **partial[1]}, depth) if partial else None


def _within(route: Any, scope: Scope, depth: int) -> str | None:
    """The template of a route that matches, or of the one inside it."""
    if hasattr(route, "effective_candidates"):
        return _of_starlette(route.effective_candidates(), scope, depth + 1)
    route = getattr(route, "starlette_route", None) or route
    path = str(getattr(route, "path", ""))
    if hasattr(route, "endpoint"):
        return path
    found = reach(getattr(route, "app", None))
    if found is None:
        return f"{path.rstrip('/')}/{{path:path}}"
    inner = _selected(found, AsgiView(scope), depth + 1)
    return None if inner is None else path + inner


def _of_werkzeug(url_map: Any, view: RequestView) -> str | None:
    scheme = "ws" if view.kind == "websocket" else "http"
    adapter = url_map.bind(view.host or "localhost", path_info=view.path, url_scheme=scheme)
    try:
        rule, _ = adapter.match(method=view.method, return_rule=True)
    except Exception as error:
        methods = getattr(error, "valid_methods", None)
        if not methods:
            raise
        rule, _ = adapter.match(method=methods[0], return_rule=True)
    return str(rule.rule)
