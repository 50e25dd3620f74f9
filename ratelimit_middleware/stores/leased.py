"""LeasedStore: a remote store whose permits are taken in blocks, so that most requests need no round trip."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.clock import Clock, SystemClock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.store_settings import LeaseSettings
from ratelimit_middleware.stores._blocks import Ask, Blocks
from ratelimit_middleware.stores.base import (
    AsyncStore,
    BrowsableStore,
    Check,
    ChoosyStore,
    Look,
    SpreadStore,
    Store,
    StoreStats,
)

__all__ = ["LeasedStore", "RemoteStore"]

_MOST_GIVEN_BACK = 4  # in one go: whoever has to ask the store anyway pays for it


class RemoteStore(Store, AsyncStore, BrowsableStore, ChoosyStore, Protocol):
    """A store for threads and event loops."""


class LeasedStore:
    """Takes the permits of busy limits `n/period` in blocks and spends them in this process.

    The bound holds over all processes that use the store with the same settings: at most n in any period. The
    price: a block counts for `max_age` longer, permits that lie unspent in one process are missing in
    another, and the numbers that clients are told are those of the last call. Other limits, requests
    that may wait, shadow checks and limits whose period is shorter than ten times `max_age` are asked for
    each time.

    Args:
        store: where the counts live.
        lease: how large, and how old, blocks may become.
        clock: tells how old a block is; only differences count, the store has a clock of its own.
    """

    def __init__(self, store: RemoteStore, lease: LeaseSettings, *, clock: Clock | None = None) -> None:
        self._store = store
        self._spread = store if isinstance(store, SpreadStore) else None
        self._lease = lease
        self._now_ns = (clock or SystemClock()).now_ns
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._blocks = Blocks(self._lease)
        self._lock = threading.Lock()

    def accept(self, algorithm: Algorithm) -> None:
        """Return if limits of these numbers can be counted; see `ChoosyStore.accept`."""
        self._store.accept(self._counted(Check("", algorithm, "")).algorithm)

    def places(self, keys: Iterable[str]) -> Collection[Hashable]:
        """Those of the store; see `SpreadStore.places`."""
        return self._spread.places(keys) if self._spread else (None,)

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        """Decide all checks with one start time, all or nothing; see `Store.take`."""
        for modest in (False, True):
            ask = self._begin(checks, modest=modest)
            if not isinstance(ask, Ask):
                return ask
            try:
                for check, at_ns in self._due():
                    self._store.give_back(check, at_ns)
                decisions = self._store.take(ask.asked)
            except BaseException:
                self._abandon(ask)
                raise
            answer = self._end(ask, decisions)
            if answer is not None:
                return answer
        raise AssertionError("a modest ask is always answered")

    def charge(self, check: Check) -> None:
        """Consume without asking."""
        self._store.charge(self._counted(check))

    def give_back(self, check: Check, at_ns: int) -> None:
        """Undo a booking: into its block, or in the store."""
        counted = self._given_back(check, at_ns)
        if counted is not None:
            self._store.give_back(counted, at_ns)

    def renew(self, check: Check, at_ns: int) -> None:
        """The lease of a slot begins anew; see `Store.renew`."""
        self._store.renew(check, at_ns)

    def peek(self, check: Check) -> Decision:
        """What a request would hear of the store; what lies in blocks counts as used."""
        return self._store.peek(self._counted(check))

    def reset(self, key: str) -> bool:
        """Forget a bucket and its block here; other processes may spend theirs until it is too old."""
        self._forget(key)
        return self._store.reset(key)

    def scan(self, beginning: str = "") -> Iterator[str]:
        """The keys that are there; see `BrowsableStore.scan`."""
        return self._store.scan(beginning)

    def look(self, key: str) -> Look | None:
        """What stands in a bucket of the store; its period is longer by `max_age`."""
        return self._store.look(key)

    def close(self) -> None:
        """Give back what is left, if the store answers; let go of everything."""
        with suppress(StoreError):
            for check, at_ns in self._empty():
                self._store.give_back(check, at_ns)
        self._store.close()

    def stats(self) -> StoreStats:
        """Those of the store."""
        return self._store.stats()

    async def take_async(self, checks: Sequence[Check]) -> list[Decision]:
        """`take` on an event loop."""
        for modest in (False, True):
            ask = self._begin(checks, modest=modest)
            if not isinstance(ask, Ask):
                return ask
            try:
                for check, at_ns in self._due():
                    await self._store.give_back_async(check, at_ns)
                decisions = await self._store.take_async(ask.asked)
            except BaseException:
                self._abandon(ask)
                raise
            answer = self._end(ask, decisions)
            if answer is not None:
                return answer
        raise AssertionError("a modest ask is always answered")

    async def charge_async(self, check: Check) -> None:
        """`charge` on an event loop."""
        await self._store.charge_async(self._counted(check))

    async def give_back_async(self, check: Check, at_ns: int) -> None:
        """`give_back` on an event loop."""
        counted = self._given_back(check, at_ns)
        if counted is not None:
            await self._store.give_back_async(counted, at_ns)

    async def renew_async(self, check: Check, at_ns: int) -> None:
        """`renew` on an event loop."""
        await self._store.renew_async(check, at_ns)

    async def peek_async(self, check: Check) -> Decision:
        """`peek` on an event loop."""
        return await self._store.peek_async(self._counted(check))

    async def reset_async(self, key: str) -> bool:
        """`reset` on an event loop."""
        self._forget(key)
        return await self._store.reset_async(key)

    async def close_async(self) -> None:
        """`close` on an event loop."""
        with suppress(StoreError):
            for check, at_ns in self._empty():
                await self._store.give_back_async(check, at_ns)
        await self._store.close_async()

    def _begin(self, checks: Sequence[Check], *, modest: bool) -> Ask | list[Decision]:
        if self._pid != os.getpid():  # forked: the blocks are the parent's to spend
            self._start()
        with self._lock:
            return self._blocks.begin(checks, self._now_ns(), modest=modest)

    def _end(self, ask: Ask, decisions: Sequence[Decision]) -> list[Decision] | None:
        with self._lock:
            return self._blocks.end(ask, decisions, self._now_ns())

    def _abandon(self, ask: Ask) -> None:
        with self._lock:
            self._blocks.abandon(ask)

    def _due(self) -> list[tuple[Check, int]]:
        with self._lock:
            return self._blocks.due(_MOST_GIVEN_BACK)

    def _empty(self) -> list[tuple[Check, int]]:
        with self._lock:
            return self._blocks.empty()

    def _forget(self, key: str) -> None:
        with self._lock:
            self._blocks.forget(key)

    def _given_back(self, check: Check, at_ns: int) -> Check | None:
        with self._lock:
            return self._blocks.give_back(check, at_ns, self._now_ns())

    def _counted(self, check: Check) -> Check:
        with self._lock:
            return self._blocks.counted(check)
