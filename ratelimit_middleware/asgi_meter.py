"""AsgiMeter: asks the store about what flows, and waits out a store that does not answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import anyio

from ratelimit_middleware.asgi_inbox import Inbox
from ratelimit_middleware.clock import NS_PER_SECOND, Clock
from ratelimit_middleware.decision import UNCHECKED, Decision
from ratelimit_middleware.errors import StoreUnavailableError
from ratelimit_middleware.faults import FLOWS_FAILED, FaultLog
from ratelimit_middleware.shielding import shielded
from ratelimit_middleware.stores.base import AsyncStore, Check, Store

__all__ = ["AsgiMeter", "StillUnavailableError"]

_PATIENCE_S = 30
_PAUSE_S = 1.0


class StillUnavailableError(Exception):
    """Raised when a store has not answered for so long that what waits for it is given up."""


class AsgiMeter:
    """Books permits while a request is served.

    Args:
        store: where the counts live.
        clock: spaces the log lines about a store that fails; the system's by default.
    """

    __slots__ = ("_async_store", "_faults", "_store")

    def __init__(self, store: Store | AsyncStore, clock: Clock | None = None) -> None:
        self._async_store = store if isinstance(store, AsyncStore) else None
        self._store = store if isinstance(store, Store) else None
        self._faults = FaultLog(FLOWS_FAILED, clock=clock)

    async def take(self, checks: Sequence[Check]) -> Sequence[Decision] | float:
        """The decisions of the store; else how many seconds until it may be asked again."""
        try:
            return await self._taken(checks)
        except Exception as error:  # noqa: BLE001 - what cannot be counted must not pass
            self._faults.report(error)
            if all(check.shadow for check in checks):
                return [UNCHECKED] * len(checks)
            if isinstance(error, StoreUnavailableError):
                return max(error.retry_after_ns / NS_PER_SECOND, 0.001)
            return _PAUSE_S

    async def take_patiently(self, checks: Sequence[Check], inbox: Inbox) -> Sequence[Decision] | None:
        """The decisions, however often the store has to be asked; None if the client goes away meanwhile.

        Raises:
            StillUnavailableError: it has not answered for 30 s.
        """
        give_up_at: float | None = None
        while True:
            answer = await self.take(checks)
            if not isinstance(answer, float):
                return answer
            again_at = anyio.current_time() + answer
            if give_up_at is None:
                give_up_at = anyio.current_time() + _PATIENCE_S
            if again_at > give_up_at:
                raise StillUnavailableError
            if not await inbox.wait_until(again_at):
                return None

    async def give_back(self, checks: Sequence[Check], decisions: Sequence[Decision]) -> None:
        """What was booked is not used; also for a task that has been cancelled, and never raises."""
        try:
            if self._async_store is None:
                self._give_back(checks, decisions)
            else:
                await shielded(self._give_back_async, self._async_store, checks, decisions)
        except Exception as error:  # noqa: BLE001 - it counts as used
            self._faults.report(error)

    async def _taken(self, checks: Sequence[Check]) -> Sequence[Decision]:
        if self._async_store is not None:
            return await self._async_store.take_async(checks)
        assert self._store is not None  # noqa: S101 - a store is one or the other
        return self._store.take(checks)

    def _give_back(self, checks: Sequence[Check], decisions: Sequence[Decision]) -> None:
        assert self._store is not None  # noqa: S101 - a store is one or the other
        for check, at_ns in _booked(checks, decisions):
            self._store.give_back(check, at_ns)

    async def _give_back_async(
        self, store: AsyncStore, checks: Sequence[Check], decisions: Sequence[Decision]
    ) -> None:
        for check, at_ns in _booked(checks, decisions):
            await store.give_back_async(check, at_ns)


def _booked(checks: Sequence[Check], decisions: Sequence[Decision]) -> Iterator[tuple[Check, int]]:
    """What has been booked, and for when."""
    for check, decision in zip(checks, decisions, strict=True):
        if decision.allowed and decision is not UNCHECKED:
            yield check, decision.at_ns
