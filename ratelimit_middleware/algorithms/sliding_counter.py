"""SlidingCounter: the usual estimate of a sliding window from two counters.

Two numbers a key: the permits of the running period and those of the one before, of which the share is
counted that would still lie in the window if they had come evenly. If they had not, the estimate errs;
`SlidingWindow` does not. (The algorithm behind many edge and gateway limiters.)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

from ratelimit_middleware.algorithms import _slots as slots
from ratelimit_middleware.algorithms._numbers import positive_ns
from ratelimit_middleware.algorithms.base import (
    AdoptMode,
    Algorithm,
    State,
    adopted_use,
    ceil_div,
    granted,
    positive_int,
    refused,
    scaled_count,
)
from ratelimit_middleware.decision import Decision

__all__ = ["SlidingCounter"]


@dataclass(frozen=True, slots=True)
class SlidingCounter:
    """`limit` permits per `period`, estimated: those of this period and a share of the last one's.

    Bound: at most `limit` permits in each period aligned to the epoch, and at most `2 * limit - 1` in
    any stretch of time as long as a period: a burst at the end of one period weighs ever less during the
    next, though it is not yet a period old. Under an even load the estimate is right.

    A booking ahead counts in full from the moment it is made, so nobody passes those who wait.

    State: permits in each period that still counts (`_slots`).

    Args:
        limit: permits per period, 1 to 10^9.
        period: seconds, or a `timedelta`; above 0.

    Raises:
        InvalidLimitError: a number out of its range.
    """

    limit: int
    period: float | timedelta = field(compare=False)
    period_ns: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        object.__setattr__(self, "limit", positive_int("limit", self.limit, 10**9))
        object.__setattr__(self, "period_ns", positive_ns("period", self.period))

    @property
    def quota(self) -> int:
        """The limit."""
        return self.limit

    @property
    def window_ns(self) -> int:
        """The period."""
        return self.period_ns

    @property
    def smallest_full_take(self) -> int:
        """The limit."""
        return self.limit

    def start(self, now_ns: int) -> State:  # noqa: ARG002 - nothing has been counted
        """Nothing counted."""
        return ()

    def step(self, state: State, now_ns: int) -> State:
        """Forget the periods before the last two."""
        return slots.since(state, now_ns // self.period_ns - 1)

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """Book `cost` permits at the first moment the estimate has room; see `Algorithm.take`."""
        state = self.step(state, now_ns)
        if cost > self.limit:
            return self._refuse(state, now_ns, None), state
        at_ns = self._free_ns(state, max(now_ns, from_ns), cost)
        wait_ns = at_ns - now_ns
        if max_wait_ns is not None and wait_ns > max_wait_ns:
            return self._refuse(state, now_ns, wait_ns - max_wait_ns), state
        state = slots.added(state, at_ns // self.period_ns, cost)
        return granted(at_ns, now_ns, self.limit, *self._left(state, now_ns)), state

    def _refuse(self, state: State, now_ns: int, retry_after_ns: int | None) -> Decision:
        return refused(now_ns, retry_after_ns, self.limit, *self._left(state, now_ns))

    def _weight(self, state: State, now_ns: int) -> int:
        """The estimate in *ticks*, nanoseconds times permits: `period_ns` ticks are one permit."""
        index, elapsed_ns = divmod(now_ns, self.period_ns)
        state = slots.since(state, index - 1)
        before = state[1] if state and state[0] < index else 0
        return slots.total(state) * self.period_ns - before * elapsed_ns

    def _free_ns(self, state: State, from_ns: int, cost: int) -> int:
        """The first moment from `from_ns` on with room for `cost` permits (at most the limit).

        The oldest permits lose their weight first. While it is one period's turn, the others count in full.
        """
        period_ns = self.period_ns
        state = slots.since(state, from_ns // period_ns - 1)
        free = self.limit - cost - slots.total(state)
        while free < 0 and state:
            fading = state[1]
            fades_ns = (state[0] + 1) * period_ns
            free += fading
            if free >= 0:
                # The share of the fading ones that must have gone, rounded up to the next nanosecond.
                return max(from_ns, fades_ns + period_ns - free * period_ns // fading)
            state = state[2:]
        return from_ns

    def _left(self, state: State, now_ns: int) -> tuple[int, int]:
        """Permits left, and the wait for the next one (if none) or for all of them."""
        left = (self.limit * self.period_ns - self._weight(state, now_ns)) // self.period_ns
        if left <= 0:
            return 0, self._free_ns(state, now_ns, 1) - now_ns
        return left, max(0, self.forget_at_ns(state) - now_ns)

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Take `cost` permits without asking; the debt ends at one limit beyond the limit."""
        state = self.step(state, now_ns)
        cost = min(cost, 2 * self.limit - self.used(state, now_ns))
        return slots.added(state, now_ns // self.period_ns, cost) if cost > 0 else state

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """Take a booking out of its period; nothing if that counts no more."""
        return slots.removed(self.step(state, now_ns), at_ns // self.period_ns, cost)

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> SlidingCounter:
        """The limit times `factor`."""
        return replace(self, limit=scaled_count(self.limit, factor))

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Carry the counters over: as they are (`keep`), or as a share of the limit (`scale`).

        Into periods of another length they go so that none fades earlier than it would have.
        """
        if not isinstance(old, SlidingCounter) or mode == "reset":
            used = adopted_use(self, state, now_ns, old, mode)
            return (now_ns // self.period_ns, used) if used else ()
        if mode == "scale":
            state = slots.scaled(state, self.limit, old.limit)
        return state if self.period_ns == old.period_ns else self._moved(state, old.period_ns)

    def _moved(self, state: State, old_ns: int) -> State:
        moved: slots.Counts = ()
        for place in range(0, len(state), 2):
            fades_ns = (state[place] + 1) * old_ns
            begins, ends = ceil_div(fades_ns, self.period_ns), ceil_div(fades_ns + old_ns, self.period_ns)
            moved = slots.added(moved, max(begins - 1, ends - 2), state[place + 1])
        return moved

    def used(self, state: State, now_ns: int) -> int:
        """The estimate, rounded up, with those booked ahead."""
        return ceil_div(self._weight(state, now_ns), self.period_ns)

    def forget_at_ns(self, state: State) -> int:
        """The moment the newest permits have no weight any more."""
        return (int(state[-2]) + 2) * self.period_ns if state else 0
