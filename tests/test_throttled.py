"""Bytes at a limited rate."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator

import pytest

from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.limiter import Limiter
from ratelimit_middleware.throttled import (
    AsyncThrottledReader,
    ThrottledReader,
    ThrottledWriter,
    throttled_stream,
)

SECOND = 1_000_000_000
DATA = bytes(range(256)) * 40


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000)


@pytest.fixture
def limiter(clock: ManualClock) -> Limiter:
    """1,000 bytes a second, 100 at once."""
    return Limiter(GCRA(1000, 1, 100), clock=clock)


def spent_s(clock: ManualClock) -> float:
    return clock.now_ns() / SECOND - 1000


def test_a_reader_hands_everything_on_no_faster_than_the_rate(clock: ManualClock, limiter: Limiter) -> None:
    assert ThrottledReader(io.BytesIO(DATA), limiter).read() == DATA
    assert spent_s(clock) == pytest.approx((len(DATA) - 100) / 1000)


def test_a_reader_reads_what_is_asked_for_and_then_nothing(limiter: Limiter) -> None:
    reader = ThrottledReader(io.BytesIO(b"abcdef"), limiter)
    assert [reader.read(4), reader.read(0), reader.read(4), reader.read(4)] == [b"abcd", b"", b"ef", b""]


def test_a_writer_writes_everything_in_pieces_that_the_bucket_holds(
    clock: ManualClock, limiter: Limiter
) -> None:
    target = io.BytesIO()
    assert ThrottledWriter(target, limiter).write(DATA) == len(DATA)
    assert target.getvalue() == DATA
    assert spent_s(clock) == pytest.approx((len(DATA) - 100) / 1000, abs=0.1)


def test_readers_and_writers_of_one_limiter_keep_the_rate_together(
    clock: ManualClock, limiter: Limiter
) -> None:
    ThrottledReader(io.BytesIO(DATA), limiter).read()
    ThrottledWriter(io.BytesIO(), limiter).write(DATA)
    assert spent_s(clock) == pytest.approx((2 * len(DATA) - 100) / 1000, abs=0.1)


class AsyncBytes:
    """A source that must be awaited."""

    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)

    async def read(self, size: int, /) -> bytes:
        return self._inner.read(size)


@pytest.mark.anyio
async def test_an_awaited_reader_keeps_the_rate(clock: ManualClock, limiter: Limiter) -> None:
    reader = AsyncThrottledReader(AsyncBytes(DATA), limiter)
    assert await reader.read(1000) + await reader.read() == DATA
    assert spent_s(clock) == pytest.approx((len(DATA) - 100) / 1000)


@pytest.mark.anyio
async def test_a_stream_keeps_the_rate_and_its_bytes(clock: ManualClock, limiter: Limiter) -> None:
    async def source() -> AsyncIterator[bytes]:
        for start in range(0, len(DATA), 999):
            yield DATA[start : start + 999]

    pieces = [piece async for piece in throttled_stream(source(), limiter)]
    assert b"".join(pieces) == DATA
    assert max(map(len, pieces)) == 100
    assert spent_s(clock) == pytest.approx((len(DATA) - 100) / 1000, abs=0.1)
