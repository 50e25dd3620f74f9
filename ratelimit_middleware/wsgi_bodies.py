"""Bodies under WSGI in pieces: what an app reads from, and what a server reads the response from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["PacedBody", "PacedInput", "pieces"]


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """The same bytes, at most so many at a time."""
    if len(data) <= size:
        yield data
        return
    view = memoryview(data)
    for start in range(0, len(data), size):
        yield bytes(view[start : start + size])


class PacedInput:
    """`wsgi.input` (PEP 3333) whose bytes are paid for when they have been read.

    Args:
        source: the server's.
        piece: how many bytes are read at a time, at most.
        pay: waits until so many bytes may pass.
    """

    __slots__ = ("_pay", "_piece", "_source")

    def __init__(self, source: Any, piece: int, pay: Callable[[int], None]) -> None:
        self._source = source
        self._piece = piece
        self._pay = pay

    def read(self, size: int | None = -1) -> bytes:
        """Up to `size` bytes, all of them if negative."""
        return self._read(self._source.read, -1 if size is None else size)

    def readline(self, size: int | None = -1) -> bytes:
        """One line, or as much of it."""
        return self._read(self._source.readline, -1 if size is None else size, ends=b"\n")

    def readlines(self, hint: int | None = -1) -> list[bytes]:
        """All lines, or about as many as have so many bytes."""
        lines: list[bytes] = []
        left = -1 if hint is None else hint
        for line in self:
            lines.append(line)
            left -= len(line)
            if hint and hint > 0 and left <= 0:
                break
        return lines

    def __iter__(self) -> Iterator[bytes]:
        """Line by line."""
        return iter(self.readline, b"")

    def _read(self, read: Callable[[int], bytes], size: int, ends: bytes | None = None) -> bytes:
        got: list[bytes] = []
        left = size
        while left:
            data = read(min(self._piece, left) if left > 0 else self._piece)
            if not data:
                break
            self._pay(len(data))
            got.append(data)
            left -= len(data) if size > 0 else 0
            if ends and data.endswith(ends):
                break
        return b"".join(got)


class PacedBody:
    """The app's iterable in pieces, each of which is paid for.

    Args:
        body: the app's iterable.
        piece: how many bytes go at a time, at most.
        pay: waits until so many bytes may pass; gives what is sent in the place of all of them, if not None.
        end: is told that there are no more, perhaps twice.

    Attributes:
        first_size: how many bytes the app gave first, once it has.
        is_empty: whether it gave nothing at all.
    """

    __slots__ = ("_body", "_end", "_pay", "_piece", "_source", "_waiting", "first_size", "is_empty")

    def __init__(
        self,
        body: Iterable[bytes],
        piece: int,
        pay: Callable[[int], bytes | None],
        end: Callable[[], None],
    ) -> None:
        self._body = body
        self._piece = piece
        self._pay = pay
        self._end = end
        self._source: Iterator[bytes] | None = None
        self._waiting: deque[bytes] = deque()
        self.first_size: int | None = None
        self.is_empty = False

    def __iter__(self) -> Iterator[bytes]:
        """Itself: a body is iterated once."""
        return self

    def __next__(self) -> bytes:
        """The next piece, at its moment."""
        if not self._waiting:
            self._waiting.extend(pieces(self._next(), self._piece))
        instead = self._pay(len(self._waiting[0]))
        if instead is None:
            return self._waiting.popleft()
        self._waiting.clear()
        self._source = iter(())
        return instead

    def _next(self) -> bytes:
        """What the app gives next; once nothing where it gives nothing, so that its response begins."""
        if self._source is None:
            self._source = iter(self._body)
        data = next(self._source, None)
        if data is None:
            self._end()
            if self.first_size is not None:
                raise StopIteration
            data, self.is_empty = b"", True
        if self.first_size is None:
            self.first_size = len(data)
        return data

    def close(self) -> None:
        """What PEP 3333 asks the server to call, whatever has happened."""
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            self._end()
