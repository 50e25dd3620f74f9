"""Messages of WebSockets, in the virtual time of trio: as long as it takes, and exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
from trio.testing import MockClock

from ratelimit_middleware._types import Message, Receive, Scope, Send
from ratelimit_middleware.asgi import RateLimitMiddleware
from ratelimit_middleware.counters import Counters, RuleCounts
from ratelimit_middleware.errors import StoreUnavailableError
from ratelimit_middleware.events import FlowEvent, VerdictEvent
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore
from tests.awaited import AwaitedStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Time stands still while anything runs, and jumps when all wait."""
    return "trio", {"clock": MockClock(autojump_threshold=0)}


def tenant_of(view: RequestView) -> str:
    """A key; tests put others in its place."""
    return view.path


class VirtualClock:
    """The limits live in the same time as the connections."""

    def now_ns(self) -> int:
        return 10**18 + round(trio.current_time() * 1e9)


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
    """A connection: what it sends and when, and what it heard.

    Attributes:
        sends: moments and texts, in order.
        leaves_at: when it goes away.
    """

    sends: list[tuple[float, str]]
    leaves_at: float = 1e9
    ip: str = "192.0.2.1"
    path: str = "/live"
    read: int = 0
    heard: list[Message] = field(default_factory=list)

    async def receive(self) -> Message:
        """As a server does: what was sent before the client left comes first."""
        self.read += 1
        if self.read == 1:
            return {"type": "websocket.connect"}
        if self.sends and self.sends[0][0] <= self.leaves_at:
            await anyio.sleep_until(self.sends[0][0])
            return {"type": "websocket.receive", "text": self.sends.pop(0)[1]}
        await anyio.sleep_until(self.leaves_at)
        return {"type": "websocket.disconnect", "code": 1001}

    async def send(self, message: Message) -> None:
        self.heard.append(message)

    def scope(self) -> Scope:
        return {"type": "websocket", "path": self.path, "headers": [], "client": (self.ip, 1)}


