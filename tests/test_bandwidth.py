"""Bodies at a limited bandwidth under ASGI, in the virtual time of trio: as long as it takes, and exact."""

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
from ratelimit_middleware.counters import Counters, RuleCounts
from ratelimit_middleware.errors import BodyCutError, StoreUnavailableError
from ratelimit_middleware.events import FlowEvent, VerdictEvent
from ratelimit_middleware.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

FAST = {"bandwidth": "1MB/s"}
"""50 kB each 50 ms, 100 kB at once."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Time stands still while anything runs, and jumps when all wait."""
    return "trio", {"clock": MockClock(autojump_threshold=0)}


class VirtualClock:
    """The store lives in the same time as the requests."""

    def now_ns(self) -> int:
        return 10**18 + round(trio.current_time() * 1e9)


def now() -> float:
    return round(trio.current_time(), 6)


class Heard:
    """A hook that keeps what it hears."""

    def __init__(self) -> None:
        self.events: list[FlowEvent] = []

    def on_verdict(self, event: VerdictEvent) -> None:
        pass

    def on_flow(self, event: FlowEvent) -> None:
        self.events.append(event)


@dataclass
class Client:
    """A request: what it uploads, when it leaves, and what it heard when.

    Attributes:
        uploads: the messages of its body.
        leaves_at: when it goes away.
    """

    uploads: list[Message] = field(default_factory=lambda: [{"type": "http.request", "body": b""}])
    leaves_at: float = 1e9
    ip: str = "192.0.2.1"
    path: str = "/"
    method: str = "GET"
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    extensions: dict[str, Any] | None = None
    asked: int = 0
    heard: list[tuple[float, Message]] = field(default_factory=list)

    async def receive(self) -> Message:
        if self.asked < len(self.uploads):
            self.asked += 1
            return self.uploads[self.asked - 1]
        await anyio.sleep_until(self.leaves_at)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.heard.append((now(), message))

    def scope(self) -> Scope:
        scope: Scope = {
            "type": "http",
            "method": self.method,
            "path": self.path,
            "headers": self.headers,
            "client": (self.ip, 1),
        }
        return scope if self.extensions is None else {**scope, "extensions": self.extensions}

    @property
    def pieces(self) -> list[tuple[float, int]]:
        return [(at, len(message["body"])) for at, message in self.heard if message.get("body")]

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for _, message in self.heard)

    @property
    def status(self) -> int:
        (start,) = [message for _, message in self.heard if message["type"] == "http.response.start"]
        return int(start["status"])


def pattern(size: int) -> bytes:
    return bytes(n * 7 % 251 for n in range(size))


