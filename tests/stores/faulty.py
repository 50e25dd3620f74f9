"""Stores that fail on command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.store_settings import OnError
from ratelimit_middleware.stores.base import Check, StoreStats
from ratelimit_middleware.stores.memory import MemoryStore

_T = TypeVar("_T")


def check(
    key: str = "a",
    limit: int = 8,
    *,
    cost: int = 1,
    shadow: bool = False,
    on_error: OnError | None = None,
) -> Check:
    """A check of `limit` a minute."""
    return Check(key, SlidingWindow(limit, 60), f"{key}*", cost, 0, shadow, on_error)


class FaultyStore:
    """A memory store for threads that fails on command.

    Attributes:
        error: raised by every call, if set.
        takes_s: how long every call takes on the clock.
        calls: calls that reached it.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.inner = MemoryStore(clock=clock)
        self.error: BaseException | None = None
        self.takes_s = 0.0
        self.calls = 0
        self._clock = clock

    def break_down(self) -> None:
        self.error = StoreError("connection refused")

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        return self._answer(self.inner.take, checks)

    def charge(self, check: Check) -> None:
        self._answer(self.inner.charge, check)

    def give_back(self, check: Check, at_ns: int) -> None:
        self._answer(self.inner.give_back, check, at_ns)

    def renew(self, check: Check, at_ns: int) -> None:
        self._answer(self.inner.renew, check, at_ns)

    def peek(self, check: Check) -> Decision:
        return self._answer(self.inner.peek, check)

    def reset(self, key: str) -> bool:
        return self._answer(self.inner.reset, key)

    def close(self) -> None:
        self.inner.close()

    def stats(self) -> StoreStats:
        return self._answer(self.inner.stats)

    def _answer(self, call: Callable[..., _T], *args: object) -> _T:
        self.calls += 1
        self._clock.advance(self.takes_s)
        if self.error is not None:
            raise self.error
        return call(*args)


class FaultyAsyncStore:
    """A memory store to be awaited that fails on command.

    Attributes:
        error: raised by every call, if set.
        hangs: calls wait for `go_on` before they answer.
        takes_first: what is asked is done before the wait, as by a server whose reply is lost.
        calls: calls that reached it.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.inner = MemoryStore(clock=clock)
        self.error: BaseException | None = None
        self.hangs = False
        self.takes_first = False
        self.calls = 0
        self.go_on = asyncio.Event()

    async def take_async(self, checks: Sequence[Check]) -> list[Decision]:
        return await self._answer(self.inner.take, checks)

    async def charge_async(self, check: Check) -> None:
        await self._answer(self.inner.charge, check)

    async def give_back_async(self, check: Check, at_ns: int) -> None:
        await self._answer(self.inner.give_back, check, at_ns)

    async def renew_async(self, check: Check, at_ns: int) -> None:
        await self._answer(self.inner.renew, check, at_ns)

    async def peek_async(self, check: Check) -> Decision:
        return await self._answer(self.inner.peek, check)

    async def reset_async(self, key: str) -> bool:
        return await self._answer(self.inner.reset, key)

    async def close_async(self) -> None:
        self.inner.close()

    async def _answer(self, call: Callable[..., _T], *args: object) -> _T:
        self.calls += 1
        if self.error is not None:
            raise self.error
        if self.takes_first:
            answer = call(*args)
            await self.go_on.wait()
            return answer
        if self.hangs:
            await self.go_on.wait()
        return call(*args)
