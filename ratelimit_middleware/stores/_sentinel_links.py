"""Ways to the primary that sentinels name; they stand in for `ThreadLink` and `LoopLink`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, TypeVar

from ratelimit_middleware.redis_url import RedisUrl
from ratelimit_middleware.stores._deadline import Deadline
from ratelimit_middleware.stores._redis_nodes import LoopNodes, ThreadNodes
from ratelimit_middleware.stores._redis_script import Script
from ratelimit_middleware.stores._redis_talk import Talk
from ratelimit_middleware.stores._redis_trip import Word, scan, scripted, whole
from ratelimit_middleware.stores._sentinel_talk import Primary, ask

__all__ = ["SentinelLoopLink", "SentinelThreadLink"]

_T = TypeVar("_T")


class SentinelThreadLink:
    """The way of threads.

    Args:
        url: leads to the sentinels.
        timeout_s: how long each step of connecting may take, and a page of a listing.
        primary: what is known of it.
    """

    def __init__(self, url: RedisUrl, timeout_s: float, primary: Primary) -> None:
        self._nodes = ThreadNodes(url, timeout_s)
        self._primary = primary
        self._timeout_s = timeout_s

    def run(self, script: Script, words: Sequence[Word], until: Deadline) -> Any:
        """As `ThreadLink.run`."""
        return self._hold(ask(self._primary, scripted(script, words), whole(script, words)), until)

    def command(self, *words: Word | str, until: Deadline) -> Any:
        """As `ThreadLink.command`."""
        return self._hold(ask(self._primary, words), until)

    def scan(self, pattern: bytes) -> Iterator[list[bytes]]:
        """As `ThreadLink.scan`."""
        cursor = 0
        while True:
            cursor, found = self.command(*scan(cursor, pattern), until=Deadline(self._timeout_s))
            yield found
            cursor = int(cursor)
            if not cursor:
                return

    def close(self) -> None:
        """As `ThreadLink.close`."""
        self._nodes.close()

    def _hold(self, talk: Talk[_T], until: Deadline) -> _T:
        try:
            return self._nodes.hold(talk, until)
        finally:
            self._nodes.keep(self._primary.nodes)


class SentinelLoopLink:
    """The way of one event loop.

    Args:
        url: leads to the sentinels.
        timeout_s: how long connecting and each reply may take.
        primary: what is known of it.
    """

    def __init__(self, url: RedisUrl, timeout_s: float, primary: Primary) -> None:
        self._nodes = LoopNodes(url, timeout_s)
        self._primary = primary

    async def run(self, script: Script, words: Sequence[Word]) -> Any:
        """As `ThreadLink.run`."""
        return await self._hold(ask(self._primary, scripted(script, words), whole(script, words)))

    async def command(self, *words: Word | str) -> Any:
        """As `ThreadLink.command`."""
        return await self._hold(ask(self._primary, words))

    async def scan(self, pattern: bytes) -> AsyncIterator[list[bytes]]:
        """As `ThreadLink.scan`."""
        cursor = 0
        while True:
            cursor, found = await self.command(*scan(cursor, pattern))
            yield found
            cursor = int(cursor)
            if not cursor:
                return

    async def close(self) -> None:
        """As `LoopLink.close`."""
        await self._nodes.close()

    async def _hold(self, talk: Talk[_T]) -> _T:
        try:
            return await self._nodes.hold(talk)
        finally:
            await self._nodes.keep(self._primary.nodes)
