"""Guards: a store that is slow or gone neither holds requests up nor decides by accident.

A guard asks its store within a time, stops asking one that fails for a while (a circuit breaker), and in
the meantime does what the policy of each limit says: `allow`, `deny` or `fallback`. Each server of a store on
several has a breaker of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Coroutine, Hashable, Sequence
from typing import Any, TypeVar

from ratelimit_middleware.clock import NS_PER_SECOND, Clock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.store_settings import StoreSettings
from ratelimit_middleware.stores._health import GuardStats, Health, LoopStoodStillError, NoAnswerError
from ratelimit_middleware.stores._outage import HereNs, Outage
from ratelimit_middleware.stores.base import AsyncStore, Check, SpreadStore, Store, StoreStats
from ratelimit_middleware.stores.divided import DividedStore

__all__ = ["GuardStats", "GuardedAsyncStore", "GuardedDualStore", "GuardedStore", "guarded"]

_T = TypeVar("_T")

_ONE_PLACE = (None,)


class _Guard:
    """What guards of both worlds share."""

    def __init__(self, store: Store | AsyncStore, settings: StoreSettings, clock: Clock | None) -> None:
        workers = settings.expected_workers
        if settings.policy == "fallback" and workers is None:
            raise InvalidLimitError("expected_workers", None, "the number of processes that share the store")
        self._spread = store if isinstance(store, SpreadStore) else None
        self._health = Health(settings.policy, settings.timeout_ns, clock)
        fallback = DividedStore(workers or 1, max_keys=settings.max_keys, clock=clock)
        self._outage = Outage(settings.policy, fallback, self._health.retry_after_ns)

    def health(self) -> GuardStats:
        """What the guard has seen of its store."""
        return self._health.stats()

    def _places(self, checks: Sequence[Check]) -> Collection[Hashable]:
        """Where the store counts, as far as its places may fail one by one."""
        return self._spread.places([check.key for check in checks]) if self._spread else _ONE_PLACE

    def _place(self, key: str) -> Collection[Hashable]:
        return self._spread.places([key]) if self._spread else _ONE_PLACE

    def _is_done_here(self, check: Check, at_ns: int) -> bool:
        """Give back a booking that does not stand in the store; False if it does."""
        if isinstance(at_ns, HereNs):
            self._outage.fallback.give_back(check, int(at_ns))
            return True
        return at_ns < 0  # it was let through uncounted

    def _is_renewed_here(self, check: Check, at_ns: int) -> bool:
        """Renew a slot that does not stand in the store; False if it does."""
        if isinstance(at_ns, HereNs):
            self._outage.fallback.renew(check, int(at_ns))
            return True
        return at_ns < 0


class GuardedStore(_Guard):
    """Guards a store called from threads.

    How long a call takes is bounded by the store itself (its socket's timeout). An answer that took longer
    than the settings allow is used, and counts as a failure.

    Args:
        store: the store.
        settings: its `timeout_ns`, `on_error`, `expected_workers` and `max_keys` are used.
        clock: tells the time, for the breaker and for `fallback`.

    Raises:
        InvalidLimitError: `fallback` without `expected_workers`.
    """

    def __init__(self, store: Store, settings: StoreSettings, *, clock: Clock | None = None) -> None:
        super().__init__(store, settings, clock)
        self._store = store

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        """Decide all checks with one start time, all or nothing; see `Store.take`.

        Raises:
            StoreUnavailableError: the store does not answer, and the policy of a check is `deny`.
        """
        return self._ask(self._places(checks), self._store.take, self._outage.take, checks)

    def charge(self, check: Check) -> None:
        """Consume without asking."""
        self._ask(self._place(check.key), self._store.charge, self._outage.charge, check)

    def give_back(self, check: Check, at_ns: int) -> None:
        """Undo a booking where it stands: in the store or here."""
        if not self._is_done_here(check, at_ns):
            self._ask(self._place(check.key), self._store.give_back, self._outage.give_back, check, at_ns)

    def renew(self, check: Check, at_ns: int) -> None:
        """The lease of a slot begins anew where it stands: in the store or here."""
        if not self._is_renewed_here(check, at_ns):
            self._ask(self._place(check.key), self._store.renew, self._outage.renew, check, at_ns)

    def peek(self, check: Check) -> Decision:
        """What a request would hear; nothing changes."""
        return self._ask(self._place(check.key), self._store.peek, self._outage.peek, check)

    def reset(self, key: str) -> bool:
        """Forget a bucket, in the store and here; True if it was there."""
        here = self._outage.fallback.reset(key)
        return self._ask(self._place(key), self._store.reset, self._outage.reset, key) or here

    def close(self) -> None:
        """Let go of everything held."""
        self._outage.fallback.close()
        self._store.close()

    def stats(self) -> StoreStats:
        """A snapshot for metrics: of the store, or of what is counted here while it does not answer."""
        return self._ask(_ONE_PLACE, self._store.stats, self._outage.stats)

    def _ask(
        self,
        places: Collection[Hashable],
        call: Callable[..., _T],
        instead: Callable[..., _T],
        *args: object,
    ) -> _T:
        ticket = self._health.admit(places, timed=True)
        if ticket is not None:
            with ticket:
                return call(*args)
        return instead(*args)


class GuardedAsyncStore(_Guard):
    """Guards a store that must be awaited.

    A call that takes longer than the settings allow is cancelled, and no task is left behind. What the
    store has taken by then may stay taken: that is the strict side.

    Args:
        store: the store; it must end soon when it is cancelled.
        settings: its `timeout_ns`, `on_error`, `expected_workers` and `max_keys` are used.
        clock: tells the time, for the breaker and for `fallback`.

    Raises:
        InvalidLimitError: `fallback` without `expected_workers`.
    """

    def __init__(self, store: AsyncStore, settings: StoreSettings, *, clock: Clock | None = None) -> None:
        super().__init__(store, settings, clock)
        self._async_store = store
        self._timeout_s = settings.timeout_ns / NS_PER_SECOND

    async def take_async(self, checks: Sequence[Check]) -> list[Decision]:
        """Decide all checks with one start time, all or nothing; see `Store.take`.

        Raises:
            StoreUnavailableError: the store does not answer, and the policy of a check is `deny`.
        """
        return await self._ask_async(
            self._places(checks), self._async_store.take_async, self._outage.take, checks
        )

    async def charge_async(self, check: Check) -> None:
        """Consume without asking."""
        await self._ask_async(
            self._place(check.key), self._async_store.charge_async, self._outage.charge, check
        )

    async def give_back_async(self, check: Check, at_ns: int) -> None:
        """Undo a booking where it stands: in the store or here."""
        if not self._is_done_here(check, at_ns):
            await self._ask_async(
                self._place(check.key),
                self._async_store.give_back_async,
                self._outage.give_back,
                check,
                at_ns,
            )

    async def renew_async(self, check: Check, at_ns: int) -> None:
        """The lease of a slot begins anew where it stands: in the store or here."""
        if not self._is_renewed_here(check, at_ns):
            await self._ask_async(
                self._place(check.key), self._async_store.renew_async, self._outage.renew, check, at_ns
            )

    async def peek_async(self, check: Check) -> Decision:
        """What a request would hear; nothing changes."""
        return await self._ask_async(
            self._place(check.key), self._async_store.peek_async, self._outage.peek, check
        )

    async def reset_async(self, key: str) -> bool:
        """Forget a bucket, in the store and here; True if it was there."""
        here = self._outage.fallback.reset(key)
        return (
            await self._ask_async(self._place(key), self._async_store.reset_async, self._outage.reset, key)
            or here
        )

    async def close_async(self) -> None:
        """Let go of everything held."""
        self._outage.fallback.close()
        await self._async_store.close_async()

    async def _ask_async(
        self,
        places: Collection[Hashable],
        call: Callable[..., Coroutine[Any, Any, _T]],
        instead: Callable[..., _T],
        *args: object,
    ) -> _T:
        ticket = self._health.admit(places, timed=False)
        if ticket is not None:
            with ticket:
                return await _within(self._timeout_s, call(*args))
        return instead(*args)


class GuardedDualStore(GuardedStore, GuardedAsyncStore):
    """Guards a store that can be called from threads and awaited; both sides share one breaker.

    Args:
        store: the store.
        settings: as for the other guards.
        clock: tells the time, for the breaker and for `fallback`.

    Raises:
        InvalidLimitError: `fallback` without `expected_workers`.
    """

    def __init__(self, store: Any, settings: StoreSettings, *, clock: Clock | None = None) -> None:
        GuardedAsyncStore.__init__(self, store, settings, clock=clock)
        self._store = store


def guarded(
    store: Store | AsyncStore, settings: StoreSettings, clock: Clock | None = None
) -> Store | AsyncStore:
    """A guard for what `store` can do.

    Args:
        store: the store.
        settings: what the guard does.
        clock: tells the time, for the breaker and for `fallback`.

    Raises:
        InvalidLimitError: `fallback` without `expected_workers`.
    """
    if isinstance(store, Store):
        kind = GuardedDualStore if isinstance(store, AsyncStore) else GuardedStore
        return kind(store, settings, clock=clock)
    return GuardedAsyncStore(store, settings, clock=clock)


async def _within(timeout_s: float, call: Coroutine[Any, Any, _T]) -> _T:
    """The result of `call`, which is cancelled when it takes too long.

    Raises:
        NoAnswerError: it took too long.
    """
    import asyncio  # costs a third of the package's import time, and only event loops need it

    loop = asyncio.get_running_loop()
    started_s = loop.time()
    try:
        if sys.version_info >= (3, 11):
            async with asyncio.timeout(timeout_s):
                return await call
        return await asyncio.wait_for(call, timeout_s)  # the same, for the price of a task
    except asyncio.TimeoutError as error:  # the built-in one only since 3.11
        # An app that blocks its loop hears all answers late, and would open the breaker of a store in order.
        took_s = loop.time() - started_s
        if took_s > 1.5 * timeout_s:
            raise LoopStoodStillError(f"the event loop stood still for {took_s * 1000:.0f} ms") from error
        raise NoAnswerError(f"no answer within {timeout_s * 1000:g} ms") from error
