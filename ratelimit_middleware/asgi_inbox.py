"""Waiting under ASGI while an app runs, without losing what the client sends or that it goes away."""

from __future__ import annotations

from collections import deque

import anyio

from ratelimit_middleware._types import Message, Receive

__all__ = ["Inbox"]

_LEAVING = frozenset({"http.disconnect", "websocket.disconnect"})


class Inbox:
    """Stands between a server and an app, and reads ahead while something waits.

    Neither a task nor a thread is made. The server is asked for one message at a time, and the app goes
    first: as soon as it wants a message, reading ahead ends.

    Args:
        receive: the server's.
        most_kept: how many bytes may be kept that the app has not asked for; the message with which they
            are reached is the last.
        reads_ahead: whether the client may be watched; not if asking would change what it sends.

    Attributes:
        gone: whether the client has gone, as far as that is known.
    """

    __slots__ = ("_ahead", "_kept", "_left", "_reads_ahead", "_receive", "_turn", "_waits", "gone")

    def __init__(self, receive: Receive, *, most_kept: int, reads_ahead: bool = True) -> None:
        self._receive = receive
        self._left = most_kept
        self._reads_ahead = reads_ahead
        self._kept: deque[Message] = deque()
        self._turn = anyio.Lock()
        self._ahead: anyio.CancelScope | None = None
        self._waits: set[anyio.CancelScope] = set()
        self.gone = False

    async def receive(self) -> Message:
        """What was kept, then what comes.

        No checkpoint is added to the server's own: an app that asks in a scope which is cancelled already
        hears of what is there, as Starlette's `Request.is_disconnected` wants it.
        """
        if self._kept:
            return self._taken_out()
        if self._ahead is not None:
            self._ahead.cancel()
        if self._turn.locked():
            await self._turn.acquire()
        else:
            self._turn.acquire_nowait()
        try:
            return self._taken_out() if self._kept else self._seen(await self._receive())
        finally:
            self._turn.release()

    async def wait_until(self, moment: float) -> bool:
        """Wait for a moment of the event loop's clock; False, and at once, if the client goes away."""
        if self.gone:
            return False
        with anyio.CancelScope(deadline=moment) as wait:
            self._waits.add(wait)
            try:
                while self._reads_ahead and self._left > 0:
                    await self._read_ahead()
                await anyio.sleep_forever()
            finally:
                self._waits.discard(wait)
        return not self.gone

    async def _read_ahead(self) -> None:
        """Keep what comes, until the app wants a message itself."""
        async with self._turn:
            with anyio.CancelScope() as self._ahead:
                try:
                    while self._left > 0:
                        message = self._seen(await self._receive())
                        self._kept.append(message)
                        self._left -= _size(message)
                finally:
                    self._ahead = None

    def _taken_out(self) -> Message:
        message = self._kept.popleft()
        self._left += _size(message)
        return message

    def _seen(self, message: Message) -> Message:
        """Wake those who wait for nothing any more."""
        if message["type"] in _LEAVING:
            self.gone = True
            self._left = 0
            for wait in self._waits:
                wait.cancel()
        return message


def _size(message: Message) -> int:
    """Bytes, and one for the message itself."""
    return 1 + len(message.get("body") or message.get("bytes") or message.get("text") or b"")
