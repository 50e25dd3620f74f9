"""The halves of a `RedisStore` with a cluster: for threads, and for one event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, TypeVar

from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.redis_url import Node
from ratelimit_middleware.stores._cluster_calls import ClusterCalls
from ratelimit_middleware.stores._cluster_take import Answer, JointTake, Part
from ratelimit_middleware.stores._coalesce import Coalescer
from ratelimit_middleware.stores._deadline import Deadline
from ratelimit_middleware.stores._redis_nodes import LoopNodes, ThreadNodes
from ratelimit_middleware.stores._redis_plan import Ask, Planner, bookings
from ratelimit_middleware.stores._redis_talk import Talk
from ratelimit_middleware.stores.base import Check

__all__ = ["ClusterLoopSide", "ClusterThreadSide"]

logger = logging.getLogger("ratelimit_middleware.stores")

_T = TypeVar("_T")

_TO_GIVE_BACK_S = 0.05


class ClusterThreadSide:
    """The threads' half.

    Args:
        planner: makes calls and reads replies.
        calls: what is said to the cluster.
        nodes: the connections.
        timeout_s: how long a call may take, whatever belongs to it.
    """

    def __init__(self, planner: Planner, calls: ClusterCalls, nodes: ThreadNodes, timeout_s: float) -> None:
        self._planner = planner
        self._calls = calls
        self._nodes = nodes
        self._timeout_s = timeout_s

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        """The decisions of one request: all slots are asked at once."""
        take = JointTake(self._planner.ask(checks).checks, self._calls.slot)
        until = self._soon()
        while take.pending:
            self._undo(take.excess)
            take.heard(self._hold(self._calls.take(take.pending), until))
        self._undo(take.excess)
        return take.decisions()

    def call(self, name: str, ask: Ask, detail: bytes = b"") -> tuple[int, Any]:
        """Do one thing for one bucket: the moment and the reply."""
        return self._hold(self._calls.call(name, ask, detail), self._soon())

    def read(self, key: str) -> tuple[bytes | None, int]:
        """The entry of a bucket, if it has one, and its server's time in us."""
        return self._hold(self._calls.read(key), self._soon())

    def delete(self, key: str) -> bool:
        """Forget a bucket; True if it was there."""
        return bool(self._hold(self._calls.command("DEL", key), self._soon()))

    def scan(self, beginning: str) -> Iterator[str]:
        """The buckets of all servers whose keys begin so."""
        self._hold(self._calls.look(), self._soon())
        keys = self._planner.keys
        for node in self._calls.cluster.primaries:
            for found in self._nodes.link(node).scan(keys.pattern(beginning)):
                yield from keys.names(found)

    def size(self) -> int:
        """Keys of all servers."""
        until = self._soon()
        self._hold(self._calls.look(), until)
        links = [self._nodes.link(node) for node in self._calls.cluster.primaries]
        return sum(int(link.command("DBSIZE", until=until)) for link in links)

    def close(self) -> None:
        """Close the connections that no thread is using; a call after that opens new ones."""
        self._nodes.close()

    def _soon(self) -> Deadline:
        return Deadline(self._timeout_s)

    def _hold(self, talk: Talk[_T], until: Deadline) -> _T:
        try:
            return self._nodes.hold(talk, until)
        finally:
            self._nodes.keep(self._calls.cluster.nodes)

    def _undo(self, excess: Sequence[tuple[Check, int]]) -> None:
        """Give back, even if the request has used up its time: what is not sent now is lost."""
        if excess:
            until = Deadline(min(self._timeout_s, _TO_GIVE_BACK_S))
            _log(self._hold(self._calls.give_back(excess), until))


