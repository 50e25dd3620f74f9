"""Any number of servers, for threads and for an event loop: they carry what a talk says."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, TypeVar

from ratelimit_middleware.redis_url import Node, RedisUrl
from ratelimit_middleware.stores._deadline import Deadline
from ratelimit_middleware.stores._redis_exchange import replies
from ratelimit_middleware.stores._redis_loop_link import LoopLink
from ratelimit_middleware.stores._redis_talk import Batch, Talk
from ratelimit_middleware.stores._redis_thread_link import ThreadLink
from ratelimit_middleware.stores._redis_trip import no_connection

__all__ = ["LoopNodes", "ThreadNodes"]

_T = TypeVar("_T")


class ThreadNodes:
    """Connections of threads to any number of servers.

    Args:
        address: how to talk to each of them.
        timeout_s: how long each step of connecting may take.
    """

    def __init__(self, address: RedisUrl, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._links: dict[Node, ThreadLink] = {}
        self._kept: Collection[Node] = ()

    def link(self, node: Node) -> ThreadLink:
        """The way to one server."""
        link = self._links.get(node)
        if link is None:
            link = self._links.setdefault(node, ThreadLink(self._address.only(node), self._timeout_s))
        return link

    def hold(self, talk: Talk[_T], until: Deadline) -> _T:
        """Carry a talk to its end: each time to all servers at once, then all replies are read.

        What has not come by `until` is unanswered, and nothing is sent any more.

        Raises:
            StoreError: what the talk raises.
        """
        try:
            batches = next(talk)
            while True:
                batches = talk.send(self._exchange(batches, until))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _exchange(self, batches: list[Batch], until: Deadline) -> list[list[Any]]:
        patience_s = min(batch.patience for batch in batches) * self._timeout_s
        soon = until if patience_s >= self._timeout_s else Deadline(min(until.left_s(), patience_s))
        return replies([(self.link(batch.node).pool, batch.commands) for batch in batches], soon)

    def keep(self, nodes: Collection[Node]) -> None:
        """Close the connections to all others, when there are other ones to keep than the last time."""
        if nodes is self._kept:
            return
        self._kept = nodes
        for node in [node for node in [*self._links] if node not in nodes]:
            link = self._links.pop(node, None)  # unless another thread does the same
            if link:
                link.close()

    def close(self) -> None:
        """Close the connections that no thread is using; a call after that opens new ones."""
        while self._links:
            self._links.popitem()[1].close()


class LoopNodes:
    """Connections of one event loop to any number of servers.

    Args:
        address: how to talk to each of them.
        timeout_s: how long connecting and each reply may take.
    """

    def __init__(self, address: RedisUrl, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._links: dict[Node, LoopLink] = {}
        self._late: set[asyncio.Future[list[Any]]] = set()
        self._kept: Collection[Node] = ()

    def link(self, node: Node) -> LoopLink:
        """The way to one server."""
        link = self._links.get(node)
        if link is None:
            link = self._links[node] = LoopLink(self._address.only(node), self._timeout_s)
        return link

    async def hold(self, talk: Talk[_T]) -> _T:
        """As `ThreadNodes.hold`, until the caller is cancelled."""
        try:
            batches = next(talk)
            while True:
                batches = talk.send(await self._exchange(batches))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _exchange(self, batches: list[Batch]) -> list[list[Any]]:
        if len(batches) == 1:
            return [await self._asked(batches[0])]
        return await asyncio.gather(*(self._asked(batch) for batch in batches))

    async def _asked(self, batch: Batch) -> list[Any]:
        exchange = self.link(batch.node).exchange(batch.commands)
        if batch.patience >= 1:
            return await exchange
        # Not cancelled: redis-py would keep a connection whose handshake is half done.
        task = asyncio.ensure_future(exchange)
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        await asyncio.wait([task], timeout=batch.patience * self._timeout_s)
        return task.result() if task.done() else [no_connection()] * len(batch.commands)

    async def keep(self, nodes: Collection[Node]) -> None:
        """As `ThreadNodes.keep`."""
        if nodes is self._kept:
            return
        self._kept = nodes
        for node in [node for node in self._links if node not in nodes]:
            await self._links.pop(node).retire()

    async def close(self) -> None:
        """Close all connections; a call after that opens new ones."""
        if self._late:
            await asyncio.wait(self._late)
        while self._links:
            await self._links.popitem()[1].close()
