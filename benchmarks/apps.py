"""The apps that are measured: bare, under the floor, under ours and under the peers; in-process or served.

Their names are `ASGI` and `WSGI`. A server gets one by `BENCH_APP=bare uvicorn --factory apps:served_asgi`.
All answer `/items/7`; limits are so high that nobody is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from floor import FloorAsgi, FloorWsgi

from ratelimit_middleware import asgi, wsgi

PATH = "/items/7"
MANY = 100_000_000
_MANY_AT_ONCE = 1_000_000
STORE = os.environ.get("BENCH_STORE", "memory://")
BODY = b'{"number":7}'
HEADERS = [("content-type", "application/json"), ("content-length", str(len(BODY)))]
_WIRE = [(name.encode(), value.encode()) for name, value in HEADERS]


def rules(form: str, limit: int = MANY) -> dict[str, Any]:
    """One rule: `plain` is `100/minute`, `burst` the same with as large a burst.

    Where nobody is to be refused it is the burst that is large: a bucket that is full again at once would be
    forgotten at once.
    """
    burst = f"{min(limit, 100)}/minute burst {min(limit, _MANY_AT_ONCE)}"
    text = {"plain": f"{limit}/minute", "burst": burst}[form]
    # A busy machine is late at times; a benchmark must not take that for a store that is gone.
    store = {"url": STORE, "timeout": "5s"} if STORE.startswith("redis") else STORE
    return {"version": 1, "store": store, "limits": {"GET /items/{number}": text}}


async def bare_asgi(scope: Any, receive: Any, send: Any) -> None:
    """The least app."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    await send({"type": "http.response.start", "status": 200, "headers": _WIRE})
    await send({"type": "http.response.body", "body": BODY})


async def lifespan(receive: Any, send: Any) -> None:
    """Say yes to the server's start and end."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


def bare_wsgi(environ: Any, start_response: Any) -> list[bytes]:  # noqa: ARG001 - the shape of PEP 3333
    """The least app."""
    start_response("200 OK", HEADERS)
    return [BODY]


def fastapi(*, limiter: Any = None, dependency: Any = None) -> Any:
    """The least FastAPI app, with a decorator of slowapi's or a dependency of fastapi-limiter's."""
    from fastapi import Depends, FastAPI, Request

    app = FastAPI()
    dependencies = [Depends(dependency)] if dependency else []

    async def item(request: Request, number: int) -> dict[str, int]:  # noqa: ARG001 - slowapi asks for it
        return {"number": number}

    item.__annotations__ = {"request": Request, "number": int}
    route = limiter.limit(f"{MANY}/minute")(item) if limiter else item
    app.get("/items/{number}", dependencies=dependencies)(route)
    return app


def slowapi(*, decorator: bool = False, limit: int = MANY) -> Any:
    """Slowapi with one default limit and its fields, by its middleware or by its decorator."""
    from slowapi import Limiter
    from slowapi.middleware import SlowAPIMiddleware
    from slowapi.util import get_remote_address

    limits = [] if decorator else [f"{limit}/minute"]
    # Its decorator adds fields only to handlers that take a response, so it goes without.
    limiter = Limiter(
        get_remote_address, default_limits=limits, headers_enabled=not decorator, storage_uri=_uri()
    )
    app = fastapi(limiter=limiter if decorator else None)
    app.state.limiter = limiter
    if not decorator:
        app.add_middleware(SlowAPIMiddleware)
    return app


def fastapi_limiter() -> Any:
    """fastapi-limiter's dependency (without fields: it sends none)."""
    from fastapi_limiter.depends import RateLimiter
    from pyrate_limiter import InMemoryBucket, Limiter, Rate

    rates = [Rate(MANY, 60_000)]
    bucket = _redis_bucket(rates) if STORE.startswith("redis") else InMemoryBucket(rates)
    return fastapi(dependency=RateLimiter(limiter=Limiter(bucket)))


def _redis_bucket(rates: list[Any]) -> Any:
    """The bucket that its dependency awaits; one for all clients, as fastapi-limiter has it."""
    from pyrate_limiter import RedisBucket
    from pyrate_limiter.buckets.redis_bucket import LuaScript
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis

    with Redis.from_url(STORE) as client:
        script = client.script_load(LuaScript.PUT_ITEM)
    return RedisBucket(rates, AsyncRedis.from_url(STORE), "bench", script)


def flask() -> Any:
    """The least Flask app."""
    from flask import Flask

    app = Flask("bench")
    app.add_url_rule("/items/<int:number>", "item", lambda number: {"number": number})
    return app


def flask_limiter() -> Any:
    """Flask-Limiter with one default limit and its fields."""
    from flask_limiter import Limiter
    from flask_limiter.util import get_remote_address

    app = flask()
    Limiter(
        get_remote_address,
        app=app,
        default_limits=[f"{MANY}/minute"],
        storage_uri=_uri(),
        headers_enabled=True,
    )
    return app


def _uri() -> str:
    return STORE if STORE.startswith("redis") else "memory://"


def _around_flask(form: str) -> Any:
    app = flask()
    app.wsgi_app = wsgi.RateLimitMiddleware(app.wsgi_app, rules(form))
    return app


ASGI: dict[str, Callable[[], Any]] = {
    "bare": lambda: bare_asgi,
    "floor": lambda: FloorAsgi(bare_asgi, 10**12),
    "ours, plain": lambda: asgi.RateLimitMiddleware(bare_asgi, rules("plain")),
    "ours, burst": lambda: asgi.RateLimitMiddleware(bare_asgi, rules("burst")),
    "FastAPI": fastapi,
    "FastAPI, ours, plain": lambda: asgi.RateLimitMiddleware(fastapi(), rules("plain")),
    "FastAPI, ours, burst": lambda: asgi.RateLimitMiddleware(fastapi(), rules("burst")),
    "FastAPI, slowapi": slowapi,
    "FastAPI, slowapi decorator": lambda: slowapi(decorator=True),
    "FastAPI, fastapi-limiter": fastapi_limiter,
}
WSGI: dict[str, Callable[[], Any]] = {
    "bare": lambda: bare_wsgi,
    "floor": lambda: FloorWsgi(bare_wsgi, 10**12),
    "ours, plain": lambda: wsgi.RateLimitMiddleware(bare_wsgi, rules("plain")),
    "ours, burst": lambda: wsgi.RateLimitMiddleware(bare_wsgi, rules("burst")),
    "Flask": flask,
    "Flask, ours, plain": lambda: _around_flask("plain"),
    "Flask, ours, burst": lambda: _around_flask("burst"),
    "Flask, flask-limiter": flask_limiter,
}


def served_asgi() -> Any:
    """The app that the environment names."""
    return ASGI[os.environ["BENCH_APP"]]()


def served_wsgi() -> Any:
    """The app that the environment names."""
    return WSGI[os.environ["BENCH_APP"]]()