class ClusterLoopSide:
    """The half for one event loop. Requests share calls server by server, so that none waits for another.

    Args:
        planner: makes calls and reads replies.
        calls: what is said to the cluster.
        nodes: the connections.
    """

    def __init__(self, planner: Planner, calls: ClusterCalls, nodes: LoopNodes) -> None:
        self._planner = planner
        self._calls = calls
        self._nodes = nodes
        self._together: dict[Node | None, Coalescer[Part, list[Decision]]] = {}
        self._undoing: set[asyncio.Task[None]] = set()

    async def take(self, checks: Sequence[Check]) -> list[Decision]:
        """The decisions of one request: all slots are asked at once."""
        take = JointTake(self._planner.ask(checks).checks, self._calls.slot)
        try:
            while take.pending:
                await self._undone(take.excess)
                take.heard(await self._ask(take.pending))
            await self._undone(take.excess)
        except asyncio.CancelledError:
            for part, decisions in take.granted:
                self._coalescer(part).leave(part, decisions)
            raise
        return take.decisions()

    async def call(self, name: str, ask: Ask, detail: bytes = b"") -> tuple[int, Any]:
        """Do one thing for one bucket: the moment and the reply."""
        return await self._hold(self._calls.call(name, ask, detail))

    async def delete(self, key: str) -> bool:
        """Forget a bucket; True if it was there."""
        return bool(await self._hold(self._calls.command("DEL", key)))

    async def scan(self, beginning: str) -> AsyncIterator[str]:
        """The buckets of all servers whose keys begin so."""
        await self._hold(self._calls.look())
        keys = self._planner.keys
        for node in self._calls.cluster.primaries:
            async for found in self._nodes.link(node).scan(keys.pattern(beginning)):
                for name in keys.names(found):
                    yield name

    async def close(self) -> None:
        """Wait for what is on its way, then close the connections."""
        for coalescer in [*self._together.values()]:
            await coalescer.join()
        self._together.clear()
        if self._undoing:
            await asyncio.wait(self._undoing)
        await self._nodes.close()

    async def _ask(self, parts: Sequence[Part]) -> list[Answer]:
        if len(parts) == 1:
            try:
                return [await self._coalescer(parts[0]).ask(parts[0])]
            except Exception as error:  # noqa: BLE001 - it is the answer of this part
                return [error]
        tasks = [asyncio.ensure_future(self._coalescer(part).ask(part)) for part in parts]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            await self._abandon(parts, tasks)
            raise
        return [task.exception() or task.result() for task in tasks]  # type: ignore[misc]

    async def _abandon(self, parts: Sequence[Part], tasks: Sequence[asyncio.Task[list[Decision]]]) -> None:
        """Whoever has asked has gone: what has been granted by now is given back, and what will be too."""
        for part, task in zip(parts, tasks, strict=True):
            if not task.cancel() and not task.cancelled() and not task.exception():
                self._coalescer(part).leave(part, task.result())
        await asyncio.wait(tasks)  # they end at once: each only waits for its coalescer

    def _coalescer(self, part: Part) -> Coalescer[Part, list[Decision]]:
        node = self._calls.cluster.owner(self._calls.slot(part.ask.checks[0].key))
        coalescer = self._together.get(node)
        if coalescer is None:
            coalescer = self._together[node] = Coalescer(self._take_all, self._undo_part)
        return coalescer

    async def _take_all(self, parts: Sequence[Part]) -> list[Answer]:
        return await self._hold(self._calls.take(parts))

    async def _hold(self, talk: Talk[_T]) -> _T:
        try:
            return await self._nodes.hold(talk)
        finally:
            await self._nodes.keep(self._calls.cluster.nodes)

    async def _undo_part(self, part: Part, decisions: list[Decision]) -> None:
        await self._undo(bookings(part.ask.checks, decisions))

    async def _undone(self, excess: Sequence[tuple[Check, int]]) -> None:
        """Undo, to the end even if the request is cancelled meanwhile: it may not be begun again."""
        if excess:
            task = asyncio.ensure_future(self._undo(excess))
            self._undoing.add(task)
            task.add_done_callback(self._undoing.discard)
            await asyncio.shield(task)

    async def _undo(self, excess: Sequence[tuple[Check, int]]) -> None:
        if excess:
            _log(await self._hold(self._calls.give_back(excess)))


def _log(lost: Sequence[StoreError]) -> None:
    for error in lost:
        logger.warning("permits that were not used are lost: %s", error)
