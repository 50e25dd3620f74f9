"""What the rules do with the routes of real apps."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from flask import Blueprint, Flask
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request  # noqa: TC002 - FastAPI reads annotations
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Host, Mount, Route, WebSocketRoute
from starlette.websockets import WebSocket  # noqa: TC002 - as above
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from ratelimit_middleware import load_rules
from ratelimit_middleware.asgi import RateLimitMiddleware
from ratelimit_middleware.coverage import Coverage, RouteCoverage, coverage, warn_of_idle_rules
from ratelimit_middleware.frameworks.routes import UnreachableError
from ratelimit_middleware.wsgi import RateLimitMiddleware as WsgiRateLimitMiddleware


async def page(_: Request) -> Response:
    return PlainTextResponse("page")


async def live(_: WebSocket) -> None:
    """Answers nothing."""


async def opaque(scope: Any, receive: Any, send: Any) -> None:
    """An app that knows no routes."""


class Page(HTTPEndpoint):
    async def get(self, _: Request) -> Response:
        return PlainTextResponse("page")

    async def delete(self, _: Request) -> Response:
        return PlainTextResponse("gone")


def starlette_app() -> Starlette:
    inner = Starlette(routes=[Route("/deep/{n:int}", page), Route("/class", Page)])
    return Starlette(
        routes=[
            Route("/items/{id}", page, methods=["GET", "POST"]),
            Route("/files/{rest:path}", page),
            Route("/slash/", page),
            WebSocketRoute("/live/{room}", live),
            Mount("/shop/{tenant}", routes=[Mount("/more", inner)]),
            Mount("/static", opaque),
            Host("api.example.com", Starlette(routes=[Route("/here", page)])),
        ]
    )


def fastapi_app() -> FastAPI:
    app = FastAPI(openapi_url=None)
    outer, inner = APIRouter(prefix="/outer"), APIRouter(prefix="/inner")
    inner.add_api_route("/{id}", page, methods=["PUT"])
    inner.add_api_websocket_route("/live", live)
    outer.include_router(inner, prefix="/between")
    app.include_router(outer, prefix="/api")
    inner.add_api_route("/late", page)
    return app


def flask_app() -> Flask:
    app = Flask("shop", static_folder=None)
    outer, inner = Blueprint("o", "o", url_prefix="/outer"), Blueprint("i", "i", url_prefix="/inner")
    inner.add_url_rule("/<int:id>/<path:rest>", "page", lambda: "page")
    outer.register_blueprint(inner)
    app.register_blueprint(outer)
    app.add_url_rule("/<name>.json", "json", lambda: "{}", methods=["POST"])
    return app


def found(report: Coverage, path: str, method: str = "GET") -> RouteCoverage:
    (one,) = [one for one in report.routes if (one.route.path, one.method) == (path, method)]
    return one


def paths(app: Any) -> list[tuple[str, str]]:
    return [(one.method, one.route.path) for one in coverage(app, {"default": "1/s"}).routes]


def test_all_routes_of_a_starlette_app_are_found() -> None:
    assert [pair for pair in paths(starlette_app()) if "static" not in pair[1]] == [
        ("GET", "/items/{id}"),
        ("HEAD", "/items/{id}"),
        ("POST", "/items/{id}"),
        ("GET", "/files/{rest:path}"),
        ("HEAD", "/files/{rest:path}"),
        ("GET", "/slash/"),
        ("HEAD", "/slash/"),
        ("WS", "/live/{room}"),
        ("GET", "/shop/{tenant}/more/deep/{n:int}"),
        ("HEAD", "/shop/{tenant}/more/deep/{n:int}"),
        ("GET", "/shop/{tenant}/more/class"),
        ("HEAD", "/shop/{tenant}/more/class"),
        ("DELETE", "/shop/{tenant}/more/class"),
        ("GET", "/here"),
        ("HEAD", "/here"),
    ]


def test_a_mounted_app_without_routes_stands_for_all_below_it_and_all_methods() -> None:
    methods = [method for method, path in paths(starlette_app()) if path == "/static/{path:path}"]
    assert methods == ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WS"]


def test_included_routers_have_their_prefixes_and_late_routes_are_found() -> None:
    assert paths(fastapi_app()) == [
        ("PUT", "/api/outer/between/inner/{id}"),
        ("WS", "/api/outer/between/inner/live"),
        ("GET", "/api/outer/between/inner/late"),
    ]


def test_files_that_fastapi_serves_when_nothing_else_matches_are_found(tmp_path: Any) -> None:
    app: Any = FastAPI(openapi_url=None)
    router: Any = APIRouter()
    has_frontends = hasattr(app, "frontend")  # a younger part of FastAPI
    if has_frontends:
        router.frontend("/front", directory=tmp_path, fallback=None)
        app.include_router(router, prefix="/admin")
        app.frontend("/", directory=tmp_path, fallback=None)

    served = ["/{path:path}", "/admin/front/{path:path}"] if has_frontends else []
    assert paths(app) == [(method, path) for path in served for method in ("GET", "HEAD")]


def test_blueprints_have_their_prefixes() -> None:
    assert paths(flask_app()) == [
        ("GET", "/outer/inner/<int:id>/<path:rest>"),
        ("HEAD", "/outer/inner/<int:id>/<path:rest>"),
        ("OPTIONS", "/outer/inner/<int:id>/<path:rest>"),
        ("POST", "/<name>.json"),
        ("OPTIONS", "/<name>.json"),
    ]


def test_a_dispatcher_serves_apps_below_their_prefixes() -> None:
    dispatcher = DispatcherMiddleware(flask_app(), {"/other": flask_app()})
    assert ("POST", "/other/<name>.json") in paths(dispatcher)
    assert ("POST", "/<name>.json") in paths(dispatcher)


def test_an_app_is_found_inside_middlewares() -> None:
    asgi, wsgi = fastapi_app(), flask_app()
    rules = {"default": "1/s"}
    assert paths(RateLimitMiddleware(RateLimitMiddleware(asgi, rules), rules)) == paths(fastapi_app())
    wsgi.wsgi_app = WsgiRateLimitMiddleware(wsgi.wsgi_app, rules)  # type: ignore[method-assign]
    assert paths(wsgi.wsgi_app) == paths(wsgi) == paths(flask_app())


def test_an_app_that_knows_no_routes_is_an_error_that_says_what_was_looked_for() -> None:
    with pytest.raises(UnreachableError, match=r"`routes`.*`url_map`"):
        coverage(opaque, {"default": "1/s"})


def test_rules_are_told_with_those_that_hold_for_some_requests_only() -> None:
    limits = {
        "GET /items/{id}": "1/s",
        "/items/special": "1/s",
        "/items/{id:int}": "1/s",
        "/other": "1/s",
        "/shop/**": {"limit": "1/s", "hosts": ["a.example.com"]},
    }
    report = coverage(starlette_app(), {"limits": limits, "default": "9/s", "always": "99/s"})

    get, post = found(report, "/items/{id}"), found(report, "/items/{id}", "POST")
    assert get.rules == ("always-1", "GET /items/{id}")
    assert get.some == ("/items/special", "/items/{id:int}")
    assert (post.rules, post.some) == (("always-1",), ("/items/special", "/items/{id:int}", "default"))
    assert found(report, "/shop/{tenant}/more/class").some == ("/shop/**", "default")
    assert found(report, "/files/{rest:path}").rules == ("always-1", "default")
    assert report.idle_rules == ("/other",)
    assert report.unlimited == ()


def test_what_no_rule_limits_is_told_unless_a_rule_says_unlimited() -> None:
    limits = {
        "GET /items/{id}": "1/s",
        "/files/**": "unlimited",
        "/slash": "unlimited",  # not this spelling: /slash/ is another path to the router
        "/shop/**": {"limit": "1/s", "mode": "shadow"},
        "/static/{file}": "1/s",
        "WS /live/{room}": {"limit": "1/s per user", "missing": "skip"},
        "/here": {"concurrency": "4 per user"},
        "POST /items/{id}": {"limit": "1/s", "enforce": "50%"},
    }
    report = coverage(starlette_app(), {"limits": limits})

    assert not found(report, "/items/{id}").exempt
    assert found(report, "/files/{rest:path}").exempt
    free = {(one.method, one.route.path) for one in report.unlimited if one.method != "HEAD"}
    assert free == {
        ("POST", "/items/{id}"),
        ("GET", "/slash/"),
        ("WS", "/live/{room}"),
        ("GET", "/shop/{tenant}/more/deep/{n:int}"),
        ("GET", "/shop/{tenant}/more/class"),
        ("DELETE", "/shop/{tenant}/more/class"),
        ("GET", "/here"),
        *((one.method, "/static/{path:path}") for one in report.routes if "static" in one.route.path),
    } - {("HEAD", "/static/{path:path}")}


def test_default_is_told_for_the_requests_that_a_rule_watches_or_exempts() -> None:
    limits = {
        "GET /items/{id}": {"limit": "1/s", "enforce": "50%"},
        "POST /items/{id}": {"limit": "1/s", "exempt": {"methods": "GET"}},
        "/slash/": {"limit": "1/s"},
    }
    report = coverage(starlette_app(), {"limits": limits, "default": "9/s"})
    for method in ("GET", "POST"):
        one = found(report, "/items/{id}", method)
        assert (one.rules, one.some) == ((f"{method} /items/{{id}}",), ("default",))
    assert found(report, "/slash/").some == ()
    assert report.unlimited == ()


def test_hosts_of_routes_and_rules_are_compared() -> None:
    app = Starlette(
        routes=[
            Host("api.example.com:8000", Starlette(routes=[Route("/a", page)])),
            Host("{tenant}.example.org", Starlette(routes=[Route("/b", page)])),
        ]
    )
    rules = {
        "limits": {
            "/a": {"limit": "1/s", "hosts": ["API.example.com"]},
            "GET /a": {"limit": "1/s", "hosts": ["www.example.com"]},
            "/b": {"limit": "1/s", "hosts": ["*.example.org"]},
            "GET /b": {"limit": "1/s", "hosts": ["one.example.org"]},
        },
        "default": "9/s",
    }
    report = coverage(app, rules)

    assert (found(report, "/a").rules, found(report, "/a").some) == (("/a",), ())
    assert (found(report, "/b").rules, found(report, "/b").some) == (("/b",), ("GET /b",))
    assert report.idle_rules == ("GET /a",)


def test_regular_expressions_are_tried_on_plain_paths_and_may_hold_for_others() -> None:
    app = Starlette(routes=[Route("/a/b", page), Route("/v/{id}", page), Route("/w/{id}", page)])
    report = coverage(app, {"limits": {"~/a/[bc]": "1/s", "~/v/[0-9]+": "1/s", "~/x/[0-9]+": "1/s"}})

    assert found(report, "/a/b").rules == ("~/a/[bc]",)
    assert found(report, "/v/{id}").some == ("~/v/[0-9]+",)
    assert found(report, "/w/{id}").some == ()
    assert report.idle_rules == ("~/x/[0-9]+",)


def test_case_may_be_passed_over() -> None:
    app = Starlette(routes=[Route("/Items/{id}", page)])
    rule = {"limit": "1/s", "case_sensitive": False}
    assert coverage(app, {"limits": {"/items/{id}": "1/s"}}).idle_rules == ("/items/{id}",)
    assert coverage(app, {"limits": {"/items/{id}": rule}}).unlimited == ()


def test_head_and_options_are_asked_of_any_route() -> None:
    rules = {"limits": {"HEAD /api/**": "1/s", "OPTIONS /api/**": "1/s", "PATCH /api/**": "1/s"}}
    assert coverage(fastapi_app(), rules).idle_rules == ("PATCH /api/**",)


def test_idle_rules_are_warned_of_once_at_the_first_request(caplog: pytest.LogCaptureFixture) -> None:
    rules = load_rules({"limits": {"/itmes": "1/s", "/{file}": "1/s"}})
    warn_of_idle_rules(flask_app(), rules)

    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("no route of the app can match 1 rule of rules: `/itmes`;")


@pytest.mark.parametrize("app", [opaque, object(), None, Starlette(routes=[object()])])  # type: ignore[list-item]
def test_the_warning_never_raises(app: Any, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_idle_rules(app, load_rules({"limits": {"/nowhere": "1/s"}}))
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]


IDLE = {"limits": {"/itmes": "1/s"}, "default": "9/s"}


@pytest.mark.anyio
async def test_an_asgi_middleware_tells_of_idle_rules_once(
    asgi_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with asgi_client(RateLimitMiddleware(fastapi_app(), IDLE)) as client:
        assert not caplog.records
        await client.get("/")
        await client.get("/")

    assert [record.getMessage() for record in caplog.records if "/itmes" in record.getMessage()] == [
        "no route of the app can match 1 rule of rules: `/itmes`; see `ratelimits routes`"
    ]


def test_a_wsgi_middleware_tells_of_idle_rules_once(
    wsgi_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with wsgi_client(WsgiRateLimitMiddleware(flask_app().wsgi_app, IDLE)) as client:
        client.get("/")
        client.get("/")

    assert len([record for record in caplog.records if "/itmes" in record.getMessage()]) == 1
