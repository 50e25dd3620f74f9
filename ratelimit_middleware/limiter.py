"""Limiter: the algorithms by hand, in threads and on an event loop."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from typing import Any, ParamSpec, TypeVar, cast

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.clock import SystemClock, WaitingClock, to_ns
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError, StoreError
from ratelimit_middleware.reservation import Reservation, Slot, pause_s
from ratelimit_middleware.stores.base import AsyncStore, Check, Store
from ratelimit_middleware.stores.memory import MemoryStore

__all__ = ["Limiter"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_RATES = ("permits_per_second", "count", "rate")


class Limiter:
    """One algorithm, keyed or not, over a store; may be shared by threads and tasks.

    `with limiter:`, `async with limiter:` and `@limiter` (on plain and coroutine functions) take one
    permit and wait for it.

    Args:
        algorithm: the arithmetic.
        name: first part of the keys; limiters of one store that must not share buckets differ in it.
        store: where the buckets live; by default a memory store of its own.
        clock: tells the time and waits. With a `ManualClock` waiting moves the clock.

    Raises:
        TypeError: what is given is no algorithm, or no store.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        *,
        name: str = "limiter",
        store: Store | AsyncStore | None = None,
        clock: WaitingClock | None = None,
    ) -> None:
        if not hasattr(algorithm, "take") or isinstance(algorithm, type):
            raise TypeError(f"{algorithm!r} is no algorithm: expected one such as SlidingWindow(5, 60)")
        if store is not None and not isinstance(store, (Store, AsyncStore)):
            raise TypeError(f"store={store!r} is no store: expected an object such as MemoryStore()")
        self._algorithm = algorithm
        self._name = name.replace("%", "%25").replace("|", "%7C")
        self._clock: WaitingClock = SystemClock() if clock is None else clock
        chosen = MemoryStore(clock=self._clock, keep_state="scale") if store is None else store
        self.awaited_store = chosen if isinstance(chosen, AsyncStore) else None
        self._store = chosen if isinstance(chosen, Store) else None

    @property
    def algorithm(self) -> Algorithm:
        """The arithmetic in force."""
        return self._algorithm

    @property
    def threaded_store(self) -> Store:
        """The store, if threads may call it.

        Raises:
            StoreError: it must be awaited.
        """
        if self._store is None:
            raise StoreError("this store must be awaited: use the methods that end in _async")
        return self._store

    def reserve(self, n: int = 1, *, max_wait: float | None = None, key: str = "") -> Reservation:
        """Book `n` permits without waiting.

        Args:
            n: permits.
            max_wait: seconds that the booking may lie ahead; None = however far.
            key: whose bucket.

        Raises:
            InvalidLimitError: `n` or `max_wait` is negative or not a number.
        """
        check = self._check(n, max_wait, key)
        return Reservation(self, check, self.threaded_store.take([check])[0])

    async def reserve_async(self, n: int = 1, *, max_wait: float | None = None, key: str = "") -> Reservation:
        """`reserve` on an event loop."""
        if self.awaited_store is None:
            return self.reserve(n, max_wait=max_wait, key=key)
        check = self._check(n, max_wait, key)
        return Reservation(self, check, (await self.awaited_store.take_async([check]))[0])

    def acquire(self, n: int = 1, *, key: str = "") -> float:
        """Take `n` permits and wait until they may be used.

        Returns:
            Seconds waited.

        Raises:
            NeverAdmittedError: no bucket ever holds so many.
            InvalidLimitError: `n` is negative or no whole number.
        """
        return self._booked(n, key)[1] if n else 0.0

    async def acquire_async(self, n: int = 1, *, key: str = "") -> float:
        """`acquire` on an event loop; a task that is cancelled while it waits gives its permits back."""
        return (await self._booked_async(n, key))[1] if n else 0.0

    def slot(self, n: int = 1, *, key: str = "") -> Slot:
        """A slot of `Concurrency` for the time of a block, `with limiter.slot():` or `async with`.

        Args:
            n: permits that the block holds.
            key: whose slots.

        Raises:
            TypeError: the permits of another algorithm are used up, not held.
        """
        if not self._holds:
            raise TypeError(f"{self._algorithm!r} has no slots that come back: use acquire")
        return Slot(lambda: self._booked(n, key)[0], lambda: self._first(self._booked_async(n, key)))

    def try_acquire(self, n: int = 1, timeout: float = 0.0, *, key: str = "") -> bool:
        """Take `n` permits if they may be used within `timeout` seconds, and wait for them.

        Returns:
            False at once, with nothing taken, if they may not.
        """
        if n == 0:
            return True
        reservation = self.reserve(n, max_wait=timeout, key=key)
        if reservation.allowed:
            self._wait(reservation)
        return reservation.allowed

    async def try_acquire_async(self, n: int = 1, timeout: float = 0.0, *, key: str = "") -> bool:
        """`try_acquire` on an event loop."""
        if n == 0:
            return True
        reservation = await self.reserve_async(n, max_wait=timeout, key=key)
        if reservation.allowed:
            await self._wait_async(reservation)
        return reservation.allowed

    def available(self, *, key: str = "") -> int:
        """Permits that could be taken now without waiting."""
        return _free(self.threaded_store.peek(self._check(1, 0, key)))

    async def available_async(self, *, key: str = "") -> int:
        """`available` on an event loop."""
        if self.awaited_store is None:
            return self.available(key=key)
        return _free(await self.awaited_store.peek_async(self._check(1, 0, key)))

    def set_rate(self, permits_per_second: float) -> None:
        """Change the rate in flight; buckets are carried over when they are next used.

        Raises:
            TypeError: the algorithm is not written as a rate: give a new one to `set_algorithm`.
            InvalidLimitError: the algorithm refuses the number.
        """
        algorithm: Any = self._algorithm
        name = next((field.name for field in fields(algorithm) if field.name in _RATES), None)
        if name is None:
            raise TypeError(f"{algorithm!r} is not written as a rate: use set_algorithm")
        self.set_algorithm(replace(algorithm, **{name: permits_per_second}))

    def set_algorithm(self, algorithm: Algorithm) -> None:
        """Change the arithmetic in flight; buckets are carried over when they are next used."""
        self._algorithm = algorithm

    def __enter__(self) -> Limiter:
        """Take one permit.

        Raises:
            TypeError: what is held is given back by `slot` only.
        """
        self._refuse_slots()
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing: the permit is used."""

    async def __aenter__(self) -> Limiter:
        """Take one permit; see `__enter__`."""
        self._refuse_slots()
        await self.acquire_async()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing: the permit is used."""

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Decorate a plain or a coroutine function: each call takes one permit first, or holds one slot.

        Raises:
            TypeError: an asynchronous generator, whose call cannot wait.
        """
        if inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__qualname__} is an asynchronous generator: take permits inside it")
        if _is_awaited(function):

            @functools.wraps(function)
            async def limited_async(*args: _P.args, **kwargs: _P.kwargs) -> Any:
                if self._holds:
                    async with self.slot():
                        return await cast("Callable[_P, Awaitable[Any]]", function)(*args, **kwargs)
                await self.acquire_async()
                return await cast("Callable[_P, Awaitable[Any]]", function)(*args, **kwargs)

            return cast("Callable[_P, _R]", limited_async)

        @functools.wraps(function)
        def limited(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if self._holds:
                with self.slot():
                    return function(*args, **kwargs)
            self.acquire()
            return function(*args, **kwargs)

        return limited

    def _check(self, n: int, max_wait: float | None, key: str) -> Check:
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InvalidLimitError("n", n, "a whole number of permits, 0 or more")
        max_wait_ns = None if max_wait is None else to_ns(max_wait, "max_wait")
        return Check(f"{self._name}|={key}", self._algorithm, f"{self._name}|*", n, max_wait_ns)

    @property
    def _holds(self) -> bool:
        """Whether permits are held and come back, instead of being used up."""
        return isinstance(self._algorithm, Concurrency)

    def _refuse_slots(self) -> None:
        if self._holds:
            raise TypeError("a slot is given back when its own block ends: write `with limiter.slot():`")

    @staticmethod
    async def _first(booked: Awaitable[tuple[Reservation, float]]) -> Reservation:
        return (await booked)[0]

    def _booked(self, n: int, key: str) -> tuple[Reservation, float]:
        """A reservation whose moment has come, and the seconds waited for it."""
        waited = 0.0
        while True:
            reservation = self.reserve(n, key=key)
            if reservation.allowed:
                return reservation, waited + self._wait(reservation)
            waited += pause_s(reservation, n)
            self._clock.sleep(pause_s(reservation, n))

    async def _booked_async(self, n: int, key: str) -> tuple[Reservation, float]:
        waited = 0.0
        while True:
            reservation = await self.reserve_async(n, key=key)
            if reservation.allowed:
                return reservation, waited + await self._wait_async(reservation)
            waited += pause_s(reservation, n)
            await self._clock.sleep_async(pause_s(reservation, n))

    def _wait(self, reservation: Reservation) -> float:
        """Wait for the booked moment; whoever is interrupted gives the permits back."""
        try:
            if reservation.wait:
                self._clock.sleep(reservation.wait)
        except BaseException:
            reservation.cancel()
            raise
        return reservation.wait

    async def _wait_async(self, reservation: Reservation) -> float:
        try:
            if reservation.wait:
                await self._clock.sleep_async(reservation.wait)
        except BaseException:
            await reservation.cancel_async()
            raise
        return reservation.wait


def _is_awaited(function: Callable[..., object]) -> bool:
    """Whether calls are awaited: of a coroutine function, or of an object that is called like one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _free(decision: Decision) -> int:
    return decision.remaining + decision.allowed
