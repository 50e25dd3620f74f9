"""Bodies under ASGI at a limited bandwidth: cut into pieces, each of which waits for its moment."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator

from ratelimit_middleware._types import Message, Send
from ratelimit_middleware.asgi_inbox import Inbox
from ratelimit_middleware.asgi_meter import StillUnavailableError
from ratelimit_middleware.asgi_pace import AsgiPace
from ratelimit_middleware.asgi_sizes import SHORTCUTS
from ratelimit_middleware.errors import BodyCutError

__all__ = ["PacedRequest", "PacedResponse"]

_WITHOUT_BODY = frozenset({204, 304})
_GONE: Message = {"type": "http.disconnect"}


class PacedResponse:
    """A `send` at the rate of some limits. The bytes are the same, and so are all other messages.

    Args:
        pace: of the response; None = any.
        is_head: the response has no body, whatever the app sends.
        send: the server's.

    Attributes:
        has_started: whether the start message has gone out.
        is_cut: whether it was broken off.
    """

    __slots__ = ("_has_body", "_pace", "_send", "has_started", "is_cut")

    def __init__(self, pace: AsgiPace | None, send: Send, *, is_head: bool) -> None:
        self._pace = pace
        self._send = send
        self._has_body = pace is not None and not is_head
        self.has_started = False
        self.is_cut = False

    async def send(self, message: Message) -> None:
        """Hand on what the app sends; a body piece by piece, each at its moment.

        Raises:
            BodyCutError: the response is broken off.
            RuntimeError: the app uses an extension that its scope does not offer.
        """
        kind = message["type"]
        if self.is_cut:
            raise BodyCutError("this response has been broken off")
        if kind == "http.response.start":
            self.has_started = True
            self._has_body = self._has_body and message["status"] not in _WITHOUT_BODY
        if self._pace is None:
            await self._send(message)
        elif kind in SHORTCUTS:
            raise RuntimeError(f"the app sends `{kind}`, which the scope of this request does not offer")
        elif kind == "http.response.body" and self._has_body and message.get("body"):
            await self._send_at(self._pace, message)
        else:
            await self._send(message)

    async def _send_at(self, pace: AsgiPace, message: Message) -> None:
        for piece in _pieces(message, pace.piece):
            try:
                # What the server does with the rest if its client has gone is its own affair.
                await pace.passes(len(piece["body"]))
            except StillUnavailableError as error:
                self.is_cut = True
                raise BodyCutError("the response is broken off: its bytes cannot be counted") from error
            await self._send(piece)


class PacedRequest:
    """A `receive` at the rate of some limits. The bytes are the same, and so are all other messages.

    Args:
        pace: of the request; None = any.
        inbox: gives what the server has.
        give_up: answers in the place of the app when the bytes cannot be counted.
    """

    __slots__ = ("_give_up", "_has_ended", "_inbox", "_pace", "_waiting")

    def __init__(self, pace: AsgiPace | None, inbox: Inbox, give_up: Callable[[], Awaitable[None]]) -> None:
        self._pace = pace
        self._inbox = inbox
        self._give_up = give_up
        self._waiting: deque[Message] = deque()
        self._has_ended = False

    async def receive(self) -> Message:
        """What comes next; of a body a piece, at its moment."""
        if self._pace is None:
            return await self._inbox.receive()
        while not self._has_ended:
            if not self._waiting:
                message = await self._inbox.receive()
                if not message.get("body"):
                    return message
                self._waiting.extend(_pieces(message, self._pace.piece))
            try:
                if await self._pace.passes(len(self._waiting[0]["body"])):
                    return self._waiting.popleft()
                self._has_ended = True
            except StillUnavailableError:
                self._has_ended = True
                await self._give_up()
        return _GONE


def _pieces(message: Message, size: int) -> Iterator[Message]:
    """A message of a body as several, with at most so many bytes each."""
    body = message["body"]
    if len(body) <= size:
        yield message
        return
    view = memoryview(body)
    for start in range(0, len(body), size):
        end = start + size
        more = end < len(body) or message.get("more_body", False)
        yield {**message, "body": bytes(view[start:end]), "more_body": more}
