"""A WSGI response that is watched, so that what its request has booked can be settled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any

from ratelimit_middleware._types import StartResponse, Write
from ratelimit_middleware.settling import Stay, Step

__all__ = ["WatchedResponse", "end", "watched", "watched_start"]

_Tell = Callable[[Sequence[Step]], None]


def watched_start(stay: Stay, tell: _Tell, start_response: StartResponse) -> StartResponse:
    """A `start_response` that notes the status and settles what it decides."""

    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Write:
        code = status[:3]
        stay.response.status = int(code) if code.isdecimal() else 500
        stay.response.headers = headers
        # Before the client can know, or its next request might come too early.
        tell(stay.started())
        try:
            write = start_response(status, headers, exc_info)
        finally:
            del exc_info  # PEP 3333: or the traceback would keep this frame alive

        def count_and_write(data: bytes) -> object:
            stay.response.bytes_sent += len(data)
            return write(data)

        return count_and_write

    return start


def end(stay: Stay, tell: _Tell) -> None:
    """Settle what is left, also if a function of the app raises what is no `Exception`."""
    try:
        steps = stay.ended()
    except BaseException:
        end(stay, tell)
        raise
    tell(steps)


def watched(stay: Stay, tell: _Tell, body: Iterable[bytes]) -> WatchedResponse:
    """The app's iterable, watched; it has a length if that one has."""
    kind = _SizedResponse if isinstance(body, Sized) else WatchedResponse
    return kind(stay, tell, body)


class WatchedResponse:
    """Hands the pieces of a body on, and tells when there are no more.

    Args:
        stay: hears that the response has ended.
        tell: tells the store what is due.
        body: the app's iterable.
    """

    __slots__ = ("_body", "_pieces", "_stay", "_tell")

    def __init__(self, stay: Stay, tell: _Tell, body: Iterable[bytes]) -> None:
        self._stay = stay
        self._tell = tell
        self._body = body
        self._pieces: Iterator[bytes] | None = None

    def __iter__(self) -> Iterator[bytes]:
        """Itself: a body is iterated once."""
        return self

    def __next__(self) -> bytes:
        """The next piece."""
        if self._pieces is None:
            self._pieces = iter(self._body)
        try:
            piece = next(self._pieces)
        except StopIteration:
            end(self._stay, self._tell)
            raise
        except BaseException as error:
            self._stay.failed(error)
            end(self._stay, self._tell)
            raise
        self._stay.response.bytes_sent += len(piece)
        return piece

    def close(self) -> None:
        """What PEP 3333 asks the server to call, whatever has happened."""
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            end(self._stay, self._tell)


class _SizedResponse(WatchedResponse):
    """A body of so many pieces; some servers find the length of a body of one piece by it."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self._body)  # type: ignore[arg-type]  # chosen for bodies that have one
