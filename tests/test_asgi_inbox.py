"""What an app hears through an `Inbox` is what it would hear from the server, at the same moment."""

from __future__ import annotations

import anyio
import pytest
from starlette.requests import Request

from ratelimit_middleware._types import Message, Receive, Scope, Send
from ratelimit_middleware.asgi import RateLimitMiddleware
from ratelimit_middleware.asgi_inbox import Inbox

pytestmark = pytest.mark.anyio

HTTP: Scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": ("192.0.2.1", 1)}
BODY: Message = {"type": "http.request", "body": b"x"}
GONE: Message = {"type": "http.disconnect"}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Server:
    """Gives what is there without a checkpoint, as uvicorn does."""

    def __init__(self, *messages: Message) -> None:
        self.messages = list(messages)
        self.gone = anyio.Event()

    async def receive(self) -> Message:
        if self.messages:
            return self.messages.pop(0)
        if not self.gone.is_set():
            await self.gone.wait()
        return GONE


@pytest.mark.parametrize("rule", [{"bandwidth": "1MB/s"}, {"bandwidth": {"response": "1MB/s"}}], ids=str)
async def test_an_app_that_polls_for_the_disconnect_hears_of_it(rule: dict[str, object]) -> None:
    server, heard = Server(BODY), list[bool]()

    async def polling(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        assert await request.body() == b"x"
        heard.append(await request.is_disconnected())
        server.gone.set()
        heard.append(await request.is_disconnected())

    async def send(_: Message) -> None:
        pass

    await RateLimitMiddleware(polling, {"limits": {"/": rule}})(dict(HTTP), server.receive, send)
    assert heard == [False, True]


async def test_what_was_read_ahead_is_there_even_for_a_scope_that_is_cancelled() -> None:
    server = Server(BODY)
    inbox = Inbox(server.receive, most_kept=100)
    got: list[Message] = []
    async with anyio.create_task_group() as group:
        group.start_soon(inbox.wait_until, anyio.current_time() + 3600)
        await anyio.wait_all_tasks_blocked()
        for _ in range(2):
            with anyio.CancelScope() as scope:
                scope.cancel()
                got.append(await inbox.receive())
        assert got == [BODY]
        server.gone.set()
        await anyio.wait_all_tasks_blocked()
        with anyio.CancelScope() as scope:
            scope.cancel()
            got.append(await inbox.receive())
    assert got == [BODY, GONE]
