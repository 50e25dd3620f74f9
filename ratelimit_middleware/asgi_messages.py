"""Messages of WebSockets under ASGI: those over a limit wait, are lost, or end the connection."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import anyio
import anyio.lowlevel

from ratelimit_middleware._types import Message, Receive, Send
from ratelimit_middleware.asgi_inbox import Inbox
from ratelimit_middleware.asgi_meter import AsgiMeter, StillUnavailableError
from ratelimit_middleware.clock import NS_PER_SECOND, Clock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.events import FlowEventKind
from ratelimit_middleware.flow_reports import FlowReporter
from ratelimit_middleware.flows import Held
from ratelimit_middleware.rules.flow import OnExcess
from ratelimit_middleware.stores.memory import MemoryStore

__all__ = ["MessageGate"]

_TRY_AGAIN_LATER = 1013  # the IANA registry of close codes that RFC 6455 sets up
_REASON = "rate limit"
_WORDS: dict[OnExcess, FlowEventKind] = {"delay": "delayed", "drop": "dropped", "close": "closed"}


class MessageGate:
    """What an app gets in the place of its connection's `receive` and `send`.

    What the client sends is counted when the app asks for it, so that the server holds the client back. A
    message that waits stays here if the app gives up waiting for it. Only one is read ahead, to hear of a
    client that leaves.

    Args:
        held: the limits.
        meter: asks the store about those that connections share.
        tell: hears what is done.
        receive: the server's.
        send: the server's.
        clock: the time for limits that each connection has for itself; the system's by default.
    """

    def __init__(
        self,
        held: Sequence[Held],
        meter: AsgiMeter,
        tell: FlowReporter,
        receive: Receive,
        send: Send,
        clock: Clock | None = None,
    ) -> None:
        self._own = [one for one in held if one.limit.per_connection]
        self._own_meter = AsgiMeter(MemoryStore(clock=clock))
        self._shared = [one for one in held if not one.limit.per_connection]
        self._meter = meter
        self._tell = tell
        self._inbox = Inbox(receive, most_kept=1)
        self._send = send
        self._message: Message | None = None
        self._moment: float | None = None
        self._may_close = True
        self._is_closed = False

    async def send(self, message: Message) -> None:
        """Hand on what the app sends, until the connection is closed here."""
        if self._is_closed:
            return
        if message["type"] == "websocket.close":
            self._may_close = False
        await self._send(message)

    async def receive(self) -> Message:
        """The next message that the limits admit, at its moment; or that the connection has ended."""
        while not self._is_closed:
            if self._message is None:
                message = await self._inbox.receive()
                if message["type"] != "websocket.receive":
                    return message
                self._message = message
            if self._moment is None:
                self._moment = await self._admitted()
            passes = self._moment is not None and await self._inbox.wait_until(self._moment)
            message, self._message, self._moment = self._message, None, None
            if passes:
                return message
            await anyio.lowlevel.checkpoint()  # a flood of what is dropped must not hold up the others
        return {"type": "websocket.disconnect", "code": _TRY_AGAIN_LATER, "reason": _REASON}

    async def _admitted(self) -> float | None:
        """When the message may pass, on the event loop's clock; None if it may not, or its client is gone."""
        own = await self._asked(self._own_meter, self._own)
        if own is None or await self._is_over(self._own, own):
            return None
        try:
            shared = await self._asked(self._meter, self._shared)
        except BaseException:  # the app waits no longer; the message will be asked for again
            await self._own_meter.give_back([one.check for one in self._own], own)
            raise
        if shared is None or await self._is_over(self._shared, shared):
            await self._own_meter.give_back([one.check for one in self._own], own)
            return None
        wait_ns = max(self._waits(self._own, own), self._waits(self._shared, shared))
        return anyio.current_time() + wait_ns / NS_PER_SECOND

    async def _asked(self, meter: AsgiMeter, held: Sequence[Held]) -> Sequence[Decision] | None:
        """What the limits say; None if nobody is there to hear it. One that cannot be asked has been met."""
        checks = [one.check for one in held]
        if not checks:
            return ()
        try:
            if all(one.limit.on_excess == "delay" for one in held):
                return await meter.take_patiently(checks, self._inbox)
            answer = await meter.take(checks)
        except StillUnavailableError:
            answer = 0.0
        if isinstance(answer, float):
            await self._turn_away([one for one in held if not one.check.shadow])
            return None
        return answer

    async def _is_over(self, held: Sequence[Held], decisions: Sequence[Decision]) -> bool:
        """Whether a limit does not admit the message; then the limit has its way."""
        over = [one for one, decision in zip(held, decisions, strict=True) if not decision.allowed]
        for one in over:
            if one.check.shadow:
                self._tell.tell(_WORDS[one.limit.on_excess], one)
        refusing = [one for one in over if not one.check.shadow]
        if refusing:
            await self._turn_away(refusing)
        return bool(refusing)

    async def _turn_away(self, refusing: Sequence[Held]) -> None:
        """The message is lost, and so is the connection unless all agree to drop it."""
        closing = [one for one in refusing if one.limit.on_excess != "drop"]
        self._tell.tell("closed" if closing else "dropped", (closing or refusing)[0])
        if closing:
            self._is_closed = True
            if self._may_close:
                # A server may raise if its client has gone meanwhile; the app hears that from `receive`.
                with suppress(Exception):
                    await self._send({"type": "websocket.close", "code": _TRY_AGAIN_LATER, "reason": _REASON})

    def _waits(self, held: Sequence[Held], decisions: Sequence[Decision]) -> int:
        """How long the message waits, ns."""
        waiting = [pair for pair in zip(held, decisions, strict=True) if pair[1].wait_ns]
        for one, decision in waiting:
            self._tell.tell("delayed", one, decision.wait_ns)
        return max((decision.wait_ns for _, decision in waiting), default=0)