class App:
    """Notes what it receives and when, until the connection ends."""

    def __init__(self) -> None:
        self.received: list[tuple[float, str]] = []
        self.ends: list[tuple[float, int]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                self.ends.append((now(), message["code"]))
                return
            self.received.append((now(), message["text"]))
            await send({"type": "websocket.send", "text": message["text"]})


def now() -> float:
    return round(trio.current_time(), 6)


def at_once(count: int, at: float = 0) -> list[tuple[float, str]]:
    return [(at, str(n)) for n in range(count)]


@dataclass
class Site:
    """An app behind the middleware."""

    app: App
    store: MemoryStore
    middleware: RateLimitMiddleware
    heard: Heard

    async def serve(self, *clients: Client) -> None:
        async with anyio.create_task_group() as group:
            for client in clients:
                group.start_soon(self.middleware, client.scope(), client.receive, client.send)
                await anyio.wait_all_tasks_blocked()


@pytest.fixture
def site() -> Callable[..., Site]:
    def build(rule: dict[str, Any], store: MemoryStore | None = None, **file: Any) -> Site:
        app, store, heard = App(), store or MemoryStore(clock=VirtualClock()), Heard()
        rules = {"limits": {"WS /live": rule}, **file}
        middleware = RateLimitMiddleware(app, rules, store=store, clock=VirtualClock(), hooks=[heard])
        return Site(app, store, middleware, heard)

    return build


async def test_messages_over_the_limit_wait_for_their_moment(site: Callable[..., Site]) -> None:
    here = site({"messages": "10/second burst 2", "on_excess": "delay"})
    await here.serve(Client(at_once(5), leaves_at=2))
    assert here.app.received == [(0, "0"), (0, "1"), (0.1, "2"), (0.2, "3"), (0.3, "4")]
    assert here.app.ends == [(2, 1001)]
    assert [(event.kind, event.wait_ns) for event in here.heard.events] == [("delayed", 10**8)] * 3
    assert here.heard.events[0].rule == "WS /live"
    assert here.heard.events[0].policy == "ws-live-messages"


async def test_messages_over_the_limit_are_dropped(site: Callable[..., Site]) -> None:
    here = site({"messages": "2/second", "on_excess": "drop"})
    await here.serve(Client([*at_once(4), (1.5, "later")], leaves_at=2))
    assert here.app.received == [(0, "0"), (0, "1"), (1.5, "later")]
    assert here.app.ends == [(2, 1001)]
    assert [event.kind for event in here.heard.events] == ["dropped"] * 2


async def test_a_message_over_the_limit_closes_the_connection_unless_the_rule_says_otherwise(
    site: Callable[..., Site],
) -> None:
    here = site({"messages": "2/second"})
    client = Client(at_once(4))
    await here.serve(client)
    assert here.app.received == [(0, "0"), (0, "1")]
    assert here.app.ends == [(0, 1013)]
    assert client.heard[-1] == {"type": "websocket.close", "code": 1013, "reason": "rate limit"}
    assert [event.kind for event in here.heard.events] == ["closed"]


async def test_each_connection_has_its_own_count_and_the_store_is_not_asked(
    site: Callable[..., Site],
) -> None:
    here = site({"messages": "2/second", "on_excess": "drop"})
    await here.serve(*(Client(at_once(3), leaves_at=1) for _ in range(3)))
    assert len(here.app.received) == 6
    assert here.store.stats().keys == 0


async def test_with_a_key_connections_of_a_client_share_the_limit(site: Callable[..., Site]) -> None:
    here = site({"messages": "2/second per ip", "on_excess": "drop"})
    ips = ("192.0.2.1", "192.0.2.1", "192.0.2.2")
    await here.serve(*(Client(at_once(2), leaves_at=1, ip=ip) for ip in ips))
    assert len(here.app.received) == 4


async def test_a_message_that_one_limit_turns_away_costs_nothing_on_the_others(
    site: Callable[..., Site],
) -> None:
    here = site({"messages": "2/second per ip; 3/minute", "on_excess": "drop"})
    sends = [*at_once(10), (2, "a"), (2, "b")]
    await here.serve(Client(sends, leaves_at=3))
    assert [text for _, text in here.app.received] == ["0", "1", "a"]


async def test_a_client_that_leaves_while_its_message_waits_is_heard_at_once(
    site: Callable[..., Site],
) -> None:
    here = site({"messages": "1/minute", "on_excess": "delay"})
    await here.serve(Client(at_once(2), leaves_at=5))
    assert here.app.received == [(0, "0")]
    assert here.app.ends == [(5, 1001)]


async def test_one_message_waits_and_one_is_read_ahead(site: Callable[..., Site]) -> None:
    here = site({"messages": "1/minute", "on_excess": "delay"})
    client = Client(at_once(100))
    with anyio.move_on_after(30):
        await here.serve(client)
    assert client.read == 1 + 3, "connect, one that passed, one that waits, one behind it"


async def test_a_message_is_not_lost_when_the_app_stops_waiting_for_it(site: Callable[..., Site]) -> None:
    received: list[str | None] = []

    async def impatient(scope: Scope, receive: Receive, send: Send) -> None:
        while len(received) < 4:
            with anyio.move_on_after(0.3):
                received.append((await receive()).get("text"))

    here = site({"messages": "1/second", "on_excess": "delay"})
    here.middleware._app.app = impatient  # type: ignore[attr-defined]  # the layer's
    await here.serve(Client(at_once(3), leaves_at=9))
    assert received == [None, "0", "1", "2"]
    assert now() == 2


async def test_a_message_that_the_app_stops_waiting_for_is_counted_once_by_the_connection() -> None:
    """The store is slow, and the app asks for the message again and again meanwhile."""

    class Slow(AwaitedStore):
        async def take_async(self, checks: Any) -> Any:
            await anyio.sleep(0.3 if now() < 1 else 0)
            return await super().take_async(checks)

    received: list[str | None] = []

    async def impatient(scope: Scope, receive: Receive, send: Send) -> None:
        while len(received) < 3:
            with anyio.move_on_after(0.2):
                received.append((await receive()).get("text"))

    rules = {"limits": {"WS /live": {"messages": "2/minute"}, "WS /**": {"messages": "9/minute per ip"}}}
    store, client = Slow(MemoryStore(clock=VirtualClock())), Client(at_once(2))
    await RateLimitMiddleware(impatient, rules, store=store, clock=VirtualClock())(
        client.scope(), client.receive, client.send
    )
    assert received[1:] == ["0", "1"]


async def test_what_is_no_message_is_never_held(site: Callable[..., Site]) -> None:
    here = site({"messages": "1/minute", "on_excess": "drop"})
    await here.serve(Client([(0, "a")], leaves_at=0))
    assert here.app.ends == [(0, 1001)]


async def test_a_shadow_rule_lets_all_pass_and_tells(site: Callable[..., Site]) -> None:
    for rule, file in (({"mode": "shadow"}, {}), ({}, {"mode": "shadow"})):
        for word in ("delay", "drop", "close"):
            here = site({"messages": "2/second; 9/second per ip", "on_excess": word, **rule}, **file)
            await here.serve(Client(at_once(4), leaves_at=1))
            assert [text for _, text in here.app.received] == ["0", "1", "2", "3"]
            assert [event.shadow for event in here.heard.events] == [True, True]


async def test_counters_count_what_was_done(site: Callable[..., Site]) -> None:
    counters = Counters()
    here = site({"messages": "2/second", "on_excess": "drop"})
    await here.serve(Client(at_once(5), leaves_at=1))
    for event in here.heard.events:
        counters.on_flow(event)
    assert counters.snapshot().rules == {"WS /live": RuleCounts(messages_dropped=3)}


class BrokenStore(MemoryStore):
    """Does not answer until a moment."""

    until = 1e9

    def take(self, checks: Any) -> Any:
        if trio.current_time() < self.until:
            raise StoreUnavailableError(5 * 10**8)
        return super().take(checks)


@pytest.mark.parametrize(
    ("word", "received", "end"),
    [("close", [], (0, 1013)), ("drop", [], (9, 1001)), ("delay", [(0.5, "0")], (9, 1001))],
)
async def test_a_message_that_cannot_be_counted_is_one_over_the_limit(
    site: Callable[..., Site], word: str, received: list[Any], end: tuple[float, int]
) -> None:
    store = BrokenStore(clock=VirtualClock())
    store.until = 0.2
    here = site({"messages": "100/second per ip", "on_excess": word}, store)
    await here.serve(Client(at_once(1), leaves_at=9))
    assert here.app.received == received
    assert here.app.ends == [end]


async def test_a_connection_whose_messages_cannot_be_counted_for_long_is_closed(
    site: Callable[..., Site],
) -> None:
    here = site({"messages": "100/second per ip", "on_excess": "delay"}, BrokenStore(clock=VirtualClock()))
    await here.serve(Client(at_once(1)))
    assert here.app.ends == [(30, 1013)]


async def test_a_client_that_leaves_while_the_store_is_gone_is_heard_at_once(
    site: Callable[..., Site],
) -> None:
    here = site({"messages": "100/second per ip", "on_excess": "delay"}, BrokenStore(clock=VirtualClock()))
    await here.serve(Client(at_once(1), leaves_at=3))
    assert here.app.ends == [(3, 1001)]


async def test_after_a_close_what_the_app_still_sends_goes_nowhere(site: Callable[..., Site]) -> None:
    here = site({"messages": "1/minute"})
    client = Client(at_once(2))

    async def talkative(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "websocket.disconnect":
            pass
        await send({"type": "websocket.send", "text": "bye"})
        await send({"type": "websocket.close"})

    here.middleware._app.app = talkative  # type: ignore[attr-defined]
    await here.serve(client)
    assert [message["type"] for message in client.heard] == ["websocket.close"]


async def test_a_connection_that_the_app_has_closed_is_not_closed_twice(site: Callable[..., Site]) -> None:
    here = site({"messages": "1/minute"})
    client = Client(at_once(2))

    async def closing(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.close"})
        while (await receive())["type"] != "websocket.disconnect":
            pass

    here.middleware._app.app = closing  # type: ignore[attr-defined]
    await here.serve(client)
    assert [message["type"] for message in client.heard] == ["websocket.close"]


async def test_a_flood_of_what_is_dropped_does_not_hold_up_the_others(site: Callable[..., Site]) -> None:
    """From a server that has a thousand messages at hand, and gives them without a checkpoint."""
    here = site({"messages": "1/hour", "on_excess": "drop"})
    client = Client(at_once(1000))
    read_by_then: list[int] = []

    async def ready() -> Message:
        client.read += 1
        if client.read == 1:
            return {"type": "websocket.connect"}
        if client.read <= 1000:
            return {"type": "websocket.receive", "text": "x"}
        return {"type": "websocket.disconnect", "code": 1001}

    async def other() -> None:
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        read_by_then.append(client.read)

    async with anyio.create_task_group() as group:
        group.start_soon(here.middleware, client.scope(), ready, client.send)
        group.start_soon(other)
    assert read_by_then[0] < 100
    assert client.read == 1001


@pytest.mark.parametrize("error", [OSError("gone"), RuntimeError("the connection has ended")], ids=repr)
async def test_a_server_that_cannot_close_any_more_fails_no_app(
    site: Callable[..., Site], error: Exception
) -> None:
    here = site({"messages": "1/minute"})
    client = Client(at_once(2))

    async def gone(message: Message) -> None:
        if message["type"] == "websocket.close":
            raise error

    await here.middleware(client.scope(), client.receive, gone)
    assert here.app.ends == [(0, 1013)]


async def test_connections_on_the_list_exempt_and_routes_without_the_rule_are_left_alone(
    site: Callable[..., Site],
) -> None:
    here = site({"messages": "1/minute"}, exempt={"ips": ["192.0.2.9"]})
    await here.serve(
        Client(at_once(9), leaves_at=1, ip="192.0.2.9"), Client(at_once(9), leaves_at=1, path="/other")
    )
    assert len(here.app.received) == 18


async def test_the_messages_of_default_count_where_default_does(site: Callable[..., Site]) -> None:
    everybody = {"ips": ["::/0", "0.0.0.0/0"]}
    default = {"limit": "9/second", "messages": "2/minute", "on_excess": "drop"}
    for other, expected in (({"limit": "9/second"}, 4), ({"limit": "9/second", "exempt": everybody}, 2)):
        app = App()
        middleware = RateLimitMiddleware(app, {"limits": {"WS /live": other}, "default": default})
        await Site(app, MemoryStore(), middleware, Heard()).serve(Client(at_once(4), leaves_at=1))
        assert len(app.received) == expected


async def test_installed_twice_over_one_store_a_message_counts_once(site: Callable[..., Site]) -> None:
    app, store = App(), MemoryStore(clock=VirtualClock())
    rules = {"limits": {"WS /live": {"messages": "4/minute per ip", "on_excess": "drop"}}}
    inner = RateLimitMiddleware(app, rules, store=store)
    await Site(app, store, RateLimitMiddleware(inner, rules, store=store), Heard()).serve(
        Client(at_once(4), leaves_at=1)
    )
    assert len(app.received) == 4


async def test_a_function_of_the_app_is_asked_once_for_handshake_and_messages(
    site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def tenant(view: RequestView) -> str:
        asked.append(view.path)
        return "acme"

    monkeypatch.setattr("tests.test_messages.tenant_of", tenant)
    rule = {"limit": "9/second", "messages": "2/minute per python:tests.test_messages:tenant_of"}
    here = site({**rule, "key": "python:tests.test_messages:tenant_of", "on_excess": "drop"})
    await here.serve(*(Client(at_once(2), leaves_at=1, ip=f"192.0.2.{n}") for n in (1, 2)))
    assert len(here.app.received) == 2
    assert asked == ["/live"] * 2


async def test_a_function_that_fails_leaves_the_messages_counted_by_address(
    site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    def tenant(view: RequestView) -> str:
        raise LookupError(view.path)

    monkeypatch.setattr("tests.test_messages.tenant_of", tenant)
    here = site({"messages": "2/minute per python:tests.test_messages:tenant_of", "on_excess": "drop"})
    await here.serve(Client(at_once(3), leaves_at=1))
    assert len(here.app.received) == 2


async def test_nothing_stays_after_the_connection(site: Callable[..., Site]) -> None:
    here = site({"messages": "1/minute", "on_excess": "delay"})
    before = trio.lowlevel.current_statistics().tasks_living
    await here.serve(*(Client(at_once(3), leaves_at=n / 10) for n in range(20)))
    assert trio.lowlevel.current_statistics().tasks_living == before
    assert here.store.stats().keys == 0


def test_a_rule_without_flows_adds_no_layer() -> None:
    app = App()
    assert RateLimitMiddleware(app, {"default": "5/minute"})._app is app


def test_the_store_is_asked_by_checks_that_may_wait_only_where_messages_do(
    site: Callable[..., Site],
) -> None:
    asked: list[Check] = []

    class Watched(MemoryStore):
        def take(self, checks: Any) -> Any:
            asked.extend(checks)
            return super().take(checks)

    async def one(word: str) -> None:
        here = site({"messages": "9/second per ip", "on_excess": word}, Watched(clock=VirtualClock()))
        await here.serve(Client(at_once(1), leaves_at=1))

    for word in ("delay", "drop"):
        trio.run(one, word, clock=MockClock(autojump_threshold=0))
    assert [check.max_wait_ns for check in asked] == [None, 0]
