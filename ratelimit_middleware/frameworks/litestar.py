"""Paths as Litestar's router reads them: it takes some for others that no other router would.

Nothing here imports Litestar: its app is known by `asgi_router` and `routes`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ratelimit_middleware._types import Scope
from ratelimit_middleware.frameworks.reach import chain
from ratelimit_middleware.request import AsgiView
from ratelimit_middleware.request_texts import Doubtful, readings, squeezed

__all__ = ["is_mount", "view_of"]


def view_of(app: Any) -> Callable[[Scope], AsgiView]:
    """What makes the view of a request for an app."""
    for inner in chain(app):
        if hasattr(inner, "asgi_router") and isinstance(getattr(inner, "routes", None), list):
            return partial(_LitestarView, _Mounts(inner))
    return AsgiView


def is_mount(route: Any) -> bool:
    """Whether one of Litestar's routes serves all paths below it."""
    return bool(getattr(getattr(route, "route_handler", None), "is_mount", False))


class _Mounts:
    """The places of the apps that are mounted; those that are added late are seen."""

    __slots__ = ("_app", "_count", "_places")

    def __init__(self, app: Any) -> None:
        self._app = app
        self._count = -1
        self._places: list[str] = []

    def stand(self) -> str:
        """Changes with the places."""
        return str(len(self._app.routes))

    def places(self) -> list[str]:
        routes = self._app.routes
        if len(routes) != self._count:
            self._places = [route.path for route in routes if is_mount(route) and route.path != "/"]
            self._count = len(routes)
        return self._places


class _LitestarView(AsgiView):
    """A view of a scope that Litestar is about to see."""

    __slots__ = ("_mounts",)

    def __init__(self, mounts: _Mounts, scope: Scope) -> None:
        super().__init__(scope)
        self._mounts = mounts
        self.target = (*self.target, mounts.stand())  # what the path depends on besides

    @property
    def path(self) -> str:
        """The path, and what Litestar may take it for.

        It takes the root off wherever it first stands (`/x/root/page` is `/page`), and leads to a mounted app
        whatever begins like its place (`/staticpage` is `/static/page`).
        """
        path = super().path
        found = [*readings(path)]
        root = self._scope.get("root_path", "")
        if root and root in self._scope["path"]:
            found.append("/" + self._scope["path"].split(root, 1)[-1].lstrip("/"))
        for plain in [squeezed(one) for one in found]:
            found += [
                f"{place}/{plain[len(place) :]}"
                for place in self._mounts.places()
                if plain.startswith(place) and plain[len(place) : len(place) + 1] not in ("", "/")
            ]
        others = [one for one in dict.fromkeys(found) if squeezed(one) != squeezed(path)]
        return Doubtful(path, *others) if others else path
