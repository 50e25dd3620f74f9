"""Instances of the middleware inside each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from flask import Flask
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from ratelimit_middleware import MemoryStore, load_rules
from ratelimit_middleware._types import ASGIApp, Environ, Receive, Scope, Send, StartResponse
from ratelimit_middleware.asgi import RateLimitMiddleware
from ratelimit_middleware.nested import TOLD
from ratelimit_middleware.wsgi import RateLimitMiddleware as WsgiRateLimitMiddleware

if TYPE_CHECKING:
    from starlette.requests import Request

AsgiClient = Callable[..., httpx.AsyncClient]
WsgiClient = Callable[..., httpx.Client]

RULES = {"limits": {"/inner/items": "3/minute", "/items": "2/minute"}, "always": "4/minute"}


async def page(_: Request) -> Response:
    return PlainTextResponse("page")


async def left(client: httpx.AsyncClient, path: str) -> str:
    return (await client.get(path)).headers["RateLimit"].split(";t=")[0]


def twice(app: Any, store: Any, rules: Any = RULES, make: Any = RateLimitMiddleware) -> Any:
    return make(make(app, rules, store=store), rules, store=store)


@pytest.mark.anyio
@pytest.mark.parametrize("headers", ["draft-11", "none"])
async def test_installed_twice_it_counts_once(asgi_client: AsgiClient, headers: str) -> None:
    app = Starlette(routes=[Route("/items", page)])
    rules = RULES | {"response": {"headers": headers}}
    async with asgi_client(twice(app, MemoryStore(), rules)) as client:
        assert [(await client.get("/items")).status_code for _ in range(3)] == [200, 200, 429]


@pytest.mark.anyio
async def test_installed_three_times_it_counts_once(asgi_client: AsgiClient) -> None:
    app, store = Starlette(routes=[Route("/items", page)]), MemoryStore()
    thrice = RateLimitMiddleware(twice(app, store), RULES, store=store)
    async with asgi_client(thrice) as client:
        assert [(await client.get("/items")).status_code for _ in range(3)] == [200, 200, 429]


def test_installed_twice_it_counts_once_under_wsgi(wsgi_client: WsgiClient) -> None:
    app = Flask("shop")
    app.add_url_rule("/items", "items", lambda: "page")
    limited = twice(app.wsgi_app, MemoryStore(), make=WsgiRateLimitMiddleware)
    with wsgi_client(limited) as client:
        assert [client.get("/items").status_code for _ in range(3)] == [200, 200, 429]


@pytest.mark.anyio
async def test_inside_a_mounted_app_each_rule_counts_once(asgi_client: AsgiClient) -> None:
    store = MemoryStore()
    inner = RateLimitMiddleware(Starlette(routes=[Route("/items", page)]), RULES, store=store)
    app = RateLimitMiddleware(Starlette(routes=[Mount("/inner", inner)]), RULES, store=store)
    async with asgi_client(app) as client:
        told = [await left(client, "/inner/items"), await left(client, "/inner/items")]
        last = await client.get("/inner/items")

    assert told == ['"items";r=1', '"items";r=0']  # the rule of the path inside, two a minute
    assert last.status_code == 429
    assert last.json()["violated-policies"] == ["items"]


@pytest.mark.anyio
async def test_a_rule_with_other_numbers_counts_for_itself(asgi_client: AsgiClient) -> None:
    """Both take from the one bucket, which the name of the rule says."""
    store = MemoryStore()
    inner = RateLimitMiddleware(
        Starlette(routes=[Route("/items", page)]), {"limits": {"/items": "2/minute"}}, store=store
    )
    app = RateLimitMiddleware(inner, {"limits": {"/items": "3/minute"}}, store=store)
    async with asgi_client(app) as client:
        assert [(await client.get("/items")).status_code for _ in range(2)] == [200, 429]


@pytest.mark.anyio
async def test_stores_of_their_own_count_for_themselves(asgi_client: AsgiClient) -> None:
    app = Starlette(routes=[Route("/items", page)])
    used = MemoryStore()
    limited = RateLimitMiddleware(RateLimitMiddleware(app, RULES, store=used), RULES, store=MemoryStore())
    async with asgi_client(limited) as client:
        await client.get("/items")
    assert used.stats().keys == 2


@pytest.mark.anyio
async def test_an_app_that_sends_requests_to_itself_is_counted_for_each(asgi_client: AsgiClient) -> None:
    """A batch of many in one request must not pass for one."""

    async def batch(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/items":
            await PlainTextResponse("page")(scope, receive, send)
            return
        for _ in range(5):
            await limited({**scope, "path": "/items"}, receive, collect)
        await PlainTextResponse(" ".join(statuses))(scope, receive, send)

    async def collect(message: Any) -> None:
        if "status" in message:
            statuses.append(str(message["status"]))

    statuses: list[str] = []
    limited = twice(batch, MemoryStore(), {"limits": {"/items": "3/minute"}})
    async with asgi_client(limited) as client:
        assert (await client.get("/batch")).text == "200 200 200 429 429"


@pytest.mark.anyio
async def test_an_app_that_sends_the_same_request_on_twice_is_counted_twice(asgi_client: AsgiClient) -> None:
    async def nothing(_: Any) -> None:
        """Nobody hears the answer."""

    def repeating(app: ASGIApp) -> ASGIApp:
        async def send_on(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope}, receive, nothing)
            await app({**scope}, receive, send)

        return send_on

    app, store = Starlette(routes=[Route("/items", page)]), MemoryStore()
    rules = {"limits": {"/items": "3/minute"}}
    inner = RateLimitMiddleware(app, rules, store=store)
    async with asgi_client(RateLimitMiddleware(repeating(inner), rules, store=store)) as client:
        assert [(await client.get("/items")).status_code for _ in range(2)] == [200, 429]


def test_nothing_that_a_client_can_send_passes_for_a_count(wsgi_client: WsgiClient) -> None:
    app = Flask("shop")
    app.add_url_rule("/items", "items", lambda: "page")
    limited = WsgiRateLimitMiddleware(app.wsgi_app, RULES)
    forged = {TOLD: "x", TOLD.replace(".", "-"): "x", "HTTP_" + TOLD.upper(): "x"}
    with wsgi_client(limited) as client:
        statuses = [client.get("/items", headers=forged).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]


def test_the_environ_is_left_as_it_was(wsgi_client: WsgiClient) -> None:
    seen: list[Environ] = []

    def app(environ: Environ, start_response: StartResponse) -> list[bytes]:
        seen.append(environ)
        start_response("200 OK", [])
        return []

    with wsgi_client(twice(app, MemoryStore(), make=WsgiRateLimitMiddleware)) as client:
        client.get("/items")
    assert TOLD not in seen[0]


def test_a_store_that_the_rules_name_is_one_place_for_all_that_open_it() -> None:
    rules = load_rules({"default": "3/minute", "store": "shared://"})
    app = twice(page, None, rules)
    memory = twice(page, None, load_rules({"default": "3/minute"}))
    assert app._registry.place == app._app._registry.place
    assert memory._registry.place != memory._app._registry.place
