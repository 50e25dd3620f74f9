"""Guava's account of stored permits and of debt, at a rate.

Source: `SmoothRateLimiter` of google/guava (31.1, Apache-2.0), described in our own words. A limiter
holds two numbers: the permits *stored* in idle time, and the *next free ticket*, the moment from which
the next request may go. A request goes at that moment whatever its size; what it costs moves the next
free ticket, so the caller after it pays. Times are whole microseconds and amounts doubles, worked out
in the original's order of operations, so that recorded answers come out to the bit.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from ratelimit_middleware.algorithms._numbers import number
from ratelimit_middleware.algorithms.base import AdoptMode, State

__all__ = ["LAST_TICKET_US", "NOBODY", "US_NS", "SmoothAccount"]

LAST_TICKET_US = 2**63 - 1
"""The latest next free ticket, as in the original; costs that lead beyond it end there."""

US_NS = 1000
NOBODY = -1


@dataclass(frozen=True, slots=True)
class SmoothAccount(ABC):
    """The rate, and what time and bookings do to a state; a subclass says what stored permits are worth.

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

    def step(self, state: State, now_ns: int) -> State:
        """Store what has flowed in since the next free ticket."""
        stored, next_free_us = state[0], state[1]
        now_us = now_ns // US_NS
        if now_us <= next_free_us:
            return state
        stored = min(self.max_permits, stored + (now_us - next_free_us) / self.refill_us)
        return (stored, now_us, now_us, 0.0, NOBODY)

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
