"""A plain ASGI app behind a queue and slots, that tells what is left. Served by the tests."""

import json
import threading
import time
from typing import Any

import anyio

from ratelimit_middleware._types import Message, Receive, Scope, Send
from ratelimit_middleware.asgi import RateLimitMiddleware

RULES = {
    "limits": {
        "/render": {"limit": "10/second per global", "behavior": "queue", "queue": {"max_wait": "2s"}},
        "/slow": {"limit": "100000/second", "concurrency": "3 per global"},
        "/state": "unlimited",
    }
}

arrivals: list[tuple[str, float]] = []
starts: list[tuple[str, float]] = []


def living_tasks() -> int:
    """Tasks of the event loop, whichever it is."""
    try:
        import trio

        return trio.lowlevel.current_statistics().tasks_living
    except RuntimeError:
        import asyncio

        return len(asyncio.all_tasks())


def state() -> dict[str, Any]:
    """What has happened and what is left."""
    store: Any = limited._registry._store
    slots = [bucket.state for key, bucket in store._buckets.items() if "in-progress" in key]
    return {
        "arrivals": arrivals,
        "starts": starts,
        "waiting": len(limited._queue or ()),
        "tasks": living_tasks(),
        "threads": threading.active_count(),
        "slots": sum(len(state) // 3 for state in slots),
        "stays": len(limited._registry.settler.keeper._stays),
    }


async def inner(scope: Scope, receive: Receive, send: Send) -> None:
    """Note the request; `/slow` answers when its client is gone or after a second."""
    starts.append((scope["query_string"].decode(), time.monotonic()))
    if scope["path"] == "/slow":
        with anyio.move_on_after(1):
            while (await receive())["type"] != "http.disconnect":
                pass
    body = json.dumps(state() if scope["path"] == "/state" else "ok").encode()
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


limited = RateLimitMiddleware(inner, RULES)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Note who comes first."""
    if scope["type"] == "lifespan":
        while True:
            message: Message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    arrivals.append((scope["query_string"].decode(), time.monotonic()))
    await limited(scope, receive, send)
