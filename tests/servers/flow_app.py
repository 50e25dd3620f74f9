"""A plain ASGI app behind limits on what flows, that tells what is left. Served by the tests."""

import hashlib
import json
import tempfile
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import FileResponse, StreamingResponse

from ratelimit_middleware._types import Message, Receive, Scope, Send
from ratelimit_middleware.asgi import RateLimitMiddleware
from ratelimit_middleware.clock import SystemClock
from ratelimit_middleware.counters import Counters
from tests.servers.queue_app import living_tasks

RULES = {
    "limits": {
        "WS /once": "1/hour",
        "WS /delay": {"messages": "20/second burst 5", "on_excess": "delay"},
        "WS /drop": {"messages": "5/hour", "on_excess": "drop"},
        "WS /close": {"messages": "5/hour"},
        "/state": "unlimited",
        "/paced/**": {"bandwidth": "1MB/s per global"},
        "/slow/**": {"bandwidth": "20kB/s per global"},
    }
}

counters = Counters()
ends: list[tuple[str, int]] = []


async def inner(scope: Scope, receive: Receive, send: Send) -> None:
    """Echo messages with the moment; tell what is left."""
    if scope["type"] == "websocket":
        await echo(scope, receive, send)
        return
    kind = scope["path"].rpartition("/")[2]
    if kind in BODIES:
        bodies.append(kind)
        try:
            await BODIES[kind](scope, receive, send)
        finally:
            bodies.remove(kind)
        return
    counts = {name: rule._asdict() for name, rule in counters.snapshot().rules.items()}
    state: Any = {
        "ends": ends,
        "bodies": bodies,
        "bytes": booked(),
        "tasks": living_tasks(),
        "counts": counts,
    }
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


async def one(scope: Scope, receive: Receive, send: Send) -> None:
    """A body in one message."""
    headers = [(b"content-length", b"%d" % len(BODY))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


async def upload(scope: Scope, receive: Receive, send: Send) -> None:
    """The digest of what was uploaded."""
    digest, more = hashlib.sha256(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        digest.update(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": digest.hexdigest().encode()})


async def stream(scope: Scope, receive: Receive, send: Send) -> None:
    """The same in many, by Starlette, which listens for the client to leave."""

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(BODY), 7777):
            yield BODY[start : start + 7777]

    await StreamingResponse(parts())(scope, receive, send)


async def file(scope: Scope, receive: Receive, send: Send) -> None:
    """The same from a file, which servers may send by themselves."""
    await FileResponse(FILE)(scope, receive, send)


def booked() -> int:
    """Bytes that are booked ahead, in all buckets."""
    buckets: Any = limited._registry._store._buckets  # type: ignore[union-attr]  # a memory store
    now_ns = SystemClock().now_ns()
    kept = [bucket for key, bucket in buckets.items() if "response" in key or "request" in key]
    return sum(max(0, one.algorithm.used(one.state, now_ns) - one.algorithm.burst) for one in kept)


BODY = bytes(n * n % 251 for n in range(600_000))
BODIES = {"one": one, "stream": stream, "file": file, "upload": upload}
bodies: list[str] = []
_file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - as long as the process
_file.write(BODY)
_file.flush()
FILE = _file.name

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
