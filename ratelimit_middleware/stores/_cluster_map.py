"""ClusterMap: which server of a Redis Cluster has which slot. Pure, but for the time of the last look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ratelimit_middleware.redis_url import Node

__all__ = ["ClusterMap"]

_SLOTS = 16384
_LOOK_NS = 200_000_000  # between two looks at a map that may be old


class ClusterMap:
    """The primaries and their slots, as the servers tell; threads and event loops of a store share it.

    It is looked at again when an answer shows that it is old, but not more often than five times a second.

    Args:
        seeds: the servers to be asked at first.
        now_ns: tells the time.

    Attributes:
        primaries: those that have slots.
        nodes: all that are in use; another set after each look.
    """

    def __init__(self, seeds: Sequence[Node], now_ns: Callable[[], int]) -> None:
        self._seeds = tuple(seeds)
        self._now_ns = now_ns
        self._owners: list[Node | None] = [None] * _SLOTS
        self._doubted: set[Node] = set()
        self._is_old = True
        self._looked_ns = 0
        self.primaries: tuple[Node, ...] = ()
        self.nodes: set[Node] = set(seeds)

    def owner(self, slot: int) -> Node | None:
        """Who has the slot, as far as is known."""
        return self._owners[slot]

    def is_due(self) -> bool:
        """Whether the caller is to look at the cluster now; says so to one of several."""
        if not self.primaries:
            return True
        now_ns = self._now_ns()
        if not self._is_old or now_ns - self._looked_ns < _LOOK_NS:
            return False
        self._looked_ns = now_ns
        return True

    def informants(self) -> list[Node]:
        """Whom to ask for the map: servers that have failed come last."""
        known = dict.fromkeys([*self.primaries, *self._seeds])
        return sorted(known, key=self._doubted.__contains__)

    def doubt(self, node: Node) -> None:
        """A server has not answered: its slots may have gone to another."""
        self._doubted.add(node)
        self._is_old = True

    def move(self, slot: int, node: Node) -> None:
        """A server has said who has the slot now; others may have moved too."""
        self._owners[slot] = node
        self._is_old = True
        self.note(node)

    def note(self, node: Node) -> None:
        """A server is in use that the map may not know."""
        self.nodes.add(node)

    def learn(self, ranges: Sequence[Any], told_by: Node) -> None:
        """Take the answer to CLUSTER SLOTS for the map.

        Args:
            ranges: first and last slot, then host and port of the primary and of its replicas, each.
            told_by: who has answered: a server may not know its own host.
        """
        owners: list[Node | None] = [None] * _SLOTS
        for first, last, primary, *_ in ranges:
            host = _text(primary[0])
            node = (host if host and host != "?" else told_by[0], int(primary[1]))
            owners[first : last + 1] = [node] * (last + 1 - first)
        self._owners = owners
        self.primaries = tuple(dict.fromkeys(node for node in owners if node))
        self.nodes = {*self.primaries, *self._seeds}
        self._doubted = (self._doubted & self.nodes) - {told_by}
        self._is_old = False
        self._looked_ns = self._now_ns()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
