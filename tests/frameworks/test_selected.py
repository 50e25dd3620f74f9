"""Which route of an app serves a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from flask import Blueprint, Flask
from starlette.applications import Starlette
from starlette.requests import Request  # noqa: TC002 - FastAPI reads annotations
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Host, Mount, Route, WebSocketRoute
from starlette.websockets import WebSocket  # noqa: TC002 - as above

from ratelimit_middleware.asgi import RateLimitMiddleware
from ratelimit_middleware.frameworks.selected import SelectedRoute
from ratelimit_middleware.request import AsgiView, WsgiView
from ratelimit_middleware.wsgi import RateLimitMiddleware as WsgiRateLimitMiddleware

Client = Callable[..., httpx.AsyncClient]

RULES = {"limits": {"/**": "1/minute per ip+route"}}


async def page(_: Request) -> Response:
    return PlainTextResponse("page")


async def live(_: WebSocket) -> None:
    """Answers nothing."""


async def opaque(scope: Any, receive: Any, send: Any) -> None:
    """An app that knows no routes."""


def scope(path: str, method: str = "GET", host: str = "", **more: Any) -> AsgiView:
    headers = [(b"host", host.encode())] if host else []
    return AsgiView({"type": "http", "method": method, "path": path, "headers": headers, **more})


def starlette_app() -> Starlette:
    inner = Starlette(routes=[Route("/deep/{n:int}", page)])
    return Starlette(
        routes=[
            Route("/items/special", page, methods=["POST"]),
            Route("/items/{id}", page),
            WebSocketRoute("/items/{id}", live),
            Mount("/shop/{tenant}", routes=[Mount("/more", inner)]),
            Mount("/static", opaque),
            Host("api.example.com", Starlette(routes=[Route("/here", page)])),
        ]
    )


@pytest.mark.parametrize(
    ("view", "template"),
    [
        (scope("/items/7"), "/items/{id}"),
        (scope("/items/special"), "/items/{id}"),
        (scope("/items/special", "POST"), "/items/special"),
        (scope("/items/special", "PUT"), "/items/special"),
        (scope("/items/7", type="websocket"), "/items/{id}"),
        (scope("/shop/one/more/deep/7"), "/shop/{tenant}/more/deep/{n:int}"),
        (scope("/root/shop/one/more/deep/7", root_path="/root"), "/shop/{tenant}/more/deep/{n:int}"),
        (scope("/static/a/b.css"), "/static/{path:path}"),
        (scope("/here", host="api.example.com"), "/here"),
        (scope("/here", host="www.example.com"), None),
        (scope("/shop/one/more/deep/x"), None),
        (scope("/nowhere"), None),
    ],
)
def test_starlette_says_it_with_all_mounts(view: AsgiView, template: str | None) -> None:
    assert SelectedRoute(starlette_app())(view) == template


def test_fastapi_says_it_with_the_prefixes_of_what_is_included_and_late_routes_are_seen() -> None:
    app, outer, inner = FastAPI(), APIRouter(prefix="/outer"), APIRouter(prefix="/inner")
    inner.add_api_route("/{id}", page)
    inner.add_api_websocket_route("/live/{id}", live)
    outer.include_router(inner, prefix="/between")
    app.include_router(outer, prefix="/api")
    selected = SelectedRoute(app)

    assert selected(scope("/api/outer/between/inner/7")) == "/api/outer/between/inner/{id}"
    live_template = "/api/outer/between/inner/live/{id}"
    assert selected(scope("/api/outer/between/inner/live/7", type="websocket")) == live_template
    assert selected(scope("/late/7")) is None
    app.add_api_route("/late/{id}", page)
    assert selected(scope("/late/7")) == "/late/{id}"


def test_a_route_that_is_added_before_another_takes_its_place() -> None:
    app = starlette_app()
    selected = SelectedRoute(app)
    assert selected(scope("/items/7")) == "/items/{id}"
    app.router.routes.insert(0, Route("/items/7", page))
    assert selected(scope("/items/7")) == "/items/7"


def flask_app() -> Flask:
    app = Flask("shop", static_folder=None)
    blueprint = Blueprint("o", "o", url_prefix="/outer")
    blueprint.add_url_rule("/<int:id>", "page", lambda id: "page", methods=["GET", "POST"])  # noqa: A006
    app.register_blueprint(blueprint)
    return app


@pytest.mark.parametrize(
    ("path", "method", "template"),
    [
        ("/outer/7", "GET", "/outer/<int:id>"),
        ("/outer/7", "POST", "/outer/<int:id>"),
        ("/outer/7", "DELETE", "/outer/<int:id>"),
        ("/outer/x", "GET", None),
        ("/outer//7", "GET", None),
    ],
)
def test_flask_says_it_with_the_prefixes_of_blueprints(path: str, method: str, template: str | None) -> None:
    environ = {"PATH_INFO": path, "REQUEST_METHOD": method, "HTTP_HOST": "test", "SERVER_NAME": "test"}
    assert SelectedRoute(flask_app())(WsgiView(environ)) == template


def test_routers_that_cannot_be_reached_or_fail_say_nothing() -> None:
    class Broken(Route):
        def matches(self, scope: Any) -> Any:
            raise LookupError("broken")

    assert SelectedRoute(opaque)(scope("/items/7")) is None
    assert SelectedRoute(Starlette(routes=[Broken("/items/{id}", page)]))(scope("/items/7")) is None


def test_the_router_is_asked_once_for_a_path_and_leaves_no_trace_in_the_scope() -> None:
    asked = []

    class Watched(Route):
        def matches(self, scope: Any) -> Any:
            asked.append(scope["path"])
            return super().matches(scope)

    selected = SelectedRoute(Starlette(routes=[Watched("/items/{id}", page)]))
    view = scope("/items/7")
    before = dict(view.raw)
    assert [selected(view), selected(view)] == ["/items/{id}"] * 2
    assert asked == ["/items/7"]
    assert view.raw == before


def test_what_is_remembered_stays_bounded() -> None:
    selected = SelectedRoute(starlette_app())
    for number in range(5_000):
        selected(scope(f"/items/{number}"))
    selected(scope("/items/" + "x" * 1_000))
    assert len(selected._known) <= 4_096
    assert all(len(key[2]) < 512 for key in selected._known.young)


def test_the_router_is_not_asked_unless_a_key_has_the_route() -> None:
    middleware = RateLimitMiddleware(starlette_app(), {"limits": {"/**": "1/minute"}})
    assert middleware._registry._checking._route_of is None


@pytest.mark.anyio
async def test_a_key_by_route_counts_by_the_templates_of_the_app(asgi_client: Client) -> None:
    app = FastAPI()
    router = APIRouter(prefix="/a")
    router.add_api_route("/{id}", page)
    app.include_router(router, prefix="/api")
    app.add_api_route("/b/{id}", page)
    app.add_middleware(RateLimitMiddleware, rules=RULES)
    async with asgi_client(app) as client:
        statuses = [(await client.get(path)).status_code for path in ("/api/a/1", "/api/a/2", "/b/1", "/b/2")]
        lost = [(await client.get(path)).status_code for path in ("/x", "/y")]

    assert statuses == [200, 429, 200, 429]
    assert lost == [404, 429]  # whatever has no route counts under the rule's own pattern


def test_a_key_by_route_counts_by_the_templates_of_flask(wsgi_client: Callable[..., httpx.Client]) -> None:
    app = flask_app()
    app.add_url_rule("/b/<id>", "b", lambda id: "b")  # noqa: A006
    limited = WsgiRateLimitMiddleware(app.wsgi_app, RULES)
    with wsgi_client(limited) as client:
        statuses = [client.get(path).status_code for path in ("/outer/1", "/outer/2", "/b/1", "/b/2")]
    assert statuses == [200, 429, 200, 429]
