"""LoopGuard: a quick blocking call on an event loop, for as long as it is quick."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ratelimit_middleware.clock import Clock, SystemClock
from ratelimit_middleware.errors import StoreError

__all__ = ["LoopGuard"]

logger = logging.getLogger("ratelimit_middleware.stores")

_T = TypeVar("_T")

_SLOW_NS = 5_000_000
_SLOW_IN_A_ROW = 3
_QUICK_IN_A_ROW = 1000


class LoopGuard:
    """Makes calls on the loop itself, in microseconds, and moves them to a thread when they get slow.

    Three calls in a row of 5 ms and more move it, a thousand quick ones bring it back. One thread, since
    the calls wait for the same lock anyhow. In the thread a call has `timeout_s`; one that had begun by
    then still consumes its permits, one that had not is dropped.

    Args:
        timeout_s: how long a call in the thread may take, its turn included.
        clock: tells how long calls take.
    """

    def __init__(self, *, timeout_s: float = 1.0, clock: Clock | None = None) -> None:
        self._timeout_s = timeout_s
        self._now_ns = (clock or SystemClock()).now_ns
        self._in_a_row = 0
        self._threads: tuple[int, ThreadPoolExecutor] | None = None
        self.in_thread = False

    async def call(self, function: Callable[..., _T], *args: object) -> _T:
        """The result of `function(*args)`.

        Raises:
            StoreError: it did not come in time.
        """
        if not self.in_thread:
            return self._timed(function, *args)
        import asyncio

        loop = asyncio.get_running_loop()
        call = loop.run_in_executor(self._executor(), self._timed, function, *args)
        try:
            return await asyncio.wait_for(call, self._timeout_s)
        except asyncio.TimeoutError as error:  # the built-in one only since 3.11
            raise StoreError(f"the store has not answered within {self._timeout_s:g} s") from error

    def close(self) -> None:
        """End the thread when its call is done."""
        threads, self._threads = self._threads, None
        if threads and threads[0] == os.getpid():
            threads[1].shutdown(wait=False, cancel_futures=True)

    def _timed(self, function: Callable[..., _T], *args: object) -> _T:
        started_ns = self._now_ns()
        try:
            return function(*args)
        finally:
            self._note(self._now_ns() - started_ns)

    def _note(self, took_ns: int) -> None:
        """Count calls that speak for the other side."""
        if (took_ns >= _SLOW_NS) == self.in_thread:
            self._in_a_row = 0
            return
        self._in_a_row += 1
        if self._in_a_row == (_QUICK_IN_A_ROW if self.in_thread else _SLOW_IN_A_ROW):
            self._in_a_row = 0
            self.in_thread = not self.in_thread
            if self.in_thread:
                logger.warning("the store is slow (%.0f ms): it is asked from a thread now", took_ns / 1e6)

    def _executor(self) -> ThreadPoolExecutor:
        """The thread of this process: one that was there before a fork is not there after it."""
        if self._threads is None or self._threads[0] != os.getpid():
            self._threads = (os.getpid(), ThreadPoolExecutor(1, "ratelimit-store"))
        return self._threads[1]
