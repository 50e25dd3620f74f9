"""`concurrency` in both adapters: a slot is held while its request is served, and comes back once."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware._types import (
    ASGIApp,
    Environ,
    Message,
    Receive,
    Scope,
    Send,
    StartResponse,
    WSGIApp,
)
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.stores.memory import MemoryStore
from tests.awaited import AwaitedStore

pytestmark = pytest.mark.anyio

RULES = {"always": {"concurrency": "1 per ip", "name": "slots"}}
HTTP: Scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": ("192.0.2.1", 1)}
SOCKET: Scope = {"type": "websocket", "path": "/", "headers": [], "client": ("192.0.2.1", 1)}
START: Message = {"type": "http.response.start", "status": 200, "headers": []}
LAST: Message = {"type": "http.response.body", "body": b"done"}


class Broken(BaseException):
    """Not even an Exception."""


async def nothing() -> Message:
    return {"type": "websocket.connect"}


@pytest.fixture(params=["threads", "awaited"])
def store(request: pytest.FixtureRequest, clock: ManualClock) -> Any:
    inner = MemoryStore(clock=clock)
    return inner if request.param == "threads" else AwaitedStore(inner)


async def status_of(app: ASGIApp, scope: Scope = HTTP) -> int:
    """One request; 101 for an accepted handshake, 403 for one that is not."""
    seen: list[int] = []

    async def send(message: Message) -> None:
        kinds = {
            "websocket.accept": 101,
            "websocket.close": 403,
            "http.response.start": message.get("status"),
        }
        seen.append(kinds.get(message["type"]) or 0)

    await app(dict(scope), nothing, send)
    return seen[0]


class Gate:
    """An ASGI app whose first request answers when it is told to."""

    def __init__(self, *messages: Message, error: BaseException | None = None) -> None:
        self.messages = messages
        self.error = error
        self.entered, self.opened = anyio.Event(), anyio.Event()
        self.afterwards = anyio.Event()

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        if self.entered.is_set():
            await send(START)
            await send(LAST)
            return
        self.entered.set()
        await self.opened.wait()
        for message in self.messages:
            await send(message)
        if self.error:
            raise self.error
        await self.afterwards.wait()


async def test_a_second_request_is_refused_while_the_first_is_served(store: Any) -> None:
    gate = Gate(START, LAST)
    app = asgi.RateLimitMiddleware(gate, RULES, store=store)
    async with anyio.create_task_group() as group:
        group.start_soon(status_of, app)
        await gate.entered.wait()
        assert await status_of(app) == 429
        gate.opened.set()
        gate.afterwards.set()
    assert await status_of(app) == 200


async def test_the_slot_is_free_once_the_last_piece_is_sent_though_the_app_goes_on(store: Any) -> None:
    """A background task does not hold it."""
    gate = Gate(START, {**LAST, "more_body": True}, LAST)
    app = asgi.RateLimitMiddleware(gate, RULES, store=store)
    async with anyio.create_task_group() as group:
        group.start_soon(status_of, app)
        await gate.entered.wait()
        gate.opened.set()
        await anyio.wait_all_tasks_blocked()
        assert await status_of(app) == 200
        gate.afterwards.set()


@pytest.mark.parametrize("messages", [(), (START,), (START, LAST)], ids=["before", "within", "after"])
@pytest.mark.parametrize("error", [ValueError("app"), Broken("app")], ids=["exception", "base"])
async def test_an_app_that_raises_leaves_no_slot_behind(
    store: Any, messages: tuple[Message, ...], error: BaseException
) -> None:
    gate = Gate(*messages, error=error)
    gate.opened.set()
    app = asgi.RateLimitMiddleware(gate, RULES, store=store)
    with pytest.raises(type(error)):
        await app(dict(HTTP), nothing, lambda _: anyio.lowlevel.checkpoint())
    assert await status_of(app) == 200


async def test_headers_that_can_be_read_once_reach_the_client(store: Any) -> None:
    """ASGI has them as any iterable."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({**START, "headers": iter([(b"x-shop", b"1")])})
        await send(LAST)

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await asgi.RateLimitMiddleware(app, RULES, store=store)(dict(HTTP), nothing, send)
    assert (b"x-shop", b"1") in list(sent[0]["headers"])


async def test_a_cancelled_request_leaves_no_slot_behind(store: Any) -> None:
    gate = Gate(START, LAST)
    app = asgi.RateLimitMiddleware(gate, RULES, store=store)
    async with anyio.create_task_group() as group:
        group.start_soon(status_of, app)
        await gate.entered.wait()
        group.cancel_scope.cancel()
    assert await status_of(app) == 200


async def test_a_websocket_holds_its_slot_until_it_is_closed(store: Any) -> None:
    gate = Gate({"type": "websocket.accept"})
    app = asgi.RateLimitMiddleware(gate, RULES, store=store)
    async with anyio.create_task_group() as group:
        group.start_soon(status_of, app, SOCKET)
        await gate.entered.wait()
        gate.opened.set()
        await anyio.wait_all_tasks_blocked()
        assert await status_of(app, SOCKET) == 403
        gate.afterwards.set()
    assert await status_of(app) == 200


