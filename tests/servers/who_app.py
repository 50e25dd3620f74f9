"""One app under ASGI and under WSGI, behind rules on who gets what. Served by the tests.

Its clock stands still until it is told to go on.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio.to_thread

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware._types import ASGIApp, Environ, Receive, Scope, Send, StartResponse, WSGIApp
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.counters import Counters
from ratelimit_middleware.events import VerdictEvent
from ratelimit_middleware.refusal_log import RefusalLog
from ratelimit_middleware.request import RequestView

BY_HEADER: dict[str, Any] = {
    "tiers": {"by": "header:x-plan", "trusted": True, "free": {"scale": 1}, "pro": {"scale": 3}},
    "limits": {"/header/**": {"limit": "2/hour", "tiers": True}},
}
UNTRUSTED = {
    **BY_HEADER,
    "client": {"trusted_proxies": "10.0.0.0/8", "header": "x-forwarded-for"},
    "limits": {"/untrusted/**": {"limit": "2/hour", "tiers": True}},
}

RULES = {"": Path(__file__).with_name("who.yaml"), "header": BY_HEADER, "untrusted": UNTRUSTED}

QUEUE: dict[str, Any] = {
    "client": {"trusted_proxies": "127.0.0.1", "header": "x-forwarded-for"},
    "limits": {
        "/queue": {
            "limit": "1000/second",
            "behavior": "queue",
            "queue": {"max_wait": "2s", "max_waiting": 1},
            "overrides": {"198.51.100.50": "4/second"},
        }
    },
}

logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
clock = ManualClock()
counters = Counters()
told: list[str] = []
opened = threading.Event()


class Fails:
    """A hook with a bug."""

    def on_verdict(self, event: VerdictEvent) -> None:
        """Notes the event and raises."""
        told.append(f"{event.kind} {event.policy} {event.tier or ''}".strip())
        raise LookupError("a hook with a bug")


SETTINGS: dict[str, Any] = {"clock": clock, "hooks": [Fails(), counters, RefusalLog(per_minute=3)]}


def plan_of(view: RequestView) -> str | None:
    """The plan of an account; `broken` stands for an account that cannot be looked up."""
    account = view.header("x-account")
    if account == "broken":
        raise LookupError("no such account")
    return account


async def plan_of_async(view: RequestView) -> str | None:
    """The same, awaited."""
    return plan_of(view)


def state() -> bytes:
    """What hooks have heard."""
    counts = counters.snapshot()
    rules = {name: [rule.refused, rule.would_refuse] for name, rule in counts.rules.items()}
    return json.dumps({"told": told, "verdicts": dict(counts.verdicts), "rules": rules}).encode()


def answer(path: str, query: str) -> bytes:
    """What the app says without its limits."""
    if path == "/advance":
        clock.advance(float(query))
    if path == "/open":
        opened.set()
    return state() if path == "/state" else b"ok"


async def inner(scope: Scope, _receive: Receive, send: Send) -> None:
    """A page; `/slots` answers once the door is open."""
    if scope["path"] == "/slots":
        await anyio.to_thread.run_sync(opened.wait)
    body = answer(scope["path"], scope["query_string"].decode())
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def inner_there(environ: Environ, start_response: StartResponse) -> list[bytes]:
    """A page; `/slots` answers once the door is open."""
    if environ["PATH_INFO"] == "/slots":
        opened.wait()
    body = answer(environ["PATH_INFO"], environ.get("QUERY_STRING", ""))
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


def middlewares(world: Any, app: Any) -> dict[str, Any]:
    """The app behind rules, by the first part of the path, or behind none."""
    behind = {path: world.RateLimitMiddleware(app, rules, **SETTINGS) for path, rules in RULES.items()}
    return {
        **behind,
        "queue": world.RateLimitMiddleware(app, QUEUE),
        "advance": app,
        "state": app,
        "open": app,
    }


async def lifespan(receive: Receive, send: Send) -> None:
    """Nothing is to be done at either end."""
    kind = ""
    while kind != "lifespan.shutdown":
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})


def asgi_app() -> ASGIApp:
    """The app under ASGI, which awaits the function that tells plans."""
    os.environ["PLAN_OF"] = "plan_of_async"
    made = middlewares(asgi, inner)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
        else:
            await made.get(scope["path"].split("/")[1], made[""])(scope, receive, send)

    return app


def wsgi_app() -> WSGIApp:
    """The app under WSGI."""
    os.environ["PLAN_OF"] = "plan_of"
    made = middlewares(wsgi, inner_there)

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        answered: Iterable[bytes] = made.get(environ["PATH_INFO"].split("/")[1], made[""])(
            environ, start_response
        )
        return answered

    return app
