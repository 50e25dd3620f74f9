"""GCRA: a steady rate with a burst, in one number.

The generic cell rate algorithm (ITU-T I.371, virtual scheduling form): the *theoretical arrival time*
(TAT) is the moment at which the bucket would be full again. Equal to a token bucket of size `burst`
that is filled without steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

from ratelimit_middleware.algorithms._numbers import positive_ns
from ratelimit_middleware.algorithms.base import (
    AdoptMode,
    Algorithm,
    State,
    adopted_use,
    ceil_div,
    positive_int,
    refused,
    scaled_count,
)
from ratelimit_middleware.decision import Decision

__all__ = ["GCRA"]

_new = tuple.__new__
"""Past the constructor of `Decision`, which costs as much as the arithmetic before it."""


@dataclass(frozen=True, slots=True)
class GCRA:
    """`limit` permits per `period`, evenly, with up to `burst` at once.

    Bound: in any time t at most `burst + t * limit / period` permits; the moments of requests that wait
    are the exact ones rounded up to the clock's nanosecond, so for them t counts to within 1 ns.

    State: `(tat, last_ns, latest_ns)`. TAT is kept in *ticks*, nanoseconds times `limit`, so that one
    permit is exactly `period_ns` ticks and nothing is ever rounded; `last_ns` is the moment of the last
    booking, `latest_ns` the latest that was booked (others may have booked ahead of the last one).

    Args:
        limit: permits per period, 1 to 10^9.
        period: seconds, or a `timedelta`; above 0.
        burst: permits that an idle key may take at once, 1 to 10^9.

    Raises:
        InvalidLimitError: a number out of its range.
    """

    limit: int
    period: float | timedelta = field(compare=False)
    burst: int
    period_ns: int = field(init=False, repr=False)
    burst_ticks: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        object.__setattr__(self, "limit", positive_int("limit", self.limit, 10**9))
        object.__setattr__(self, "burst", positive_int("burst", self.burst, 10**9))
        object.__setattr__(self, "period_ns", positive_ns("period", self.period))
        object.__setattr__(self, "burst_ticks", self.burst * self.period_ns)

    @property
    def quota(self) -> int:
        """The burst: what can be had at once."""
        return self.burst

    @property
    def window_ns(self) -> int:
        """The time in which an empty bucket fills."""
        return ceil_div(self.burst * self.period_ns, self.limit)

    @property
    def smallest_full_take(self) -> int:
        """The burst."""
        return self.burst

    def start(self, now_ns: int) -> State:
        """A full bucket."""
        return (now_ns * self.limit, 0, 0)

    def step(self, state: State, now_ns: int) -> State:  # noqa: ARG002 - time is in the number itself
        """The state itself: TAT needs no upkeep."""
        return state

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """Book `cost` permits at the first moment the bucket holds them; see `Algorithm.take`."""
        tat, _, latest_ns = state
        limit, period_ns = self.limit, self.period_ns
        now = start = now_ns * limit
        at_ns = now_ns
        if from_ns > now_ns:
            at_ns, start = from_ns, from_ns * limit
        new = (tat if tat > start else start) + cost * period_ns
        due = new - self.burst_ticks
        if due > start:
            at_ns = -(-due // limit)
        wait_ns = at_ns - now_ns
        if wait_ns:
            if cost > self.burst:
                return self._refuse(tat, now_ns, None), state
            if max_wait_ns is not None and wait_ns > max_wait_ns:
                return self._refuse(tat, now_ns, wait_ns - max_wait_ns), state
        remaining = (now - due) // period_ns
        if remaining > 0:
            reset_ns = -((now - new) // limit)
        else:
            remaining, reset_ns = self._left(new, now)
        state = (new, at_ns, at_ns if at_ns > latest_ns else latest_ns)
        return _new(Decision, (True, at_ns, wait_ns, None, self.burst, remaining, reset_ns)), state

    def _refuse(self, tat: int, now_ns: int, retry_after_ns: int | None) -> Decision:
        remaining, reset_ns = self._left(tat, now_ns * self.limit)
        return refused(now_ns, retry_after_ns, self.burst, remaining, reset_ns)

    def _left(self, tat: int, now: int) -> tuple[int, int]:
        """Permits in the bucket, and the wait for the next one (if none) or for all of them."""
        debt = tat - now
        if debt <= 0:
            return self.burst, 0
        remaining = self.burst - ceil_div(debt, self.period_ns)
        if remaining > 0:
            return remaining, ceil_div(debt, self.limit)
        return 0, ceil_div(debt - self.burst_ticks + self.period_ns, self.limit)

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Take `cost` permits without asking; the debt ends at one bucket below empty."""
        now = now_ns * self.limit
        base = max(state[0], now)
        tat = max(base, min(base + cost * self.period_ns, now + 2 * self.burst * self.period_ns))
        return tat, now_ns, max(state[2], now_ns)

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """Put `cost` permits back, but for those that flow in between `at_ns` and the latest booking.

        In that time the bucket might have been full, and giving all back would mint (the rule is that of
        golang.org/x/time/rate). A booking ahead is
        known by TAT too, so that waiters who leave from the end of the queue all give their moment back.
        """
        tat, last_ns, latest_ns = state
        due_ns = ceil_div(tat - self.burst * self.period_ns, self.limit)
        is_last = at_ns == last_ns or now_ns < at_ns == due_ns
        behind_ns = 0 if is_last else latest_ns - at_ns
        back = cost * self.period_ns - behind_ns * self.limit
        if behind_ns < 0 or back <= 0 or tat <= now_ns * self.limit:
            return state
        return max(tat - back, min(at_ns, now_ns) * self.limit), last_ns, latest_ns

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> GCRA:
        """Rate and burst times `factor`."""
        return replace(self, limit=scaled_count(self.limit, factor), burst=scaled_count(self.burst, factor))

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Carry the debt over: in permits (`keep`) or as a share of the bucket (`scale`)."""
        now = now_ns * self.limit
        if not isinstance(old, GCRA) or mode == "reset":
            return now + adopted_use(self, state, now_ns, old, mode) * self.period_ns, 0, 0
        debt = max(0, state[0] - now_ns * old.limit)
        if mode == "keep":
            return now + ceil_div(debt * self.period_ns, old.period_ns), *state[1:]
        return now + ceil_div(debt * self.burst * self.period_ns, old.burst * old.period_ns), *state[1:]

    def used(self, state: State, now_ns: int) -> int:
        """Permits missing from a full bucket."""
        return ceil_div(max(0, state[0] - now_ns * self.limit), self.period_ns)

    def forget_at_ns(self, state: State) -> int:
        """The moment the bucket is full again."""
        return ceil_div(state[0], self.limit)
