"""The middlewares on a Redis store: one rule file, hosts of both kinds, one count."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from redis import Redis

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware._types import ASGIApp, Environ, Receive, Scope, Send, StartResponse, WSGIApp
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.store_settings import LeaseSettings, StoreSettings
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.leased import LeasedStore
from ratelimit_middleware.stores.open import open_store
from ratelimit_middleware.stores.redis import RedisStore
from tests.redis_server import RedisServer

if TYPE_CHECKING:
    import httpx

RULES = {
    "limits": {
        "/items": ["50/minute", "200/hour"],
        "/reports": {"limit": "90/hour per global", "behavior": "warm_up", "warm_up": "10h"},
        "/burst": "1/hour burst 50",
        "/monthly": "50/month",
    }
}


async def asgi_page(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def wsgi_page(_environ: Environ, start_response: StartResponse) -> list[bytes]:
    start_response("200 OK", [])
    return [b"ok"]


@pytest.mark.parametrize(("path", "admitted"), [("/items", 50), ("/burst", 50), ("/monthly", 50)])
def test_hosts_of_both_kinds_share_one_limit(
    redis_server: RedisServer,
    asgi_client: Callable[[ASGIApp], httpx.AsyncClient],
    wsgi_client: Callable[[WSGIApp], httpx.Client],
    path: str,
    admitted: int,
) -> None:
    """An event loop and a pool of threads, at once."""
    store = RedisStore(redis_server.url, prefix=f"apps{path}:")
    threaded = wsgi_client(wsgi.RateLimitMiddleware(wsgi_page, RULES, store=store))

    async def on_a_loop() -> list[int]:
        client = asgi_client(asgi.RateLimitMiddleware(asgi_page, RULES, store=store))
        answers = await asyncio.gather(*(client.get(path) for _ in range(60)))
        await store.close_async()
        return [answer.status_code for answer in answers]

    with ThreadPoolExecutor(8) as threads:
        of_the_loop = threads.submit(asyncio.run, on_a_loop())
        statuses = [*threads.map(lambda _: threaded.get(path).status_code, range(60)), *of_the_loop.result()]
    store.close()
    assert (statuses.count(200), statuses.count(429)) == (admitted, 120 - admitted)


def test_with_leases_a_host_asks_the_server_for_few_of_its_requests(
    redis_server: RedisServer, asgi_client: Callable[[ASGIApp], httpx.AsyncClient]
) -> None:
    lease = LeaseSettings(50, 2 * 10**9)
    store = open_store(StoreSettings(redis_server.url, 10**10, prefix="leased-app:", lease=lease))
    assert isinstance(store, LeasedStore)
    rules = {"default": "100/hour per global"}
    client = asgi_client(asgi.RateLimitMiddleware(asgi_page, rules, store=store))

    async def ask() -> list[httpx.Response]:
        answers = [await client.get("/") for _ in range(101)]
        await store.close_async()
        return answers

    with Redis.from_url(redis_server.url) as server:
        before = server.info("commandstats")["cmdstat_evalsha"]["calls"]
        answers = asyncio.run(ask())
        calls = server.info("commandstats")["cmdstat_evalsha"]["calls"] - before
    assert [answer.status_code for answer in answers] == [200] * 100 + [429]
    assert [int(answer.headers["RateLimit"].split(";")[1][2:]) for answer in answers[:3]] == [99, 98, 97]
    assert calls < 60


@pytest.mark.anyio
async def test_a_refusal_names_its_limit_and_when_to_come_back(
    redis_server: RedisServer, asgi_client: Callable[[ASGIApp], httpx.AsyncClient]
) -> None:
    store = RedisStore(redis_server.url, prefix="told:")
    client = asgi_client(asgi.RateLimitMiddleware(asgi_page, RULES, store=store))
    answers = [await client.get("/reports") for _ in range(31)]
    assert [answer.status_code for answer in answers] == [200] * 30 + [429]
    assert answers[0].headers["RateLimit-Policy"] == '"reports";q=90;w=3600'
    assert 1 <= int(answers[30].headers["Retry-After"]) <= 3600
    assert answers[30].json()["violated-policies"] == ["reports"]
    await store.close_async()


@pytest.mark.anyio
async def test_a_server_that_cannot_be_reached_lets_nobody_through(
    asgi_client: Callable[[ASGIApp], httpx.AsyncClient],
) -> None:
    rules = {"store": {"url": "unix:///nowhere/redis.sock", "on_error": "deny"}, "default": "5/minute"}
    client = asgi_client(asgi.RateLimitMiddleware(asgi_page, rules))
    assert (await client.get("/")).status_code == 503


def test_a_limit_that_redis_cannot_count_is_refused_when_the_middleware_is_built() -> None:
    rules = {
        "store": {"url": "redis://localhost", "on_error": "deny"},
        "default": {"limit": {"count": 10**9, "per": "s", "algorithm": "sentinel_warm_up", "warm_up": "9d"}},
    }
    with pytest.raises(StoreError, match=r"WarmUp\(count=1000000000.* cannot be counted in Redis"):
        asgi.RateLimitMiddleware(asgi_page, rules)


@pytest.mark.anyio
async def test_by_default_each_process_counts_its_share_until_the_server_is_back(
    redis_server: RedisServer, asgi_client: Callable[[ASGIApp], httpx.AsyncClient]
) -> None:
    store = {"url": "unix:///nowhere/redis.sock", "expected_workers": 5}
    client = asgi_client(asgi.RateLimitMiddleware(asgi_page, {"store": store, "default": "10/minute"}))
    assert [(await client.get("/")).status_code for _ in range(3)] == [200, 200, 429]


def test_the_store_block_sets_prefix_and_timeout(redis_server: RedisServer) -> None:
    store = open_store(StoreSettings(redis_server.url, timeout_ns=200_000_000, prefix="shop:"))
    assert isinstance(store, RedisStore)
    assert store.take([Check("a|1", GCRA(1, 60, 5), "*")])[0].allowed
    assert list(store.scan()) == ["a|1"]
    with Redis.from_url(redis_server.url) as client:
        assert client.exists("shop:a|1")
    store.close()
