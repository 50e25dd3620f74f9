"""Uploads reach the app whole where what stands before us loses messages that nobody waits for."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.responses import Response
from starlette.routing import Route

from ratelimit_middleware._types import Message
from ratelimit_middleware.asgi import RateLimitMiddleware
from ratelimit_middleware.asgi_watching import may_watch

if TYPE_CHECKING:
    from starlette.requests import Request

pytestmark = pytest.mark.anyio

QUEUE = {"limits": {"/": {"limit": "1000/second per global", "behavior": "queue", "queue": "30s"}}}
PACED = {"limits": {"/": {"bandwidth": "1MB/s burst 1kB per global"}}}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Passing(BaseHTTPMiddleware):
    """Does nothing, in Starlette's way."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        return await call_next(request)


async def echo(request: Request) -> Response:
    return Response(await request.body())


def behind(*rules: dict[str, Any]) -> Starlette:
    limits = [Middleware(RateLimitMiddleware, rules=one) for one in rules]
    return Starlette(routes=[Route("/", echo, methods=["POST"])], middleware=[Middleware(Passing), *limits])


async def upload(app: Starlette, seed: int) -> bool:
    """Whether the app had all of a body that came bit by bit."""
    luck = random.Random(seed)  # noqa: S311 - the same moments each time
    pieces = [bytes([luck.randrange(256)]) * luck.randint(1, 900) for _ in range(20)]
    waiting, answer = list(pieces), list[bytes]()
    answered = anyio.Event()

    async def receive() -> Message:
        if not waiting:
            await answered.wait()
            return {"type": "http.disconnect"}
        for _ in range(luck.randrange(4)):
            await anyio.lowlevel.checkpoint()
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def send(message: Message) -> None:
        answer.append(message.get("body", b""))
        if message["type"] == "http.response.body" and not message.get("more_body"):
            answered.set()

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
    await app({**scope, "client": ("192.0.2.1", 1)}, receive, send)
    return b"".join(answer) == b"".join(pieces)


@pytest.mark.parametrize("rules", [(QUEUE,), (PACED,), (PACED, QUEUE), (QUEUE, PACED)], ids=str)
async def test_an_upload_through_base_http_middleware_arrives_whole(
    rules: tuple[dict[str, Any], ...],
) -> None:
    app, whole = behind(*rules), list[bool]()

    async def one(seed: int) -> None:
        whole.append(await upload(app, seed))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for seed in range(40):
                group.start_soon(one, seed)
    assert whole == [True] * 40


async def test_instances_further_in_know_it_though_they_are_given_another_receive() -> None:
    async def base() -> Message:
        return {"type": "http.disconnect"}

    async def other() -> Message:
        return await base()

    base.__module__ = "starlette.middleware.base"
    scope: dict[str, Any] = {"type": "http", "headers": []}
    assert may_watch(scope, other)
    assert not may_watch(scope, base)
    assert not may_watch(scope, other)
    assert not may_watch({"type": "http", "headers": [(b"expect", b"100-continue")]}, other)
