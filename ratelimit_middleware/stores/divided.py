"""DividedStore: a memory store that counts one process's share of each limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ratelimit_middleware.algorithms.base import Algorithm, positive_int
from ratelimit_middleware.clock import Clock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.stores.base import Check, Look, StoreStats
from ratelimit_middleware.stores.memory import MemoryStore

__all__ = ["DividedStore"]

_MOST_CACHED = 4096


class DividedStore:
    """Buckets of this process, each limit divided by the number of processes, rounded down, at least 1.

    A request that costs more than a process's share takes the whole share, or it would never be
    admitted. Requests that the server spreads unevenly over the processes are refused early; those of one
    client that stays on one connection get one process's share.

    Args:
        workers: processes that share each limit.
        max_keys: the most buckets held.
        clock: where time comes from.

    Raises:
        InvalidLimitError: `workers` or `max_keys` is not a whole number above 0.
    """

    def __init__(self, workers: int, *, max_keys: int = 100_000, clock: Clock | None = None) -> None:
        self.workers = positive_int("workers", workers)
        self._memory = MemoryStore(max_keys=max_keys, clock=clock)
        # By identity: an algorithm is frozen, and hashing its fields costs as much as its arithmetic.
        self._shares: dict[int, tuple[Algorithm, Algorithm]] = {}

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        """Decide all checks with one start time, all or nothing; see `Store.take`."""
        return self._memory.take([self._capped(check) for check in checks])

    def charge(self, check: Check) -> None:
        """Consume without asking."""
        self._memory.charge(check._replace(algorithm=self._share(check.algorithm)))

    def give_back(self, check: Check, at_ns: int) -> None:
        """Undo a booking; nothing if its bucket has been forgotten."""
        self._memory.give_back(self._capped(check), at_ns)

    def renew(self, check: Check, at_ns: int) -> None:
        """The lease of a slot begins anew."""
        self._memory.renew(self._capped(check), at_ns)

    def peek(self, check: Check) -> Decision:
        """What a request would hear; nothing changes."""
        return self._memory.peek(self._capped(check))

    def reset(self, key: str) -> bool:
        """Forget a bucket; True if it was there."""
        return self._memory.reset(key)

    def scan(self, beginning: str = "") -> Iterator[str]:
        """The keys that are there."""
        return self._memory.scan(beginning)

    def look(self, key: str) -> Look | None:
        """What stands in a bucket, in this process's numbers."""
        return self._memory.look(key)

    def close(self) -> None:
        """Forget everything."""
        self._memory.close()

    def stats(self) -> StoreStats:
        """A snapshot for metrics."""
        return self._memory.stats()

    def _capped(self, check: Check) -> Check:
        """The check in this process's numbers."""
        share = self._share(check.algorithm)
        most = share.smallest_full_take or check.cost  # a limit of 0 refuses every cost by itself
        return check._replace(algorithm=share, cost=min(check.cost, most))

    def _share(self, algorithm: Algorithm) -> Algorithm:
        known = self._shares.get(id(algorithm))
        if known is not None:
            return known[1]
        share: Algorithm = algorithm.scaled(1 / self.workers)
        if len(self._shares) >= _MOST_CACHED:
            self._shares.clear()
        self._shares[id(algorithm)] = (algorithm, share)
        return share
