"""Waiting under ASGI, in the virtual time of trio: as long as it takes, and exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
import trio
from trio.testing import MockClock

from ratelimit_middleware._types import Message, Receive, Scope, Send
from ratelimit_middleware.asgi import RateLimitMiddleware
from ratelimit_middleware.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

TEN_A_SECOND = {
    "limits": {"/": {"limit": "10/second per global", "behavior": "queue", "queue": {"max_wait": "2s"}}}
}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Time stands still while anything runs, and jumps when all wait."""
    return "trio", {"clock": MockClock(autojump_threshold=0)}


class VirtualClock:
    """The store lives in the same time as the requests."""

    def now_ns(self) -> int:
        return 10**18 + round(trio.current_time() * 1e9)


@dataclass
class Client:
    """One request: what it sends, and when it heard what."""

    gone_after: float | None = None
    body: list[Message] = field(default_factory=lambda: [{"type": "http.request", "body": b""}])
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    status: int = 0
    at: float = -1.0
    read: int = 0

    async def receive(self) -> Message:
        if self.read < len(self.body):
            self.read += 1
            return self.body[self.read - 1]
        if self.gone_after is None:
            await anyio.sleep_forever()
        await anyio.sleep_until(self.gone_after or 0)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.at = message["status"], round(trio.current_time(), 6)

    def scope(self) -> Scope:
        return {
            "type": "http",
            "method": "POST",
            "path": "/",
            "headers": self.headers,
            "client": ("192.0.2.1", 1),
        }


