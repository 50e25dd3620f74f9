"""The lag of the event loop that requests run on, asyncio's or trio's. No task is left behind."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ratelimit_middleware.clock import NS_PER_SECOND, Clock
from ratelimit_middleware.overload.lateness import Lateness

if TYPE_CHECKING:
    import asyncio

__all__ = ["LoopLag"]

_EVERY_NS = NS_PER_SECOND // 20
_QUIET_NS = NS_PER_SECOND


class LoopLag:
    """Watches the loop from the first request on until it has been quiet for a second.

    On asyncio a timer that sets itself anew tells how late it comes. Trio has no timers without tasks: there
    a call is put at the end of what the loop has to do, at most twenty times a second, when a request comes.

    Args:
        clock: tells the time.
    """

    __slots__ = ("_due_ns", "_last_ns", "_lateness", "_loop", "_now_ns")

    def __init__(self, clock: Clock) -> None:
        self._now_ns = clock.now_ns
        self._lateness = Lateness()
        self._loop: object = None
        self._due_ns: int | None = None
        self._last_ns = 0

    def request_came(self) -> None:
        """On the loop, for each request."""
        now_ns = self._now_ns()
        trio = _running_trio()
        if trio is None:
            import asyncio  # costs a third of the package's import time, and only event loops need it

            self._last_ns = now_ns
            loop = asyncio.get_running_loop()
            if loop is not self._loop:
                self._loop = loop
                self._set_timer(loop, now_ns)
        elif now_ns - self._last_ns >= _EVERY_NS or trio is not self._loop:
            self._loop, self._last_ns, self._due_ns = trio, now_ns, now_ns
            trio.run_sync_soon(self._came)

    def at(self) -> int:
        """How late the loop is, ns."""
        return self._lateness.at(self._now_ns(), self._due_ns)

    def _set_timer(self, loop: asyncio.AbstractEventLoop, now_ns: int) -> None:
        self._due_ns = now_ns + _EVERY_NS
        loop.call_later(_EVERY_NS / NS_PER_SECOND, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            return  # another loop has been watched since
        now_ns = self._came()
        if now_ns - self._last_ns > _QUIET_NS:
            self._loop = None
        else:
            self._set_timer(loop, now_ns)

    def _came(self) -> int:
        now_ns = self._now_ns()
        if self._due_ns is not None:
            self._lateness.came(now_ns, self._due_ns)
            self._due_ns = None
        return now_ns


def _running_trio() -> Any:
    """Trio's handle on the loop that runs here; None if it is asyncio's."""
    trio: Any = sys.modules.get("trio")
    if trio is None:
        return None
    try:
        return trio.lowlevel.current_trio_token()
    except RuntimeError:
        return None
