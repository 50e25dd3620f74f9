"""A plain ASGI app that keeps its event loop busy, behind rules that shed. Served by the tests."""

import json
import time
from typing import Any

from ratelimit_middleware._types import Receive, Scope, Send
from ratelimit_middleware.asgi import RateLimitMiddleware
from tests.servers.queue_app import living_tasks

RULES = {
    "limits": {
        "/busy": {"adaptive": {"max_in_flight": "bbr", "loop_lag": "30ms"}, "name": "overload"},
        "/state": "unlimited",
    }
}


async def inner(scope: Scope, receive: Receive, send: Send) -> None:
    """`/busy` blocks the loop, as code does that computes or calls what it should await."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    found: dict[str, Any] = {}
    if scope["path"] == "/busy":
        time.sleep(0.08)  # noqa: ASYNC251 - this is what the test is about
    else:
        (meter,) = app._registry.store._meters.values()  # type: ignore[union-attr]
        found = {"in_progress": meter.in_flight, "tasks": living_tasks()}
    body = json.dumps(found).encode()
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


app = RateLimitMiddleware(inner, RULES)
