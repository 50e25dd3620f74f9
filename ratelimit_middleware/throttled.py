"""Bytes at a limited rate: readers and writers around files and streams (after juju/ratelimit).

A permit is a byte. Pieces are at most as large as a fresh bucket admits, so any amount of data passes
any limit.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Protocol

from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.limiter import Limiter

__all__ = [
    "AsyncReadable",
    "AsyncThrottledReader",
    "Readable",
    "ThrottledReader",
    "ThrottledWriter",
    "Writable",
    "throttled_stream",
]

_LARGEST_PIECE = 64 * 1024


class Readable(Protocol):
    """What a reader reads from."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""


class AsyncReadable(Protocol):
    """What an asynchronous reader reads from, such as `asyncio.StreamReader`."""

    async def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""


class Writable(Protocol):
    """What a writer writes to."""

    def write(self, data: bytes, /) -> object:
        """Take all of `data`."""


class ThrottledReader:
    """Reads from `source` no faster than `limiter` lets it; bytes are paid for when they have been read.

    Args:
        source: a file, a socket's file, anything with `read`.
        limiter: a permit is a byte; may be shared, then all readers and writers together keep the rate.
        key: whose bucket.
    """

    def __init__(self, source: Readable, limiter: Limiter, *, key: str = "") -> None:
        self._source = source
        self._limiter = limiter
        self._key = key

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, all of them if negative; none at the end."""
        pieces: list[bytes] = []
        left = size
        while left:
            piece = self._source.read(_piece_size(self._limiter, left))
            if not piece:
                break
            self._limiter.acquire(len(piece), key=self._key)
            pieces.append(piece)
            left -= len(piece) if size >= 0 else 0
        return b"".join(pieces)


class AsyncThrottledReader:
    """`ThrottledReader` for a source that must be awaited."""

    def __init__(self, source: AsyncReadable, limiter: Limiter, *, key: str = "") -> None:
        self._source = source
        self._limiter = limiter
        self._key = key

    async def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, all of them if negative; none at the end."""
        pieces: list[bytes] = []
        left = size
        while left:
            piece = await self._source.read(_piece_size(self._limiter, left))
            if not piece:
                break
            await self._limiter.acquire_async(len(piece), key=self._key)
            pieces.append(piece)
            left -= len(piece) if size >= 0 else 0
        return b"".join(pieces)


class ThrottledWriter:
    """Writes to `target` no faster than `limiter` lets it; bytes are paid for before they are written.

    Args:
        target: a file, anything with `write`.
        limiter: a permit is a byte; may be shared.
        key: whose bucket.
    """

    def __init__(self, target: Writable, limiter: Limiter, *, key: str = "") -> None:
        self._target = target
        self._limiter = limiter
        self._key = key

    def write(self, data: bytes) -> int:
        """Write all of `data`, piece by piece; the number of bytes."""
        for piece in _pieces(self._limiter, data):
            self._limiter.acquire(len(piece), key=self._key)
            self._target.write(piece)
        return len(data)


async def throttled_stream(
    source: AsyncIterable[bytes], limiter: Limiter, *, key: str = ""
) -> AsyncIterator[bytes]:
    """The bytes of `source` no faster than `limiter` lets them, such as a streamed response."""
    async for data in source:
        for piece in _pieces(limiter, data):
            await limiter.acquire_async(len(piece), key=key)
            yield piece


def _pieces(limiter: Limiter, data: bytes) -> list[bytes]:
    size = _piece_size(limiter, len(data))
    return [data[start : start + size] for start in range(0, len(data), size)]


def _piece_size(limiter: Limiter, wanted: int) -> int:
    """How many bytes to move at once."""
    largest = min(limiter.algorithm.smallest_full_take, _LARGEST_PIECE)
    if largest < 1:
        raise InvalidLimitError("limiter", limiter.algorithm, "an algorithm that admits bytes at all")
    return min(largest, wanted) if wanted > 0 else largest
