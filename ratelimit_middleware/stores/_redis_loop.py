"""What a Redis store keeps for one event loop: its connections, and the requests that share a call."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol

from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._coalesce import Coalescer
from ratelimit_middleware.stores._redis_plan import Ask, Planner, bookings, moment
from ratelimit_middleware.stores._redis_script import Script
from ratelimit_middleware.stores._redis_trip import Word
from ratelimit_middleware.stores.base import Check

__all__ = ["Loop", "LoopSide"]

logger = logging.getLogger("ratelimit_middleware.stores")


class Loop(Protocol):
    """The half of a `RedisStore` that is awaited, on one event loop; as `Threads`."""

    async def take(self, checks: Sequence[Check]) -> list[Decision]:
        """The decisions of one request."""

    async def call(self, name: str, ask: Ask, detail: bytes = b"") -> tuple[int, Any]:
        """Do one thing for one bucket: the moment and the reply."""

    async def delete(self, key: str) -> bool:
        """Forget a bucket; True if it was there."""

    def scan(self, beginning: str) -> AsyncIterator[str]:
        """The buckets whose keys begin so."""

    async def close(self) -> None:
        """Wait for what is on its way, then close the connections."""


class _Link(Protocol):
    """A way to one server, as `LoopLink`."""

    async def run(self, script: Script, words: Sequence[Word]) -> Any:
        """What the script answers."""

    async def command(self, *words: Word | str) -> Any:
        """What a plain command answers."""

    def scan(self, pattern: bytes) -> AsyncIterator[list[bytes]]:
        """The keys that match, some at a time."""

    async def close(self) -> None:
        """Close the connections."""


class LoopSide:
    """The asynchronous half of a `RedisStore`, on one event loop.

    Args:
        planner: makes calls and reads replies.
        script: what the server runs.
        link: the connections.
        time_us: the time for tests; None = the server's.
    """

    def __init__(
        self, planner: Planner, script: Script, link: _Link, time_us: Callable[[], int | None]
    ) -> None:
        self._planner = planner
        self._script = script
        self._time_us = time_us
        self._together = Coalescer(self._take_all, self._undo)
        self._link = link

    async def take(self, checks: Sequence[Check]) -> list[Decision]:
        """The decisions of one request, perhaps in a call with others."""
        return await self._together.ask(self._planner.ask(checks))

    async def call(self, name: str, ask: Ask, detail: bytes = b"") -> tuple[int, Any]:
        """Do one thing for one request: the moment and the reply."""
        while True:
            action = self._planner.call(name, [ask], detail, self._time_us())
            now_us, reply = await self._link.run(self._script, action.words())
            if self._planner.is_settled(ask, reply, now_us):
                return now_us, reply

    async def delete(self, key: str) -> bool:
        """Forget a bucket; True if it was there."""
        return bool(await self._link.command("DEL", self._planner.keys.key(key)))

    async def scan(self, beginning: str) -> AsyncIterator[str]:
        """The buckets whose keys begin so."""
        keys = self._planner.keys
        async for found in self._link.scan(keys.pattern(beginning)):
            for name in keys.names(found):
                yield name

    async def close(self) -> None:
        """Wait for what is on its way, then close the connections."""
        await self._together.join()
        await self._link.close()

    async def _take_all(self, asks: Sequence[Ask]) -> list[list[Decision] | Exception]:
        """One call for all; those that met buckets with other numbers go out once more."""
        answers: dict[int, list[Decision] | Exception] = {}
        pending = dict(enumerate(asks))
        while pending:
            action = self._planner.take([*pending.values()], self._time_us())
            now_us, *replies = await self._link.run(self._script, action.words())
            for (place, ask), reply in zip([*pending.items()], replies, strict=True):
                answer = self._planner.settled(ask, reply, now_us)
                if answer is not None:
                    answers[place] = answer
                    del pending[place]
        return [answers[place] for place in range(len(asks))]

    async def _undo(self, ask: Ask, decisions: list[Decision]) -> None:
        """Give back what a request that was cancelled in the meantime has got."""
        for check, at_ns in bookings(ask.checks, decisions):
            await self._give_back(check, at_ns)

    async def _give_back(self, check: Check, at_ns: int) -> None:
        try:
            await self.call("give_back", self._planner.ask([check]), moment(at_ns))
        except StoreError as error:
            logger.warning("the permits of a cancelled request are lost: %s", error)
