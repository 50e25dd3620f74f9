"""Settler: tells the store what has become of bookings, and keeps slots alive meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ratelimit_middleware.clock import Clock, SystemClock
from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.faults import FaultLogs
from ratelimit_middleware.leases import LeaseKeeper
from ratelimit_middleware.loop_calls import Caller, caller
from ratelimit_middleware.overload.adaptive import Adaptive
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.settling import Booking, Stay, Step
from ratelimit_middleware.stores.base import AsyncStore, Store

__all__ = ["Settler"]

_RENEW_EVERY_S = 10  # a third of the lease of a slot


class Settler:
    """What happens between the verdict and the end of the response.

    Args:
        store: where the bookings stand.
        faults: hears of functions of the app that fail.
        clock: tells how long a response took; the system's by default.

    Attributes:
        awaits: whether the store is awaited on an event loop.
        keeper: renews the slots in use.
    """

    def __init__(self, store: Store | AsyncStore, faults: FaultLogs, clock: Clock | None = None) -> None:
        self._async_store = store if isinstance(store, AsyncStore) else None
        self._store = store if isinstance(store, Store) else None
        self.awaits = self._async_store is not None
        self._faults = faults
        self._now_ns = (clock or SystemClock()).now_ns
        self._call_on_loop: Caller | None = None
        self.keeper = LeaseKeeper(self._renew, _RENEW_EVERY_S)

    def begin(self, verdict: Verdict, view: RequestView) -> Stay:
        """The app is about to be called for an admitted request that has bookings."""
        stay = Stay(verdict.bookings, view, self._now_ns, self._faults.report)
        if stay.leases():
            if self._store is None:
                self._call_on_loop = caller()
            self.keeper.hold(stay)
        return stay

    def carry_out(self, steps: Sequence[Step]) -> None:
        """Tell a store called from threads what has become of bookings, of each even if one fails.

        Raises:
            StoreError: the store cannot answer, or must be awaited.
        """
        failure: Exception | None = None
        for check, at_ns in steps:
            if self._store is None:
                raise StoreError("this store must be awaited")
            try:
                if at_ns is None:
                    self._store.charge(check)
                else:
                    self._store.give_back(check, at_ns)
            except Exception as error:  # noqa: BLE001 - told when all have been tried
                failure = error
        if failure:
            raise failure

    async def carry_out_async(self, steps: Sequence[Step]) -> None:
        """`carry_out` on an event loop; what lives in this process first, for the time may be over soon."""
        store = self._async_store
        if store is None:
            self.carry_out(steps)
            return
        failure: Exception | None = None
        for check, at_ns in sorted(steps, key=_lives_elsewhere):
            try:
                if at_ns is None:
                    await store.charge_async(check)
                else:
                    await store.give_back_async(check, at_ns)
            except Exception as error:  # noqa: BLE001, PERF203 - told when all have been tried
                failure = error
        if failure:
            raise failure

    def _renew(self, stay: Stay, booking: Booking) -> None:
        """From the keeper's thread."""
        if self._store is not None:
            self._store.renew(booking.check, booking.at_ns)
        elif self._call_on_loop is not None:
            self._call_on_loop(partial(self._renew_async, stay, booking), _RENEW_EVERY_S)

    async def _renew_async(self, stay: Stay, booking: Booking) -> None:
        # Its request may have ended before the loop came to this: the slot must not come to life again.
        if self._async_store is not None and booking in stay.leases():
            await self._async_store.renew_async(booking.check, booking.at_ns)


def _lives_elsewhere(step: Step) -> bool:
    return not isinstance(step.check.algorithm, Adaptive)
