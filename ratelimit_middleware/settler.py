"""Settler: tells the store what has become of bookings, and keeps slots alive meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from ratelimit_middleware.clock import Clock, SystemClock
from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.faults import FaultLogs
from ratelimit_middleware.leases import LeaseKeeper
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.settling import Booking, Stay, Step
from ratelimit_middleware.stores.base import AsyncStore, Store

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

__all__ = ["Settler"]

_RENEW_EVERY_S = 10  # a third of the lease of a slot


class Settler:
    """What happens between the verdict and the end of the response.

    Args:
        store: where the bookings stand.
        faults: hears of functions of the app that fail.
        clock: tells how long a response took; the system's by default.

    Attributes:
        keeper: renews the slots in use.
    """

    def __init__(self, store: Store | AsyncStore, faults: FaultLogs, clock: Clock | None = None) -> None:
        self._async_store = store if isinstance(store, AsyncStore) else None
        self._store = store if isinstance(store, Store) else None
        self._faults = faults
        self._now_ns = (clock or SystemClock()).now_ns
        self._loop: AbstractEventLoop | None = None
        self.keeper = LeaseKeeper(self._renew, _RENEW_EVERY_S)

    def begin(self, verdict: Verdict, view: RequestView) -> Stay:
        """The app is about to be called for an admitted request that has bookings."""
        stay = Stay(verdict.bookings, view, self._now_ns, self._faults.report)
        if stay.leases():
            if self._store is None:
                import asyncio

                self._loop = asyncio.get_running_loop()
            self.keeper.hold(stay)
        return stay

    def carry_out(self, steps: Sequence[Step]) -> None:
        """Tell a store called from threads what has become of bookings.

        Raises:
            StoreError: the store cannot answer, or must be awaited.
        """
        for check, at_ns in steps:
            if self._store is None:
                raise StoreError("this store must be awaited")
            if at_ns is None:
                self._store.charge(check)
            else:
                self._store.give_back(check, at_ns)

    async def carry_out_async(self, steps: Sequence[Step]) -> None:
        """`carry_out` on an event loop."""
        store = self._async_store
        if store is None:
            self.carry_out(steps)
            return
        for check, at_ns in steps:
            if at_ns is None:
                await store.charge_async(check)
            else:
                await store.give_back_async(check, at_ns)

    def _renew(self, booking: Booking) -> None:
        """From the keeper's thread."""
        if self._store is not None:
            self._store.renew(booking.check, booking.at_ns)
        elif self._async_store is not None and self._loop is not None:
            import asyncio

            call = self._async_store.renew_async(booking.check, booking.at_ns)
            asyncio.run_coroutine_threadsafe(_done(call), self._loop).result(_RENEW_EVERY_S)


async def _done(call: Awaitable[None]) -> None:
    await call
