"""What a Redis store keeps for one event loop: its connections, and the requests that share a call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._coalesce import Coalescer
from ratelimit_middleware.stores._redis_links import LoopLink
from ratelimit_middleware.stores._redis_plan import Ask, Planner, moment
from ratelimit_middleware.stores._redis_script import Script

__all__ = ["LoopSide"]

logger = logging.getLogger("ratelimit_middleware.stores")


class LoopSide:
    """The asynchronous half of a `RedisStore`, on one event loop.

    Args:
        planner: makes calls and reads replies.
        script: what the server runs.
        link: the connections.
        time_us: the time for tests; None = the server's.
    """

    def __init__(
        self, planner: Planner, script: Script, link: LoopLink, time_us: Callable[[], int | None]
    ) -> None:
        self._planner = planner
        self._script = script
        self._time_us = time_us
        self._together = Coalescer(self._take_all, self._undo)
        self.link = link

    async def take(self, ask: Ask) -> list[Decision]:
        """The decisions of one request, perhaps in a call with others."""
        return await self._together.ask(ask)

    async def call(self, name: str, ask: Ask, detail: bytes = b"") -> tuple[int, Any]:
        """Do one thing for one request: the moment and the reply."""
        while True:
            action = self._planner.call(name, [ask], detail, self._time_us())
            now_us, reply = await self.link.run(self._script, action.words())
            if self._planner.is_settled(ask, reply, now_us):
                return now_us, reply

    async def give_back(self, ask: Ask, at_ns: int) -> None:
        """Undo a booking."""
        await self.call("give_back", ask, moment(at_ns))

    async def close(self) -> None:
        """Wait for what is on its way, then close the connections."""
        await self._together.join()
        await self.link.close()

    async def _take_all(self, asks: Sequence[Ask]) -> list[list[Decision] | Exception]:
        """One call for all; those that met buckets with other numbers go out once more."""
        answers: dict[int, list[Decision] | Exception] = {}
        pending = dict(enumerate(asks))
        while pending:
            action = self._planner.take([*pending.values()], self._time_us())
            now_us, *replies = await self.link.run(self._script, action.words())
            for (place, ask), reply in zip([*pending.items()], replies, strict=True):
                answer = self._settle(ask, reply, now_us)
                if answer is not None:
                    answers[place] = answer
                    del pending[place]
        return [answers[place] for place in range(len(asks))]

    def _settle(self, ask: Ask, reply: Any, now_us: int) -> list[Decision] | Exception | None:
        """The answer to one request; None if it has to ask again."""
        try:
            if self._planner.is_settled(ask, reply, now_us):
                return self._planner.decisions(ask, now_us, reply)
        except StoreError as error:
            return error
        return None

    async def _undo(self, ask: Ask, decisions: list[Decision]) -> None:
        """Give back what a request that was cancelled in the meantime has got."""
        is_granted = all(
            d.allowed for check, d in zip(ask.checks, decisions, strict=True) if not check.shadow
        )
        for check, decision in zip(ask.checks, decisions, strict=True):
            if decision.allowed if check.shadow else is_granted:
                try:
                    await self.give_back(self._planner.ask([check]), decision.at_ns)
                except StoreError as error:
                    logger.warning("the permits of a cancelled request are lost: %s", error)
