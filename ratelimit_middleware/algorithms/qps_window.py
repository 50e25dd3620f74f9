"""QpsWindow: Sentinel's plain controller, which counts "the last second" as two half seconds of the clock.

Source: `DefaultController` and `StatisticNode` of alibaba/Sentinel (1.8.9 line, Apache-2.0), described in
our own words. It is as cheap as a counter can be and lets up to twice the count through within one second;
where the count must hold in every second, use `SlidingWindow`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ratelimit_middleware.algorithms import _slots as slots
from ratelimit_middleware.algorithms._numbers import factor_above_zero, permits_per_second
from ratelimit_middleware.algorithms.base import (
    AdoptMode,
    Algorithm,
    State,
    adopted_use,
    granted,
    refused,
)
from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.decision import Decision

__all__ = ["QpsWindow"]

_HALF_NS = NS_PER_SECOND // 2


@dataclass(frozen=True, slots=True)
class QpsWindow:
    """`count` permits in the running half second of the clock and the one before, as in Sentinel.

    Bound: at most `count` permits in any two half seconds that follow each other (aligned to the epoch);
    so up to *twice* the count in any second, and within little more than half a second: a burst at the
    end of one half second is forgotten when the next but one begins.

    A booking ahead counts from the moment it is made, so nobody passes those who wait.

    State: permits in each half second that still counts (`_slots`).

    Args:
        count: permits per second, 10^-9 to 10^9, or 0. Fractions are dropped; a count below 1 refuses
            everything, as in the original.

    Raises:
        InvalidLimitError: a number out of its range.
    """

    count: float

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        permits_per_second("count", self.count)

    @property
    def quota(self) -> int:
        """The count in whole permits; 0 if it is below 1."""
        return int(self.count)

    @property
    def window_ns(self) -> int:
        """A second."""
        return NS_PER_SECOND

    @property
    def smallest_full_take(self) -> int:
        """The count in whole permits."""
        return self.quota

    def decide(self, passed: float, cost: int) -> bool:
        """Sentinel's own decision, on passes per second that somebody else has counted."""
        return int(passed) + cost <= self.count

    def start(self, now_ns: int) -> State:  # noqa: ARG002 - nothing has passed
        """Nothing has passed."""
        return ()

    def step(self, state: State, now_ns: int) -> State:
        """Forget the half seconds before the last two."""
        return slots.since(state, now_ns // _HALF_NS - 1)

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """Book `cost` permits at the first moment with room for them; see `Algorithm.take`."""
        state = self.step(state, now_ns)
        at_ns = self._free_ns(state, max(now_ns, from_ns), cost)
        if at_ns is None or (max_wait_ns is not None and at_ns - now_ns > max_wait_ns):
            retry_ns = None if at_ns is None else at_ns - now_ns - (max_wait_ns or 0)
            return refused(now_ns, retry_ns, self.quota, *self._left(state, now_ns)), state
        state = slots.added(state, at_ns // _HALF_NS, cost)
        return granted(at_ns, now_ns, self.quota, *self._left(state, now_ns)), state

    def _free_ns(self, state: State, from_ns: int, cost: int) -> int | None:
        """The first moment from `from_ns` on with room, if nobody comes; None if there never is."""
        state = slots.since(state, from_ns // _HALF_NS - 1)
        while not self.decide(slots.total(state), cost):
            if not state:
                return None
            from_ns = max(from_ns, (state[0] + 2) * _HALF_NS)
            state = state[2:]
        return from_ns

    def _left(self, state: State, now_ns: int) -> tuple[int, int]:
        """Permits left, and the wait for the next one (if none) or for all of them."""
        left = self.quota - slots.total(state)
        if left > 0:
            return left, max(0, self.forget_at_ns(state) - now_ns)
        next_ns = self._free_ns(state, now_ns, 1)
        return 0, self.window_ns if next_ns is None else next_ns - now_ns

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Take `cost` permits without asking; the debt ends at one count beyond the count."""
        state = self.step(state, now_ns)
        cost = min(cost, 2 * self.quota - slots.total(state))
        return slots.added(state, now_ns // _HALF_NS, cost) if cost > 0 else state

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """Take a booking out of its half second; nothing if that counts no more."""
        return slots.removed(self.step(state, now_ns), at_ns // _HALF_NS, cost)

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> QpsWindow:
        """The count times `factor`, at least 1; one below 1, which refuses everything, may stay there."""
        return replace(self, count=max(min(1.0, self.count), self.count * factor_above_zero(factor)))

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Carry the half seconds over: as they are (`keep`), or as a share of the count (`scale`)."""
        if not isinstance(old, QpsWindow) or mode == "reset":
            used = adopted_use(self, state, now_ns, old, mode)
            return (now_ns // _HALF_NS, used) if used else ()
        if mode == "keep" or not old.quota or not self.quota:
            return state
        return slots.scaled(state, self.quota, old.quota)

    def used(self, state: State, now_ns: int) -> int:
        """Permits in the running half second, the one before and those booked ahead."""
        return slots.total(self.step(state, now_ns))

    def forget_at_ns(self, state: State) -> int:
        """The moment the newest half second counts no more."""
        return (int(state[-2]) + 2) * _HALF_NS if state else 0
