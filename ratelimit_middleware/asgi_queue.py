"""Waiting under ASGI: until the booked moment, or until the client goes away, on any event loop.

No task and no thread is made for a waiting request. What the client sends meanwhile is kept and handed to
the app afterwards.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import anyio

from ratelimit_middleware._types import Message, Receive, Scope
from ratelimit_middleware.asgi_watching import may_watch
from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.lines import Bookings, Lines, Waiter

__all__ = ["AsgiQueue", "Turn"]

_MOST_KEPT_BYTES = 64 * 1024


class Turn(NamedTuple):
    """A request whose moment has come.

    Attributes:
        bookings: what it has now; it may have moved up.
        receive: gives the app what came while it waited, then what comes.
    """

    bookings: Bookings
    receive: Receive


class AsgiQueue:
    """Where admitted requests wait.

    Args:
        give_back: is told the bookings of a place that nobody needs any more.
    """

    def __init__(self, give_back: Callable[[Bookings], Awaitable[None]]) -> None:
        self._give_back = give_back
        self._lines = Lines()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._lines)

    async def wait(self, verdict: Verdict, scope: Scope, receive: Receive) -> Turn | None:
        """Wait for the booked moment; None if the client has gone, which makes room for those behind."""
        moment = anyio.current_time() + verdict.wait_ns / NS_PER_SECOND
        cancel = anyio.CancelScope(deadline=moment)
        waiter = Waiter(verdict.bookings, moment, lambda earlier: setattr(cancel, "deadline", earlier))
        inbox = _Inbox(receive)
        self._lines.join(waiter)
        try:
            with cancel:
                await inbox.until_gone(scope)
        except BaseException:
            await self._leave(waiter)
            raise
        if not cancel.cancelled_caught:
            await self._leave(waiter)
            return None
        self._lines.start(waiter)
        return Turn(waiter.bookings, inbox.receive)

    async def _leave(self, waiter: Waiter) -> None:
        await self._give_back(self._lines.leave(waiter))


class _Inbox:
    """Keeps what comes while a request waits."""

    __slots__ = ("_kept", "_receive")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._kept: list[Message] = []

    async def until_gone(self, scope: Scope) -> None:
        """Return when the client goes away; it is not watched where that would change what it sends."""
        size = 0
        watched = may_watch(scope, self._receive)
        while watched and size <= _MOST_KEPT_BYTES:
            message = await self._receive()
            if message["type"] in ("http.disconnect", "websocket.disconnect"):
                return
            self._kept.append(message)
            size += len(message.get("body", b""))
        await anyio.sleep_forever()

    async def receive(self) -> Message:
        """What was kept, then what comes."""
        return self._kept.pop(0) if self._kept else await self._receive()
