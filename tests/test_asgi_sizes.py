"""Bytes are counted however an app sends them, so that what it sends from a file is not free."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from ratelimit_middleware._types import Message, Receive, Scope, Send
from ratelimit_middleware.asgi import RateLimitMiddleware
from ratelimit_middleware.asgi_sizes import body_size
from ratelimit_middleware.response import Response

BODY: Message = {"type": "http.response.body", "body": b"abc"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 500)
    return file


def sized(length: str | None = None) -> Response:
    return Response(200, [] if length is None else [("Content-Length", length)])


def test_a_body_counts_what_it_holds() -> None:
    assert [body_size(message, sized("9")) for message in (BODY, {"type": "http.response.body"})] == [3, 0]


@pytest.mark.parametrize(("told", "size"), [("300", 300), (None, 500), ("x", 500)])
def test_a_path_counts_what_the_response_says_else_its_size(path: Path, told: str | None, size: int) -> None:
    message = {"type": "http.response.pathsend", "path": str(path)}
    assert body_size(message, sized(told)) == size


def test_a_file_counts_what_is_to_be_sent_of_it(path: Path) -> None:
    kind = "http.response.zerocopysend"
    with path.open("rb") as file:
        assert body_size({"type": kind, "file": file, "count": 20}, sized("90")) == 20
        assert body_size({"type": kind, "file": file, "offset": 100}, sized()) == 400
        assert body_size({"type": kind, "file": file}, sized()) == 500


def test_what_is_not_there_counts_nothing(path: Path) -> None:
    assert body_size({"type": "http.response.pathsend", "path": f"{path}-gone"}, sized()) == 0


def test_a_file_that_the_server_sends_costs_its_bytes(path: Path) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"500")]})
        await send({"type": "http.response.pathsend", "path": str(path)})

    cost = {"reserve": 1, "actual": "bytes"}
    limited = RateLimitMiddleware(app, {"limits": {"/": {"limit": "1000/minute", "cost": cost}}})
    statuses: list[int] = []

    async def nothing() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    async def three() -> None:
        for _ in range(3):
            scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": []}
            await limited(scope, nothing, send)

    anyio.run(three)
    assert statuses == [200, 200, 429]
