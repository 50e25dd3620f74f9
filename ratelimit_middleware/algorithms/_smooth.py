"""What SmoothBursty and SmoothWarmingUp share beyond Guava's account: how it is asked and looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

from ratelimit_middleware.algorithms._numbers import factor_above_zero
from ratelimit_middleware.algorithms._smooth_account import LAST_TICKET_US, NOBODY, US_NS, SmoothAccount
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

__all__ = ["SmoothRate"]

_Self = TypeVar("_Self", bound="SmoothRate")


@dataclass(frozen=True, slots=True)
class SmoothRate(SmoothAccount):
    """The common part of the two classes."""

    @property
    def smallest_full_take(self) -> int:
        """A request of any size is granted: those behind it pay."""
        return 10**9

    def start(self, now_ns: int) -> State:
        """A limiter just made, as in Guava."""
        now_us = now_ns // US_NS
        return (self.first_stored, now_us, now_us, 0.0, NOBODY)

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

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Take `cost` permits without asking; the permits in use end at two windows."""
        state = self.step(state, now_ns)
        cost = min(cost, 2 * self.quota - self.used(state, now_ns))
        return self._booked(state, max(now_ns, state[1] * US_NS), cost) if cost > 0 else state

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:  # noqa: ARG002
        """Undo the booking if it is the last one: the state it was booked in is found again.

        Waiters who leave from the end of the queue all give their moment back, as long as no pause lies
        between; of several that stored permits let go at one moment only the last is sure to. A state in
        which this booking would not have led to the present one is not put back.
        """
        stored, next_free_us, run_us, before, taker_ns = state
        at_us = at_ns // US_NS
        if at_us < max(run_us, taker_ns // US_NS):
            return state
        if at_ns == taker_ns:
            earlier: State = (before, at_us, run_us, 0.0, NOBODY)
        elif stored:
            earlier = (stored + cost, at_us, run_us, 0.0, NOBODY)
        else:
            earlier = (0.0, at_us, run_us, before, taker_ns)
        leads_here = self._booked(earlier, at_ns, cost)[:2] == (stored, next_free_us)
        return earlier if leads_here and earlier[0] <= self.max_permits else state

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self: _Self, factor: float) -> _Self:
        """The rate times `factor`, and with it what can be stored."""
        return replace(self, permits_per_second=self.permits_per_second * factor_above_zero(factor))

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
        return (stored, next_free_us, next_free_us, 0.0, NOBODY)

    def used(self, state: State, now_ns: int) -> int:
        """Free permits that are missing, and the debt in permits at the stable price, rounded up."""
        stored, next_free_us = self.step(state, now_ns)[:2]
        debt_us = max(0, next_free_us - now_ns // US_NS)
        used: int = math.ceil(self._free(self.max_permits) - self._free(stored) + debt_us / self.stable_us)
        return used

    def forget_at_ns(self, state: State) -> int:
        """The moment at which no more permits can be stored."""
        return self._full_us(state) * US_NS
