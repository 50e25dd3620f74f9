"""Rules for requests that are reached from an entrance, under ASGI and WSGI."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware.cli.explain import Question, explain
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.coverage import coverage
from ratelimit_middleware.entrances import entrance, road_of
from ratelimit_middleware.rules.load import load_rules

pytestmark = pytest.mark.anyio

RULES = {"limits": {"GET /stock/{sku}": {"limit": "2/10s per global", "chain": "POST /checkout"}}}
NAMED = {"limits": {"/stock/{sku}": {"limit": "2/10s per global", "chain": "nightly"}}}


class Shop:
    """An ASGI app whose checkout asks for its own stock, so many times."""

    def __init__(self, rules: Any, clock: ManualClock, times: int = 3, how: str = "await") -> None:
        self.limited = asgi.RateLimitMiddleware(self.serve, rules, clock=clock)
        self.times = times
        self.how = how
        self.inner: list[int] = []

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.limited), base_url="http://test")

    async def ask(self, path: str = "/stock/1", method: str = "GET", **headers: str) -> int:
        return (await self.client().request(method, path, headers=headers)).status_code

    async def serve(self, scope: Any, _receive: Any, send: Any) -> None:
        if scope["path"] in ("/checkout", "/cart"):
            for _ in range(self.times):
                asked = self.ask()
                self.inner.append(await (asyncio.create_task(asked) if self.how == "task" else asked))
        if scope["path"] == "/outer":
            await self.ask("/checkout", "POST")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("how", ["await", "task"])
async def test_only_requests_that_the_entrance_has_led_to_count(clock: ManualClock, how: str) -> None:
    shop = Shop(RULES, clock, how=how)
    assert [await shop.ask() for _ in range(9)] == [200] * 9
    assert await shop.ask("/checkout", "POST") == 200
    assert shop.inner == [200, 200, 429]
    assert await shop.ask("/cart", "POST") == 200
    assert shop.inner[3:] == [200, 200, 200]
    assert [await shop.ask() for _ in range(9)] == [200] * 9
    clock.advance(10)
    await shop.ask("/checkout", "POST")
    assert shop.inner[6:] == [200, 200, 429]


async def test_an_entrance_in_the_middle_will_do_and_another_method_will_not(clock: ManualClock) -> None:
    shop = Shop(RULES, clock)
    await shop.ask("/outer")
    assert shop.inner == [200, 200, 429]
    shop = Shop(RULES, clock)
    await shop.ask("/checkout", "GET")  # another method
    assert shop.inner == [200, 200, 200]


async def test_no_header_makes_an_entrance(clock: ManualClock) -> None:
    shop = Shop(RULES, clock)
    claims = {
        "x-entrance": "POST /checkout",
        "referer": "/checkout",
        "ratelimit-middleware.road": "POST /checkout",
    }
    assert [await shop.ask(**claims) for _ in range(5)] == [200] * 5


async def test_a_name_that_the_app_gives_is_an_entrance(clock: ManualClock) -> None:
    shop = Shop(NAMED, clock)
    assert [await shop.ask() for _ in range(3)] == [200] * 3
    with entrance("nightly"):
        with entrance("of no rule"):
            assert [await shop.ask() for _ in range(2)] == [200] * 2
        assert await asyncio.to_thread(lambda: asyncio.run(shop.ask())) == 429
    assert [await shop.ask() for _ in range(3)] == [200] * 3


async def test_default_counts_for_those_who_come_another_way(clock: ManualClock) -> None:
    shop = Shop({**RULES, "default": "4/10s per global"}, clock)
    assert [await shop.ask() for _ in range(5)] == [200] * 4 + [429]


async def test_an_instance_further_in_sees_the_same_road(clock: ManualClock) -> None:
    """A request is no entrance of itself."""
    rules = {"limits": {"/a": {"limit": "1/10s per global", "chain": "/a"}}}

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    inner = asgi.RateLimitMiddleware(app, rules, clock=clock)
    outer = asgi.RateLimitMiddleware(inner, rules, clock=clock)
    transport = httpx.ASGITransport(outer)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert [(await client.get("/a")).status_code for _ in range(4)] == [200] * 4


async def test_nothing_is_left_in_the_context_or_the_scope(clock: ManualClock) -> None:
    shop = Shop(RULES, clock)
    await shop.ask("/checkout", "POST")
    assert road_of({}) == ()
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/stock/1", "headers": []}
    before = dict(scope)

    async def nothing(*_: Any) -> None:
        """Neither heard nor told."""

    await shop.limited(scope, nothing, nothing)  # type: ignore[arg-type]
    assert scope == before


def test_under_wsgi_it_is_the_same(clock: ManualClock, wsgi_client: Callable[..., httpx.Client]) -> None:
    inner: list[int] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/checkout":
            inner.extend(wsgi_client(limited).get("/stock/1").status_code for _ in range(3))
        start_response("200 OK", [])
        return [b"served"]

    limited = wsgi.RateLimitMiddleware(app, RULES, clock=clock)
    client = wsgi_client(limited)
    assert [client.get("/stock/1").status_code for _ in range(5)] == [200] * 5
    assert client.post("/checkout").status_code == 200
    assert inner == [200, 200, 429]
    thread = threading.Thread(target=lambda: inner.append(client.get("/stock/1").status_code))
    thread.start()
    thread.join()
    assert inner[3:] == [200]
    assert road_of({}) == ()


def test_rules_without_it_pay_nothing(clock: ManualClock) -> None:
    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        """Not asked."""

    limited = asgi.RateLimitMiddleware(app, {"default": "5/s"}, clock=clock)
    assert limited._app is app


def test_coverage_and_explain_know_that_others_pass(tmp_path: Path) -> None:
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def page(_: Any) -> PlainTextResponse:
        return PlainTextResponse("page")

    app = Starlette(routes=[Route("/stock/{sku}", page)])
    assert not coverage(app, load_rules(RULES)).routes[0].limited
    file = tmp_path / "rules.yaml"
    file.write_text("limits: {/stock: {limit: 2/s, chain: POST /checkout}}\n", "utf-8")
    told, _ = explain(str(file), Question("GET", "/stock"))
    assert "  because the request is not reached from an entrance of `chain`\n" in told