def sending(*bodies: bytes, status: int = 200, **more: Any) -> Any:
    """An app that answers with these messages."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        for body in bodies[:-1]:
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": bodies[-1], **more})

    return app


class Reading:
    """An app that reads the whole body and answers with nothing."""

    def __init__(self) -> None:
        self.read: list[tuple[float, Message]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            self.read.append((now(), message))
            if message["type"] == "http.disconnect":
                return
            if not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    @property
    def pieces(self) -> list[tuple[float, int]]:
        return [(at, len(message["body"])) for at, message in self.read if message.get("body")]

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for _, message in self.read)


@dataclass
class Site:
    """An app behind the middleware."""

    store: MemoryStore
    middleware: RateLimitMiddleware
    heard: Heard

    async def serve(self, *clients: Client) -> None:
        async with anyio.create_task_group() as group:
            for client in clients:
                group.start_soon(self.middleware, client.scope(), client.receive, client.send)
                await anyio.wait_all_tasks_blocked()


def site(app: Any, rule: dict[str, Any], store: MemoryStore | None = None, **file: Any) -> Site:
    store, heard = store or MemoryStore(clock=VirtualClock()), Heard()
    rules = {"limits": {"/": rule}, **file}
    return Site(store, RateLimitMiddleware(app, rules, store=store, hooks=[heard]), heard)


def used(store: MemoryStore) -> list[int]:
    """Bytes in use in each bucket that is kept."""
    now_ns = VirtualClock().now_ns()
    return [bucket.algorithm.used(bucket.state, now_ns) for bucket in store._buckets.values()]


async def test_a_large_message_passes_in_pieces_at_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    body, client = pattern(325_000), Client()
    here = site(sending(body), FAST)
    await here.serve(client)
    assert client.body == body
    assert client.pieces == [
        (0, 50_000),
        (0, 50_000),
        (0.05, 50_000),
        (0.1, 50_000),
        (0.15, 50_000),
        (0.2, 50_000),
        (0.225, 25_000),
    ]
    more = [message.get("more_body", False) for _, message in client.heard[1:]]
    assert more == [True] * 6 + [False]
    (event,) = here.heard.events
    assert (event.kind, event.rule, event.policy, event.amount) == ("paced", "/", "root-response", 225_000)


async def test_many_small_messages_pass_at_the_rate_and_are_the_same_objects() -> None:
    bodies = [pattern(10_000)] * 30
    client = Client()
    await site(sending(*bodies), FAST).serve(client)
    assert client.body == b"".join(bodies)
    assert client.pieces[-1] == (0.2, 10_000)
    assert all(message["body"] is bodies[0] for _, message in client.heard[1:])


async def test_requests_of_a_client_share_its_bandwidth_and_others_have_their_own() -> None:
    clients = [Client(ip=ip) for ip in ("192.0.2.1", "192.0.2.1", "192.0.2.2")]
    await site(sending(pattern(200_000)), FAST).serve(*clients)
    ends = [client.pieces[-1][0] for client in clients]
    assert ends == [0.15, 0.3, 0.1], "the first one was ahead by its burst"


async def test_no_span_of_time_passes_more_than_burst_and_rate_together() -> None:
    clients = [Client() for _ in range(5)]
    rule = {"bandwidth": "100kB/s burst 20kB"}
    await site(sending(*[pattern(17_000)] * 4), rule).serve(*clients)
    sent = sorted(piece for client in clients for piece in client.pieces)
    assert sum(size for _, size in sent) == 5 * 4 * 17_000
    for first, (start, _) in enumerate(sent):
        total = 0
        for end, size in sent[first:]:
            total += size
            assert total <= 20_000 + (end - start) * 100_000 + 1


async def test_several_limits_hold_together() -> None:
    client = Client()
    rule = {"bandwidth": {"response": ["1MB/s", "100kB/s burst 100kB per global"]}}
    await site(sending(pattern(200_000)), rule).serve(client)
    assert client.pieces[-1][0] == 1.0


async def test_an_upload_passes_in_pieces_at_the_rate() -> None:
    body, app = pattern(200_000), Reading()
    uploads: list[Message] = [
        {"type": "http.request", "body": body[:130_000], "more_body": True},
        {"type": "http.request", "body": body[130_000:], "more_body": False},
    ]
    here = site(app, {"bandwidth": {"request": "1MB/s"}})
    await here.serve(Client(uploads, method="POST"))
    assert app.body == body
    assert app.pieces[:3] == [(0, 50_000), (0, 50_000), (0.03, 30_000)]
    assert app.pieces[-1] == (0.1, 20_000)
    assert [message["more_body"] for _, message in app.read] == [True] * 4 + [False]
    assert [event.policy for event in here.heard.events] == ["root-request"]


async def test_the_server_is_asked_for_a_piece_when_the_app_is_given_one() -> None:
    app = Reading()
    uploads: list[Message] = [{"type": "http.request", "body": b"x" * 50_000, "more_body": True}] * 100
    client = Client(uploads, method="POST")
    with anyio.move_on_after(0.5):
        await site(app, FAST).serve(client)
    assert len(app.pieces) == 12
    assert client.asked <= 12 + 3, "one that waits, and 64 KiB read ahead"


async def test_a_slow_limit_sends_small_pieces() -> None:
    client = Client()
    await site(sending(pattern(2000)), {"bandwidth": "1kB/s"}).serve(client)
    assert {size for _, size in client.pieces[:-1]} == {256}
    assert client.pieces[-1][0] == 1.488


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 304), ("GET", 204)])
async def test_a_response_without_a_body_is_left_alone(method: str, status: int) -> None:
    client = Client(method=method)
    here = site(sending(pattern(900_000), status=status), FAST)
    await here.serve(client)
    assert client.pieces == [(0, 900_000)]
    assert here.store.stats().keys == 0


async def test_other_messages_pass_untouched() -> None:
    hints: Message = {"type": "http.response.early_hint", "links": []}
    trailers: Message = {"type": "http.response.trailers", "headers": [(b"x", b"y")]}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(hints)
        await sending(pattern(60_000), b"")(scope, receive, send)
        await send(trailers)

    client = Client()
    await site(app, FAST).serve(client)
    assert client.heard[0][1] is hints
    assert client.heard[-1][1] is trailers
    assert client.heard[-2][1]["body"] == b""


async def test_extensions_that_lead_past_the_limit_are_not_offered_and_not_passed_on() -> None:
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["extensions"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.pathsend", "path": "/etc/hosts"})

    extensions: dict[str, Any] = {
        name: {}
        for name in ("http.response.pathsend", "http.response.zerocopysend", "http.response.trailers")
    }
    scope = Client(extensions=extensions).scope()
    client = Client()
    with pytest.raises(RuntimeError, match="does not offer"):
        await site(app, FAST).middleware(scope, client.receive, client.send)
    assert seen == [{"http.response.trailers": {}}]
    assert scope["extensions"] is extensions
    assert [message["type"] for _, message in client.heard] == ["http.response.start"]

    seen.clear()
    await site(app, {"bandwidth": {"request": "1MB/s"}}).middleware(scope, client.receive, client.send)
    assert seen == [extensions]


async def test_a_client_that_leaves_frees_all_at_once_and_its_bytes_are_given_back() -> None:
    ended: list[float] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await sending(pattern(1_000_000))(scope, receive, send)
        ended.append(now())

    here = site(app, {"bandwidth": "10kB/s burst 100kB"})
    before = trio.lowlevel.current_statistics().tasks_living
    await here.serve(Client(leaves_at=12.3))
    assert ended == [12.3]
    assert trio.lowlevel.current_statistics().tasks_living == before
    assert sum(used(here.store)) <= 100_000, "no booking ahead is left"


async def test_an_app_that_listens_for_the_disconnect_itself_hears_it_while_its_bytes_wait() -> None:
    heard: list[tuple[float, str]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as group:

            async def listen() -> None:
                while (message := await receive())["type"] != "http.disconnect":
                    pass
                heard.append((now(), message["type"]))
                group.cancel_scope.cancel()

            group.start_soon(listen)
            await sending(pattern(1_000_000))(scope, receive, send)

    here = site(app, {"bandwidth": "10kB/s"})
    await here.serve(Client(leaves_at=3))
    assert heard == [(3, "http.disconnect")]
    assert sum(used(here.store)) <= 1000


async def test_a_client_that_leaves_during_an_upload_is_heard_at_once() -> None:
    app = Reading()
    uploads: list[Message] = [{"type": "http.request", "body": pattern(20_000), "more_body": True}] * 2
    here = site(app, {"bandwidth": "1kB/s"})
    await here.serve(Client(uploads, leaves_at=2.5, method="POST"))
    assert app.read[-1] == (2.5, {"type": "http.disconnect"})
    assert sum(used(here.store)) <= 512


async def test_what_is_read_ahead_reaches_the_app_in_order() -> None:
    read: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": pattern(300_000), "more_body": True})
        more = True
        while more:
            message = await receive()
            read.append(message["body"])
            more = message.get("more_body", False)
        await send({"type": "http.response.body"})

    parts = [b"a" * 30_000, b"b" * 30_000, b"c" * 30_000, b"d"]
    uploads: list[Message] = [
        {"type": "http.request", "body": part, "more_body": part != b"d"} for part in parts
    ]
    client = Client(uploads, method="POST")
    await site(app, {"bandwidth": {"response": "1MB/s"}}).serve(client)
    assert read == parts


async def test_a_client_that_expects_100_continue_is_not_asked_for_its_body_by_the_pace() -> None:
    client = Client(headers=[(b"expect", b"100-continue")])
    await site(sending(pattern(300_000)), FAST).serve(client)
    assert client.asked == 0
    assert client.body == pattern(300_000)


async def test_a_receive_that_the_app_gives_up_loses_no_byte() -> None:
    read: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        more = True
        while more:
            with anyio.move_on_after(0.02):
                message = await receive()
                read.append(message["body"])
                more = message.get("more_body", False)

    body = pattern(200_000)
    here = site(app, FAST)
    await here.serve(Client([{"type": "http.request", "body": body}], method="POST"))
    assert b"".join(read) == body
    assert now() == 0.1


async def test_a_cancelled_response_gives_back_what_it_has_booked() -> None:
    here = site(sending(pattern(10_000)), {"bandwidth": "100B/s burst 1kB"})
    with anyio.move_on_after(0.5):
        await here.serve(Client())
    assert sum(used(here.store)) <= 1000


@pytest.mark.parametrize(("rule", "file"), [({"mode": "shadow"}, {}), ({}, {"mode": "shadow"})])
async def test_a_shadow_rule_lets_all_pass_and_tells(rule: dict[str, Any], file: dict[str, Any]) -> None:
    client = Client()
    here = site(sending(pattern(250_000)), {**FAST, **rule}, **file)
    await here.serve(client)
    assert client.body == pattern(250_000)
    assert client.pieces[-1][0] == 0
    (event,) = here.heard.events
    assert (event.shadow, event.amount, event.kind) == (True, 150_000, "paced")
    counters = Counters()
    counters.on_flow(event)
    assert counters.snapshot().rules == {"/": RuleCounts(would_limit=1)}


async def test_counters_count_bytes_that_had_to_wait() -> None:
    counters = Counters()
    here = site(sending(pattern(250_000)), FAST)
    await here.serve(Client())
    for event in here.heard.events:
        counters.on_flow(event)
    assert counters.snapshot().rules == {"/": RuleCounts(bytes_paced=150_000)}


class BrokenStore(MemoryStore):
    """Does not answer from one moment to another."""

    def __init__(self, down: float, up: float = 1e9) -> None:
        super().__init__(clock=VirtualClock())
        self.down, self.up = down, up

    def take(self, checks: Any) -> Any:
        if self.down <= trio.current_time() < self.up:
            raise StoreUnavailableError(10**9)
        return super().take(checks)


async def test_while_the_store_does_not_answer_nothing_passes() -> None:
    client = Client()
    here = site(sending(pattern(300_000)), FAST, BrokenStore(0.04, 5))
    await here.serve(client)
    assert client.body == pattern(300_000)
    assert [at for at, _ in client.pieces] == [0, 0, 0.05, 5.05, 5.05, 5.1]


async def test_a_response_that_cannot_be_counted_for_long_is_broken_off() -> None:
    raised: list[BaseException] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(2):
            with pytest.raises(OSError, match="broken off") as error:
                await sending(pattern(300_000))(scope, receive, send)
            raised.append(error.value)

    client = Client()
    here = site(app, FAST, BrokenStore(0.04))
    await here.serve(client)
    assert [type(error) for error in raised] == [BodyCutError, BodyCutError]
    assert now() == pytest.approx(30.05)
    assert sum(size for _, size in client.pieces) == 150_000
    assert client.heard[-1][1]["more_body"] is True, "the response has no end"
    assert [event.kind for event in here.heard.events] == ["cut", "paced"]


async def test_an_app_that_does_not_catch_it_fails_nobody() -> None:
    client = Client()
    await site(sending(pattern(300_000)), FAST, BrokenStore(0.04)).serve(client)
    assert client.status == 200
    assert client.heard[-1][1]["more_body"] is True


async def test_an_upload_that_cannot_be_counted_for_long_is_answered_with_503() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] == "http.request" and message.get("more_body"):
            pass
        if message["type"] == "http.disconnect":
            await sending(b"what a framework says of its error", status=500)(scope, receive, send)
            raise LookupError("the client has gone")

    uploads: list[Message] = [{"type": "http.request", "body": pattern(90_000), "more_body": True}] * 3
    client = Client(uploads, method="POST")
    here = site(app, FAST, BrokenStore(0.04))
    await here.serve(client)
    assert client.status == 503
    assert [event.kind for event in here.heard.events][:1] == ["cut"]


async def test_a_store_that_fails_otherwise_lets_nothing_pass_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Faulty(MemoryStore):
        def take(self, checks: Any) -> Any:
            if trio.current_time() < 3:
                raise LookupError("a mistake")
            return super().take(checks)

    client = Client()
    await site(sending(pattern(1000)), FAST, Faulty(clock=VirtualClock())).serve(client)
    assert client.pieces == [(3, 1000)]
    assert "limits on what flows within requests cannot be checked" in caplog.text


async def test_the_bandwidth_of_default_counts_where_default_does() -> None:
    default = {"limit": "9/second", "bandwidth": "1MB/s"}
    rules: list[tuple[Any, int]] = [({"limit": "9/second"}, 1), (FAST, 4), ("unlimited", 1)]
    for rule, pieces in rules:
        client = Client()
        await site(sending(pattern(200_000)), rule, default=default).serve(client)
        assert len(client.pieces) == pieces


async def test_installed_twice_over_one_store_a_byte_counts_once() -> None:
    store, client = MemoryStore(clock=VirtualClock()), Client()
    rules = {"limits": {"/": FAST}}
    inner = RateLimitMiddleware(sending(pattern(200_000)), rules, store=store)
    await RateLimitMiddleware(inner, rules, store=store)(client.scope(), client.receive, client.send)
    assert client.pieces[-1][0] == 0.1


async def test_an_exempt_client_is_not_held_up() -> None:
    client = Client()
    await site(sending(pattern(900_000)), FAST, exempt={"ips": ["192.0.2.0/24"]}).serve(client)
    assert client.pieces == [(0, 900_000)]


async def test_after_a_storm_of_clients_that_leave_nothing_is_left() -> None:
    app: Callable[..., Any] = sending(pattern(5_000_000))
    here = site(app, {"bandwidth": "100kB/s", "concurrency": "100 per global"})
    before = trio.lowlevel.current_statistics().tasks_living
    await here.serve(*(Client(leaves_at=n / 7) for n in range(40)))
    assert trio.lowlevel.current_statistics().tasks_living == before
    slots, bytes_ = (
        [bucket.state for key, bucket in here.store._buckets.items() if word in key]
        for word in ("in-progress", "response")
    )
    assert not any(slots)
    assert len(bytes_) == 1
    assert sum(used(here.store)) <= 10_000


async def test_a_rule_that_others_use_up_may_limit_bandwidth_too() -> None:
    rule = {"limit": "1/minute per global", "relate": "/other", **FAST}
    here = site(sending(pattern(150_000)), rule, default="9/minute")
    clients = [Client(), Client(path="/other"), Client()]
    for client in clients:
        await here.serve(client)
    assert [client.status for client in clients] == [200, 200, 429]
    assert clients[0].pieces == [(0, 50_000), (0, 50_000), (0.05, 50_000)]
    assert clients[1].pieces == [(0.05, 150_000)]
