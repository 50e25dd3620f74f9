"""What SmoothBursty and SmoothWarmingUp share: Guava's account of stored permits and of debt.

Source: `SmoothRateLimiter` of google/guava (31.1, Apache-2.0), described in our own words. A limiter
holds two numbers: the permits *stored* in idle time, and the *next free ticket*, the moment from which
the next request may go. A request goes at that moment whatever its size; what it costs moves the next
free ticket, so the caller after it pays. Times are whole microseconds and amounts doubles, worked out
in the original's order of operations, so that recorded answers come out to the bit.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar

from ratelimit_middleware.algorithms.base import (
    AdoptMode,
    Algorithm,
    State,
    adopted_use,
    granted,
    refused,
)
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["LAST_TICKET_US", "US_NS", "SmoothRate", "number", "seconds"]

LAST_TICKET_US = 2**63 - 1
"""The latest next free ticket, as in the original; costs that lead beyond it end there."""

US_NS = 1000
_NOBODY = -1
_Self = TypeVar("_Self", bound="SmoothRate")


@dataclass(frozen=True, slots=True)
class SmoothRate(ABC):
    """The common part; a subclass says what stored permits are worth.

    State: `(stored, next_free_us, run_us, before, taker_ns)`. The first two are Guava's. The others let a
    booking be undone: the moment from which bookings follow each other without a pause, and of the last
    one that took stored permits since then its moment, and what was stored before it.
    """

    permits_per_second: float
    quota: int = field(init=False, repr=False, compare=False)
    stable_us: float = field(init=False, repr=False, compare=False)
    max_permits: float = field(init=False, repr=False, compare=False)
    first_stored: float = field(init=False, repr=False, compare=False)
    refill_us: float = field(init=False, repr=False, compare=False)

    def _set_rate(self) -> float:
        """Check the rate; the interval between permits, in microseconds.

        Above a million a second the original's whole microseconds cost nothing: no limit at all.
        """
        rate = number("permits_per_second", self.permits_per_second, 1e-15, 1e6)
        self._set(permits_per_second=rate, stable_us=1e6 / rate)
        return rate

    def _set(self, **values: float) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @abstractmethod
    def _free(self, stored: float) -> float:
        """How many of the stored permits can be had without delay for the next caller."""

    @abstractmethod
    def _price_us(self, stored: float, taken: float) -> int:
        """What `taken` of the stored permits cost."""

    @abstractmethod
    def _carried(self, stored: float, old_max: float, mode: AdoptMode) -> float:
        """What is stored when the numbers change (`old_max` > 0)."""

    @property
    def window_ns(self) -> int:
        """The time in which `quota` permits flow in."""
        return math.ceil(self.quota * self.stable_us * US_NS)

    @property
    def smallest_full_take(self) -> int:
        """A request of any size is granted: those behind it pay."""
        return 10**9

    def start(self, now_ns: int) -> State:
        """A limiter just made, as in Guava."""
        now_us = now_ns // US_NS
        return (self.first_stored, now_us, now_us, 0.0, _NOBODY)

    def step(self, state: State, now_ns: int) -> State:
        """Store what has flowed in since the next free ticket."""
        stored, next_free_us = state[0], state[1]
        now_us = now_ns // US_NS
        if now_us <= next_free_us:
            return state
        stored = min(self.max_permits, stored + (now_us - next_free_us) / self.refill_us)
        return (stored, now_us, now_us, 0.0, _NOBODY)

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """Book `cost` permits at the next free ticket, however many they are; see `Algorithm.take`.

        Raises:
            InvalidLimitError: `cost` is below 1 (as in Guava).
        """
        if cost < 1:
            raise InvalidLimitError("cost", cost, "a whole number of permits, at least 1")
        at_ns = max(now_ns, from_ns, state[1] * US_NS)
        wait_ns = at_ns - now_ns
        if max_wait_ns is not None and wait_ns > max_wait_ns:
            state = self.step(state, now_ns)
            return refused(now_ns, wait_ns - max_wait_ns, self.quota, *self._left(state, now_ns)), state
        state = self._booked(self.step(state, at_ns), at_ns, cost)
        return granted(at_ns, now_ns, self.quota, *self._left(state, now_ns)), state

    def _booked(self, state: State, at_ns: int, cost: int) -> State:
        """The state (up to date) after `cost` permits: stored ones first, the others fresh."""
        stored, next_free_us, run_us, before, taker_ns = state
        taken = min(cost, stored)
        price_us = self._price_us(stored, taken) + int((cost - taken) * self.stable_us)
        if stored or at_ns == taker_ns:  # the last one of a moment stands for it
            before, taker_ns = stored, at_ns
        return (stored - taken, min(LAST_TICKET_US, next_free_us + price_us), run_us, before, taker_ns)

    def _left(self, state: State, now_ns: int) -> tuple[int, int]:
        """Free permits and the wait for all of them; in debt none, and the wait for the next ticket."""
        debt_ns = state[1] * US_NS - now_ns
        if debt_ns > 0:
            return 0, debt_ns
        state = self.step(state, now_ns)
        remaining = int(self._free(state[0]))
        return remaining, max(0, self._full_us(state) * US_NS - now_ns) if remaining else 0

    def _full_us(self, state: State) -> int:
        """The moment at which no more permits can be stored, if nobody comes."""
        stored, next_free_us = state[:2]
        missing_us: int = math.ceil((self.max_permits - stored) * self.refill_us)
        return int(next_free_us) + missing_us

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Take `cost` permits without asking; the permits in use end at two windows."""
        state = self.step(state, now_ns)
        cost = min(cost, 2 * self.quota - self.used(state, now_ns))
        return self._booked(state, max(now_ns, state[1] * US_NS), cost) if cost > 0 else state

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:  # noqa: ARG002
        """Undo the booking if it is the last one: the state it was booked in is found again.

        Waiters who leave from the end of the queue all give their moment back, as long as no pause lies
        between. A state in which this booking would not have led to the present one is not put back.
        """
        stored, next_free_us, run_us, before, taker_ns = state
        at_us = at_ns // US_NS
        if at_us < run_us or at_ns < taker_ns:
            return state
        if at_ns == taker_ns:
            earlier: State = (before, at_us, run_us, 0.0, _NOBODY)
        elif stored:
            earlier = (stored + cost, at_us, run_us, 0.0, _NOBODY)
        else:
            earlier = (0.0, at_us, run_us, before, taker_ns)
        leads_here = self._booked(earlier, at_ns, cost)[:2] == (stored, next_free_us)
        return earlier if leads_here and earlier[0] <= self.max_permits else state

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self: _Self, factor: float) -> _Self:
        """The rate times `factor`, and with it what can be stored."""
        if not 0 < factor < 1e9:
            raise InvalidLimitError("factor", factor, "a finite number above 0")
        return replace(self, permits_per_second=self.permits_per_second * factor)

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Go on with other numbers; `scale` between two of a kind is Guava's `setRate`.

        Debt keeps its moment: it was booked at the old price, and callers wait for it. What another kind
        of algorithm counts as used is taken from the free permits, the rest is debt.
        """
        if mode == "reset":
            return self.start(now_ns)
        stored, next_free_us = self.first_stored, now_ns // US_NS
        if isinstance(old, SmoothRate):
            was, next_free_us = old.step(state, now_ns)[:2]
            if type(old) is type(self) and old.max_permits:
                stored = self._carried(was, old.max_permits, mode)
        else:
            spare = self._free(self.max_permits) - adopted_use(self, state, now_ns, old, mode)
            stored = max(stored, spare)
            next_free_us += math.ceil(max(0.0, -spare) * self.stable_us)
        next_free_us = min(LAST_TICKET_US, next_free_us)
        return (stored, next_free_us, next_free_us, 0.0, _NOBODY)

    def used(self, state: State, now_ns: int) -> int:
        """Free permits that are missing, and the debt in permits at the stable price, rounded up."""
        stored, next_free_us = self.step(state, now_ns)[:2]
        debt_us = max(0, next_free_us - now_ns // US_NS)
        used: int = math.ceil(self._free(self.max_permits) - self._free(stored) + debt_us / self.stable_us)
        return used

    def forget_at_ns(self, state: State) -> int:
        """The moment at which no more permits can be stored."""
        return self._full_us(state) * US_NS


def number(what: str, value: object, low: float, high: float) -> float:
    """`value` as a float from `low` to `high`.

    Raises:
        InvalidLimitError: anything else, booleans included.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise InvalidLimitError(what, value, f"a number from {low:g} to {high:g}")
    return float(value)


def seconds(value: float | timedelta) -> float:
    """A duration as seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else value
