"""A plain ASGI app behind limits on what flows, that tells what is left. Served by the tests."""

import json
import time
from typing import Any

from ratelimit_middleware._types import Message, Receive, Scope, Send
from ratelimit_middleware.asgi import RateLimitMiddleware
from ratelimit_middleware.counters import Counters
from tests.servers.queue_app import living_tasks

RULES = {
    "limits": {
        "WS /once": "1/hour",
        "WS /delay": {"messages": "20/second burst 5", "on_excess": "delay"},
        "WS /drop": {"messages": "5/hour", "on_excess": "drop"},
        "WS /close": {"messages": "5/hour"},
        "/state": "unlimited",
    }
}

counters = Counters()
ends: list[tuple[str, int]] = []


async def inner(scope: Scope, receive: Receive, send: Send) -> None:
    """Echo messages with the moment; tell what is left."""
    if scope["type"] == "websocket":
        await echo(scope, receive, send)
        return
    counts = {name: rule._asdict() for name, rule in counters.snapshot().rules.items()}
    state: Any = {"ends": ends, "tasks": living_tasks(), "counts": counts}
    body = json.dumps(state).encode()
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Send back what comes, until the connection ends."""
    code = 0
    try:
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        while not code:
            message: Message = await receive()
            if message["type"] == "websocket.disconnect":
                code = message["code"]
                return
            text = json.dumps([message.get("text") or len(message["bytes"]), time.monotonic()])
            await send({"type": "websocket.send", "text": text})
    finally:
        ends.append((scope["path"], code))  # 0: there was nobody to send to any more


limited = RateLimitMiddleware(inner, RULES, hooks=[counters])


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """The app, started and stopped."""
    if scope["type"] == "lifespan":
        while True:
            message: Message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    await limited(scope, receive, send)