async def test_a_store_that_fails_afterwards_is_told_once_and_the_answer_stands(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Forgetful(MemoryStore):
        def give_back(self, *_: Any) -> None:
            raise OSError("away")

    gate = Gate(START, LAST)
    gate.entered.set()
    app = asgi.RateLimitMiddleware(gate, RULES, store=Forgetful(clock=clock))
    assert await status_of(app) == 200
    assert "could not be given back" in caplog.text
    assert await status_of(app) == 429
    clock.advance(30)
    assert await status_of(app) == 200, "the lease has ended"


async def test_a_concurrency_rule_leaves_the_default_in_force(clock: ManualClock) -> None:
    rules = {"limits": {"/": {"concurrency": 5}}, "default": "1/minute"}
    gate = Gate()
    gate.entered.set()
    app = asgi.RateLimitMiddleware(gate, rules, clock=clock)
    assert [await status_of(app) for _ in range(2)] == [200, 429]


async def test_a_shadow_slot_refuses_nobody_and_comes_back_too(clock: ManualClock) -> None:
    store = MemoryStore(clock=clock)
    rules = {"always": [{"concurrency": 1, "mode": "shadow"}, "1/minute"]}
    gate = Gate()
    gate.entered.set()
    app = asgi.RateLimitMiddleware(gate, rules, store=store)
    assert [await status_of(app) for _ in range(2)] == [200, 429]
    slots = next(key for key in store._buckets if key.startswith("always-1"))
    assert store._buckets[slots].state == ()


async def test_the_fields_say_how_many_may_be_in_progress(clock: ManualClock) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    gate = Gate()
    gate.entered.set()
    await asgi.RateLimitMiddleware(gate, RULES, clock=clock)(dict(HTTP), nothing, send)
    fields = dict(sent[0]["headers"])
    assert fields[b"ratelimit-policy"] == b'"slots";q=1;qu="concurrent-requests"'
    assert fields[b"ratelimit"] == b'"slots";r=0;t=1'


def environ() -> Environ:
    return {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "REMOTE_ADDR": "192.0.2.1"}


def ask(app: WSGIApp) -> tuple[int, Iterable[bytes]]:
    """One request, its body not read yet."""
    seen: list[int] = []

    def start_response(status: str, _headers: Any, _exc_info: Any = None) -> Callable[[bytes], object]:
        seen.append(int(status[:3]))
        return lambda _: None

    body = app(environ(), start_response)
    return (seen or [0])[0], body


def finish(body: Iterable[bytes]) -> bytes:
    """Read a body as a server does."""
    try:
        return b"".join(body)
    finally:
        getattr(body, "close", lambda: None)()


def streaming(_environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
    start_response("200 OK", [])
    yield b"a"
    yield b"b"


def listed(_environ: Environ, start_response: StartResponse) -> list[bytes]:
    start_response("200 OK", [])
    return [b"ab"]


@pytest.mark.parametrize("inner", [streaming, listed])
def test_under_wsgi_the_slot_is_held_until_the_body_has_been_read(inner: WSGIApp, clock: ManualClock) -> None:
    app = wsgi.RateLimitMiddleware(inner, RULES, clock=clock)
    _, body = ask(app)
    assert ask(app)[0] == 429
    assert finish(body) == b"ab"
    status, body = ask(app)
    assert finish(body) == b"ab"
    assert status in (0, 200)


def test_a_body_of_one_piece_still_has_its_length(clock: ManualClock) -> None:
    """Some servers make the Content-Length of it."""
    _, body = ask(wsgi.RateLimitMiddleware(listed, RULES, clock=clock))
    assert len(body) == 1  # type: ignore[arg-type]  # that is the claim


def test_a_body_that_is_closed_unread_gives_the_slot_back_and_is_closed_itself(clock: ManualClock) -> None:
    closed: list[bool] = []

    class Body:
        def __iter__(self) -> Iterator[bytes]:
            yield b"a"

        def close(self) -> None:
            closed.append(True)

    def inner(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        return Body()

    app = wsgi.RateLimitMiddleware(inner, RULES, clock=clock)
    body = ask(app)[1]
    body.close()  # type: ignore[attr-defined]  # as PEP 3333 has it
    assert closed == [True]
    assert ask(app)[0] == 200


@pytest.mark.parametrize("error", [ValueError("app"), Broken("app")], ids=["exception", "base"])
def test_a_wsgi_app_that_raises_leaves_no_slot_behind(error: BaseException, clock: ManualClock) -> None:
    failing = [True]

    def inner(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        if failing.pop():
            raise error
        return [b""]

    def breaks_off(_environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"a"
        if failing.pop():
            raise error

    for app in (wsgi.RateLimitMiddleware(each, RULES, clock=clock) for each in (inner, breaks_off)):
        failing[:] = [False, True]
        with pytest.raises(type(error)):
            b"".join(ask(app)[1])
        assert ask(app)[0] in (0, 200)


def test_a_response_that_the_server_loses_comes_back_with_its_lease(clock: ManualClock) -> None:
    app = wsgi.RateLimitMiddleware(listed, RULES, clock=clock)
    ask(app)
    gc.collect()
    assert not app._registry.settler.keeper.renew_all()
    assert ask(app)[0] == 429
    clock.advance(30)
    assert ask(app)[0] == 200


def test_a_long_response_keeps_its_slot_by_renewals(clock: ManualClock) -> None:
    app = wsgi.RateLimitMiddleware(streaming, RULES, clock=clock)
    body = ask(app)[1]
    for _ in range(10):
        clock.advance(10)
        assert app._registry.settler.keeper.renew_all()
    assert ask(app)[0] == 429
    finish(body)
    assert ask(app)[0] in (0, 200)


async def test_a_long_response_keeps_its_slot_in_a_store_that_is_awaited(clock: ManualClock) -> None:
    gate = Gate(START, LAST)
    app = asgi.RateLimitMiddleware(gate, RULES, store=AwaitedStore(MemoryStore(clock=clock)))
    async with anyio.create_task_group() as group:
        group.start_soon(status_of, app)
        await gate.entered.wait()
        for _ in range(4):
            clock.advance(10)
            await anyio.to_thread.run_sync(app._registry.settler.keeper.renew_all)
        assert await status_of(app) == 429
        gate.opened.set()
        gate.afterwards.set()
