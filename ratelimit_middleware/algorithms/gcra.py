"""GCRA: a steady rate with a burst, in one number.

The generic cell rate algorithm (ITU-T I.371, virtual scheduling form): the *theoretical arrival time*
(TAT) is the moment at which the bucket would be full again. Equal to a token bucket of size `burst`
that is filled without steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import gcd

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

    State: `(last_ns, debt)`: the moment of the last booking, and how much later than that the bucket is full
    again (TAT is the sum). The debt is kept in *ticks*, the longest time of which both a nanosecond and a
    permit are whole multiples, so that nothing is ever rounded. If somebody had booked for a later moment
    than that of the last booking, this lead follows: `(last_ns, debt, ahead_ns)`.

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
    ticks_per_ns: int = field(init=False, repr=False, compare=False)
    permit_ticks: int = field(init=False, repr=False, compare=False)
    burst_ticks: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        object.__setattr__(self, "limit", positive_int("limit", self.limit, 10**9))
        object.__setattr__(self, "burst", positive_int("burst", self.burst, 10**9))
        object.__setattr__(self, "period_ns", positive_ns("period", self.period))
        common = gcd(self.limit, self.period_ns)
        object.__setattr__(self, "ticks_per_ns", self.limit // common)
        object.__setattr__(self, "permit_ticks", self.period_ns // common)
        object.__setattr__(self, "burst_ticks", self.burst * self.permit_ticks)

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
        """A full bucket, of which nothing has been booked."""
        return (0, now_ns * self.ticks_per_ns)

    def step(self, state: State, now_ns: int) -> State:  # noqa: ARG002 - time is in the number itself
        """The state itself: TAT needs no upkeep."""
        return state

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """Book `cost` permits at the first moment the bucket holds them; see `Algorithm.take`."""
        # Numbers since the last booking are small: half the instructions of those since the epoch.
        last_ns, debt = state[0], state[1]
        since_ns = now_ns - last_ns
        debt -= since_ns * self.ticks_per_ns
        price = self.permit_ticks if cost == 1 else cost * self.permit_ticks
        owed = debt + price if debt > 0 else price
        left = self.burst_ticks - owed
        if left < 0 or from_ns > now_ns or since_ns < 0 or len(state) > 2:
            return self._book(state, debt, now_ns, cost, max_wait_ns, from_ns)
        remaining = left // self.permit_ticks
        reset = owed if remaining else self.permit_ticks - left
        reset_ns = -(-reset // self.ticks_per_ns)
        return _new(Decision, (True, now_ns, 0, None, self.burst, remaining, reset_ns)), (now_ns, owed)

    def _book(
        self, state: State, debt: int, now_ns: int, cost: int, max_wait_ns: int | None, from_ns: int
    ) -> tuple[Decision, State]:
        """`take` in full: bookings for a later moment, refusals, and those before whom others have booked."""
        lead_ns = from_ns - now_ns if from_ns > now_ns else 0
        lead = lead_ns * self.ticks_per_ns
        owed = (debt if debt > lead else lead) + cost * self.permit_ticks
        due = owed - self.burst_ticks
        wait_ns = -(-due // self.ticks_per_ns) if due > lead else lead_ns
        if cost > self.burst:
            return refused(now_ns, None, self.burst, *self._left(debt)), state
        if max_wait_ns is not None and wait_ns > max_wait_ns:
            return refused(now_ns, wait_ns - max_wait_ns, self.burst, *self._left(debt)), state
        at_ns, (remaining, reset_ns) = now_ns + wait_ns, self._left(owed)
        decision = _new(Decision, (True, at_ns, wait_ns, None, self.burst, remaining, reset_ns))
        return decision, _booked(state, at_ns, owed - wait_ns * self.ticks_per_ns)

    def _left(self, debt: int) -> tuple[int, int]:
        """Permits in the bucket, and the wait for the next one (if none) or for all of them."""
        if debt <= 0:
            return self.burst, 0
        left = self.burst_ticks - debt
        remaining = left // self.permit_ticks
        if remaining > 0:
            return remaining, -(-debt // self.ticks_per_ns)
        return 0, -((left - self.permit_ticks) // self.ticks_per_ns)

    def _debt(self, state: State, now_ns: int) -> int:
        """Ticks from now until the bucket is full; below 0 where it has been full for that long."""
        return int(state[1] - (now_ns - state[0]) * self.ticks_per_ns)

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Take `cost` permits without asking; the debt ends at one bucket below empty."""
        debt = max(0, self._debt(state, now_ns))
        owed = max(debt, min(debt + cost * self.permit_ticks, 2 * self.burst_ticks))
        return _booked(state, now_ns, owed)

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """Put `cost` permits back, but for those that flow in between `at_ns` and the latest booking.

        In that time the bucket might have been full, and giving all back would mint (the rule is that of
        golang.org/x/time/rate). A booking ahead is known by TAT too, so that waiters who leave from the
        end of the queue all give their moment back.
        """
        last_ns, debt, ahead_ns = (*state, 0)[:3]
        due_ns = last_ns + ceil_div(debt - self.burst_ticks, self.ticks_per_ns)
        is_last = at_ns == last_ns or now_ns < at_ns == due_ns
        behind_ns = 0 if is_last else last_ns + ahead_ns - at_ns
        back = cost * self.permit_ticks - behind_ns * self.ticks_per_ns
        if behind_ns < 0 or back <= 0 or self._debt(state, now_ns) <= 0:
            return state
        debt = max(debt - back, (min(at_ns, now_ns) - last_ns) * self.ticks_per_ns)
        return (last_ns, debt, *state[2:])

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> GCRA:
        """Rate and burst times `factor`."""
        return replace(self, limit=scaled_count(self.limit, factor), burst=scaled_count(self.burst, factor))

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Carry the debt over: in permits (`keep`) or as a share of the bucket (`scale`)."""
        if not isinstance(old, GCRA) or mode == "reset":
            debt = adopted_use(self, state, now_ns, old, mode) * self.permit_ticks
            return (0, now_ns * self.ticks_per_ns + debt)
        last_ns, debt = state[:2]
        since_ns = now_ns - last_ns
        times, divisor = self.permit_ticks, old.permit_ticks
        if mode == "scale":
            times, divisor = times * self.burst, divisor * old.burst
        debt = ceil_div(max(0, debt - since_ns * old.ticks_per_ns) * times, divisor)
        return (last_ns, debt + since_ns * self.ticks_per_ns, *state[2:])

    def used(self, state: State, now_ns: int) -> int:
        """Permits missing from a full bucket."""
        return ceil_div(max(0, self._debt(state, now_ns)), self.permit_ticks)

    def forget_at_ns(self, state: State) -> int:
        """The moment the bucket is full again."""
        return int(state[0] + ceil_div(state[1], self.ticks_per_ns))


def _booked(state: State, at_ns: int, debt: int) -> State:
    """The state after a booking for `at_ns`."""
    ahead_ns = state[0] - at_ns + (state[2] if len(state) > 2 else 0)
    return (at_ns, debt, ahead_ns) if ahead_ns > 0 else (at_ns, debt)