class App:
    """An app that reads the whole body and answers at once."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            assert message["type"] == "http.request"
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})


@dataclass
class Site:
    """An app behind the middleware, with its store at hand."""

    app: App
    store: MemoryStore
    middleware: RateLimitMiddleware

    async def serve(self, *clients: Client) -> None:
        """All requests at once; back when each has its answer or is gone."""
        async with anyio.create_task_group() as group:
            for client in clients:
                group.start_soon(self.middleware, client.scope(), client.receive, client.send)
                await anyio.wait_all_tasks_blocked()

    def waiting(self) -> int:
        assert self.middleware._queue is not None
        return len(self.middleware._queue)


@pytest.fixture
def site() -> Callable[..., Site]:
    def build(rules: dict[str, Any] = TEN_A_SECOND) -> Site:
        app, store = App(), MemoryStore(clock=VirtualClock())
        return Site(app, store, RateLimitMiddleware(app, rules, store=store))

    return build


async def test_requests_leave_evenly_spaced_in_order_and_those_beyond_are_refused_at_once(
    site: Callable[..., Site],
) -> None:
    clients = [Client() for _ in range(200)]
    await site().serve(*clients)

    assert [client.status for client in clients] == [200] * 21 + [429] * 179
    assert [client.at for client in clients[:21]] == [round(n / 10, 6) for n in range(21)]
    assert {client.at for client in clients[21:]} == {0}


async def test_when_half_hang_up_the_others_move_up_and_nothing_is_left(site: Callable[..., Site]) -> None:
    """The first goes at once; of the 20 that wait every second one leaves after 0.05 s."""
    here = site()
    clients = [Client(gone_after=0.05 if n % 2 else None) for n in range(21)]
    await here.serve(*clients)

    served = [client for client in clients if client.status]
    assert [client.at for client in served] == [round(n / 10, 6) for n in range(11)]
    assert [client.status for client in clients[1::2]] == [0] * 10
    assert len(here.app.bodies) == 11
    assert here.waiting() == 0
    late = Client()
    await here.serve(late)
    assert late.at == 1.1, "the places of those who left are free again"


async def test_who_comes_after_others_left_takes_the_place_behind_the_last(site: Callable[..., Site]) -> None:
    here = site()
    clients = [Client(gone_after=0.01 if n > 5 else None) for n in range(21)]
    async with anyio.create_task_group() as group:
        group.start_soon(here.serve, *clients)
        await anyio.sleep(0.02)
        assert here.waiting() == 5
        late = Client()
        await here.serve(late)
        assert late.at == 0.6


async def test_a_cancelled_task_leaves_the_queue(site: Callable[..., Site]) -> None:
    here = site()
    first, second, third = Client(), Client(), Client()
    with anyio.CancelScope() as leaving:
        await here.serve(first)
        async with anyio.create_task_group() as group:
            group.start_soon(here.serve, second)
            await anyio.wait_all_tasks_blocked()
            assert here.waiting() == 1
            leaving.cancel()
    assert here.waiting() == 0
    await here.serve(third)
    assert (second.status, third.at) == (0, 0.1)


async def test_the_body_that_came_meanwhile_is_handed_to_the_app(site: Callable[..., Site]) -> None:
    here = site()
    pieces: list[Message] = [
        {"type": "http.request", "body": b"a" * 1000, "more_body": True},
        {"type": "http.request", "body": b"b" * 1000, "more_body": True},
        {"type": "http.request", "body": b"c"},
    ]
    await here.serve(Client(), Client(body=pieces))
    assert here.app.bodies == [b"", b"a" * 1000 + b"b" * 1000 + b"c"]


async def test_at_most_a_little_over_64_kib_is_kept_while_waiting(site: Callable[..., Site]) -> None:
    here = site()
    pieces: list[Message] = [
        *({"type": "http.request", "body": bytes(16 * 1024), "more_body": True} for _ in range(20)),
        {"type": "http.request", "body": b"end"},
    ]
    upload = Client(body=pieces)
    async with anyio.create_task_group() as group:
        group.start_soon(here.serve, Client(), upload)
        await anyio.sleep(0.05)
        assert upload.read == 5
    assert here.app.bodies[1] == bytes(20 * 16 * 1024) + b"end"


async def test_a_body_that_the_client_has_not_sent_yet_is_not_asked_for(site: Callable[..., Site]) -> None:
    here = site()
    upload = Client(body=[{"type": "http.request", "body": b"x"}], headers=[(b"expect", b"100-continue")])
    async with anyio.create_task_group() as group:
        group.start_soon(here.serve, Client(), upload)
        await anyio.sleep(0.05)
        assert upload.read == 0
    assert here.app.bodies == [b"", b"x"]


async def test_a_burst_goes_at_once_and_the_rest_is_spaced(site: Callable[..., Site]) -> None:
    rule = {"limit": "10/second burst 3 per global", "behavior": "queue", "queue": "1s"}
    clients = [Client() for _ in range(5)]
    await site({"limits": {"/": rule}}).serve(*clients)
    assert [client.at for client in clients] == [0, 0, 0, 0.1, 0.2]


async def test_no_more_wait_than_there_are_places(site: Callable[..., Site]) -> None:
    rule = {
        "limit": "10/second per global",
        "behavior": "queue",
        "queue": {"max_wait": "30s", "max_waiting": 4},
    }
    clients = [Client() for _ in range(9)]
    await site({"limits": {"/": rule}}).serve(*clients)
    assert [client.status for client in clients] == [200] * 5 + [429] * 4


async def test_a_window_in_a_queue_books_the_moment_at_which_it_has_room(site: Callable[..., Site]) -> None:
    limit = {"count": 2, "per": "s", "algorithm": "sliding_window", "behavior": "queue", "queue": "3s"}
    rule = {"limit": limit, "key": "global"}
    clients = [Client() for _ in range(7)]
    await site({"limits": {"/": rule}}).serve(*clients)
    assert [client.at for client in clients] == [0, 0, 1, 1, 2, 2, 3]


async def test_a_cold_queue_is_slower(site: Callable[..., Site]) -> None:
    rule = {
        "limit": "10/second per global",
        "behavior": "warm_up_queue",
        "warm_up": "10s",
        "queue": "500ms",
    }
    clients = [Client() for _ in range(4)]
    await site({"limits": {"/": rule}}).serve(*clients)
    assert [client.at for client in clients] == [0, 0.3, 0, 0]
    assert [client.status for client in clients] == [200, 200, 429, 429]


async def test_a_delayed_request_holds_its_slot_while_it_waits(site: Callable[..., Site]) -> None:
    rule = {
        "limit": "10/second per global",
        "behavior": "queue",
        "queue": "2s",
        "concurrency": "3 per global",
    }
    here = site({"limits": {"/": rule}})
    clients = [Client(gone_after=0.02 if n == 2 else None) for n in range(5)]
    async with anyio.create_task_group() as group:
        group.start_soon(here.serve, *clients)
        await anyio.sleep(0.05)
        late = Client()
        await here.serve(late)
    # The first has ended at once; the next three wait with a slot each; the one that left gave its back.
    assert [client.status for client in clients] == [200, 200, 0, 200, 429]
    assert late.status == 200
