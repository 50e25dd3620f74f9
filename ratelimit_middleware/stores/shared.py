"""SharedStore: buckets that all workers of one host share, with no server to run.

A memory-mapped LMDB database: one write transaction a request, the same arithmetic as in memory.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from mmap import PAGESIZE
from pathlib import Path
from typing import TypeVar

from ratelimit_middleware.algorithms.base import AdoptMode, positive_int
from ratelimit_middleware.clock import Clock, steady
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.stores._loop_guard import LoopGuard
from ratelimit_middleware.stores._shared_buckets import SharedBuckets
from ratelimit_middleware.stores._shared_file import FullError, ReplacedError, SharedFile, shared_file
from ratelimit_middleware.stores._shared_place import LEAST_BYTES, default_directory
from ratelimit_middleware.stores.base import Check, Look, StoreStats

__all__ = ["SharedStore"]

logger = logging.getLogger("ratelimit_middleware.stores")

_T = TypeVar("_T")


class SharedStore:
    """Buckets of all processes of this user that name the same directory; for threads and event loops.

    Exact across processes, whether they are forked (before or after the store is made) or spawned. A
    process that is killed, in the middle of a call too, leaves the others at work and the counts right.
    A process that is *stopped* in the middle of a call (SIGSTOP, a debugger) makes the others wait: on
    an event loop a store that has been slow moves to a thread, see `LoopGuard`.

    Bounded: by `max_keys`, and by the size of the file, which is allocated when it is made. What happens
    when it is full is what `MemoryStore` does.

    Args:
        directory: where the file lies; made if it is missing. By default one per user, in /dev/shm or
            among the temporary files: apps of one user that must not share their counts name their own.
        max_keys: the most buckets held (besides one overflow bucket a limit).
        size: bytes of a new file; halved until there is room.
        clock: where time comes from, for tests; by default one clock for all processes, kept in the file.
        keep_state: what happens to a bucket whose limit got other numbers.

    Raises:
        InvalidLimitError: `max_keys` is not a whole number above 0, or `size` under 1 MiB.
        StoreError: the file cannot be opened, or it would not be safe to; or lmdb is not installed.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        max_keys: int = 100_000,
        size: int = 64 << 20,
        clock: Clock | None = None,
        keep_state: AdoptMode = "keep",
    ) -> None:
        self._directory = None if directory is None else Path(directory).absolute()
        self._max_keys = positive_int("max_keys", max_keys)
        self._size = positive_int("size", size) // PAGESIZE * PAGESIZE
        if self._size < LEAST_BYTES:
            raise InvalidLimitError("size", size, f"a whole number of bytes, at least {LEAST_BYTES}")
        self._clock_ns = steady(clock) if clock else None
        self._buckets = SharedBuckets(self._max_keys, keep_state)
        self._guard = LoopGuard()
        self._file: SharedFile | None = None
        self._ready()

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        """Decide all checks with one start time, all or nothing; see `Store.take`."""
        overflowed = self._buckets.overflowed
        try:
            decisions = self._run(self._buckets.take, checks)
        except FullError:  # buckets have grown: the expired ones make room
            self._run(self._buckets.sweep)
            decisions = self._run(self._buckets.take, checks)
        if not overflowed and self._buckets.overflowed:
            logger.warning(
                "shared store is full with %d keys in use: new clients of a limit share one bucket until "
                "keys expire (max_keys=%d and the size of a new file can be raised)",
                self.stats().keys,
                self._max_keys,
            )
        return decisions

    def charge(self, check: Check) -> None:
        """Consume without asking."""
        self._run(self._buckets.charge, check)

    def give_back(self, check: Check, at_ns: int) -> None:
        """Undo a booking; nothing if its bucket has been forgotten."""
        self._run(self._buckets.give_back, check, at_ns)

    def renew(self, check: Check, at_ns: int) -> None:
        """The lease of a slot begins anew; see `Store.renew`."""
        self._run(self._buckets.renew, check, at_ns)

    def peek(self, check: Check) -> Decision:
        """What a request would hear; nothing changes."""
        return self._run(self._buckets.peek, check)

    def reset(self, key: str) -> bool:
        """Forget a bucket, for all processes; True if it was there."""
        return self._run(self._buckets.reset, key)

    def scan(self, beginning: str = "") -> Iterator[str]:
        """The keys that are there; see `BrowsableStore.scan`. Keys of more than 500 bytes are left out."""
        after: str | None = None
        while True:
            found, after = self._run(self._buckets.keys, beginning, after)
            yield from found
            if after is None:
                return

    def look(self, key: str) -> Look | None:
        """What stands in a bucket; None if it is not there."""
        return self._run(self._buckets.look, key)

    def close(self) -> None:
        """Let go of the file, which stays; a call after that opens it again."""
        self._guard.close()
        self._file = None

    def stats(self) -> StoreStats:
        """A snapshot for metrics; `overflowed` counts the checks of this process."""
        return StoreStats(self._run(self._buckets.count), self._max_keys, self._buckets.overflowed)

    async def take_async(self, checks: Sequence[Check]) -> list[Decision]:
        """`take` on an event loop."""
        return await self._guard.call(self.take, checks)

    async def charge_async(self, check: Check) -> None:
        """`charge` on an event loop."""
        await self._guard.call(self.charge, check)

    async def give_back_async(self, check: Check, at_ns: int) -> None:
        """`give_back` on an event loop."""
        await self._guard.call(self.give_back, check, at_ns)

    async def renew_async(self, check: Check, at_ns: int) -> None:
        """`renew` on an event loop."""
        await self._guard.call(self.renew, check, at_ns)

    async def peek_async(self, check: Check) -> Decision:
        """`peek` on an event loop."""
        return await self._guard.call(self.peek, check)

    async def reset_async(self, key: str) -> bool:
        """`reset` on an event loop."""
        return await self._guard.call(self.reset, key)

    async def close_async(self) -> None:
        """`close` on an event loop."""
        self.close()

    def _run(self, work: Callable[..., _T], *args: object) -> _T:
        """`work` in a transaction of its own; once more where the file has been replaced meanwhile."""
        try:
            return self._ready().run(self._buckets.enter, work, args)
        except ReplacedError:
            self._file = None
        return self._ready().run(self._buckets.enter, work, args)

    def _ready(self) -> SharedFile:
        """The file; opened anew in a process that was forked."""
        file = self._file
        if file is None or file.pid != os.getpid():
            file = self._file = shared_file(self._directory or default_directory(), self._size)
            self._buckets.use(file.room, self._clock_ns or file.now_ns)
        return file
