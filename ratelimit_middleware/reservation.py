"""What a limiter hands out: permits booked for a moment, and slots held while a block runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import NeverAdmittedError
from ratelimit_middleware.stores.base import AsyncStore, Check, Store

__all__ = ["Reservation", "Slot", "Stores", "pause_s"]


class Stores(Protocol):
    """Who has the store of a booking."""

    @property
    def threaded_store(self) -> Store:
        """The store, if threads may call it."""

    @property
    def awaited_store(self) -> AsyncStore | None:
        """The store, if it is awaited."""


class Reservation:
    """Permits booked for a moment that may lie ahead; made by `Limiter.reserve`.

    Attributes:
        decision: the answer in full. When refused nothing is booked.
    """

    __slots__ = ("_check", "_live", "_stores", "decision")

    def __init__(self, stores: Stores, check: Check, decision: Decision) -> None:
        self.decision = decision
        self._stores = stores
        self._check = check
        self._live = decision.allowed

    @property
    def allowed(self) -> bool:
        """Whether the permits are booked."""
        return self.decision.allowed

    @property
    def wait(self) -> float:
        """Seconds to wait before the permits may be used, from the moment of the booking."""
        return self.decision.wait

    def cancel(self) -> bool:
        """Give the permits back, unused; only the first call does, and only as far as others allow.

        Returns:
            Whether this call gave them back to the algorithm.
        """
        live, self._live = self._live, False
        if live:
            self._stores.threaded_store.give_back(self._check, self.decision.at_ns)
        return live

    async def cancel_async(self) -> bool:
        """`cancel` on an event loop."""
        live, self._live = self._live, False
        if live and self._stores.awaited_store is not None:
            await self._stores.awaited_store.give_back_async(self._check, self.decision.at_ns)
        elif live:
            self._stores.threaded_store.give_back(self._check, self.decision.at_ns)
        return live


class Slot:
    """A slot of `Concurrency` for the time of a block: `with limiter.slot():` or `async with`.

    It may be entered once; it comes back when the block is left, however that happens.

    Args:
        book: waits for a slot.
        book_async: the same on an event loop.
    """

    __slots__ = ("_book", "_book_async", "_held")

    def __init__(
        self, book: Callable[[], Reservation], book_async: Callable[[], Awaitable[Reservation]]
    ) -> None:
        self._book = book
        self._book_async = book_async
        self._held: Reservation | None = None

    def __enter__(self) -> Reservation:
        """Wait for a slot."""
        self._held = self._book()
        return self._held

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        if self._held:
            self._held.cancel()

    async def __aenter__(self) -> Reservation:
        """Wait for a slot."""
        self._held = await self._book_async()
        return self._held

    async def __aexit__(self, *_: object) -> None:
        """Give it back."""
        if self._held:
            await self._held.cancel_async()


def pause_s(refusal: Reservation, n: int) -> float:
    """Seconds until a queue that is full (an algorithm may bound its own) takes `n` permits.

    Raises:
        NeverAdmittedError: no bucket ever holds so many.
    """
    pause = refusal.decision.retry_after
    if pause is None:
        raise NeverAdmittedError(n, refusal.decision.limit)
    return pause
