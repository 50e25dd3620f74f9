"""Coalescer: concurrent requests of one event loop share a call."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["Coalescer"]

logger = logging.getLogger("ratelimit_middleware.stores")

_Ask = TypeVar("_Ask")
_Answer = TypeVar("_Answer")

_MOST_TOGETHER = 128


class Coalescer(Generic[_Ask, _Answer]):
    """Gathers what is asked while a call is on its way; the next call takes it all (up to 128).

    Nobody waits when nothing is on its way: the first ask goes at once. There is one call at a time, in a
    task that ends when nothing is left to ask.

    Args:
        call: answers any number of asks; an answer may be an exception for that ask alone.
        undo: called for an answer whose asker has gone (it was cancelled), in the same task. What it raises
            is logged: those who wait have nothing to do with it.
    """

    def __init__(
        self,
        call: Callable[[Sequence[_Ask]], Awaitable[Sequence[_Answer | Exception]]],
        undo: Callable[[_Ask, _Answer], Awaitable[None]],
    ) -> None:
        self._call = call
        self._undo = undo
        self._waiting: deque[tuple[_Ask, asyncio.Future[_Answer]]] = deque()
        self._left: deque[tuple[_Ask, _Answer]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def ask(self, ask: _Ask) -> _Answer:
        """The answer to one ask.

        Raises:
            Exception: what the call has raised.
        """
        future: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((ask, future))
        self._start()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and not future.exception():
                # Cancelled between the answer and our turn.
                self.leave(ask, future.result())
            raise

    def leave(self, ask: _Ask, answer: _Answer) -> None:
        """Undo an answer whose asker has gone; soon, in the task."""
        self._left.append((ask, answer))
        self._start()

    async def join(self) -> None:
        """Wait until nothing is on its way."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting or self._left:
                await self._undo_left()
                await self._answer(self._next())
        finally:
            self._task = None

    def _next(self) -> list[tuple[_Ask, asyncio.Future[_Answer]]]:
        """Those who wait, without the ones that have gone: they have cost nothing yet."""
        batch: list[tuple[_Ask, asyncio.Future[_Answer]]] = []
        while self._waiting and len(batch) < _MOST_TOGETHER:
            ask, future = self._waiting.popleft()
            if not future.done():
                batch.append((ask, future))
        return batch

    async def _answer(self, batch: Sequence[tuple[_Ask, asyncio.Future[_Answer]]]) -> None:
        if not batch:
            return
        try:
            answers = await self._call([ask for ask, _ in batch])
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error) if isinstance(error, Exception) else future.cancel()
            if not isinstance(error, Exception):
                raise
            return
        for (ask, future), answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception):
                if not future.done():
                    future.set_exception(answer)
            elif future.done():
                self._left.append((ask, answer))
            else:
                future.set_result(answer)

    async def _undo_left(self) -> None:
        while self._left:
            await self._undo_one(*self._left.popleft())

    async def _undo_one(self, ask: _Ask, answer: _Answer) -> None:
        try:
            await self._undo(ask, answer)
        except Exception as error:  # noqa: BLE001 - a reply may be of any shape
            logger.warning("the permits of a cancelled request are lost: %r", error)
