"""Pacing: Sentinel's rate limiter, which spaces requests evenly and lets them queue for a bounded time.

Source: `ThrottlingController` of alibaba/Sentinel (1.8.9 line, Apache-2.0; once `RateLimiterController`),
described in our own words. One number is kept: the moment of the latest request. The next one starts its
own price after it, and at once if that has passed. Idle time is not saved up, so there are no bursts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

from ratelimit_middleware.algorithms._cold_bucket import MS_NS
from ratelimit_middleware.algorithms._numbers import factor_above_zero, permits_per_second
from ratelimit_middleware.algorithms._queue import (
    ANY_COST,
    KEPT_NS,
    never,
    patience_ns,
    room,
    round_half_up,
)
from ratelimit_middleware.algorithms.base import (
    AdoptMode,
    Algorithm,
    State,
    adopted_use,
    ceil_div,
    granted,
    refused,
)
from ratelimit_middleware.clock import NS_PER_SECOND, to_ns
from ratelimit_middleware.decision import Decision

__all__ = ["Pacing"]


@dataclass(frozen=True, slots=True)
class Pacing:
    """`count` permits a second, one after the other, as in Sentinel.

    Bound: requests start in the order of their bookings, each at least its own price after the one
    before. So in any time t all requests but the first together cost at most t. The price of n permits
    is `n / count` seconds rounded to the nearest nanosecond; to the nearest millisecond where the count
    rounds to a divisor of 1000, as in the original (1.4 a second: one each 714 ms).

    A request of any size is admitted when the key has been idle for its price; a key never seen counts
    as idle for a minute (for one interval, if that is longer).

    `quota` is how many may stand in the queue and at its head, `window_ns` the time in which they go;
    `remaining` says how many single permits would be admitted to one as patient as the asker.

    State: `(latest_ns,)`, the moment of the latest booking.

    Args:
        count: permits per second, fractions allowed, 10^-9 to 10^9; 0 refuses everything.
        max_queueing_time: seconds, or a `timedelta`; who would have to wait longer is refused. A smaller
            `max_wait_ns` counts instead.

    Raises:
        InvalidLimitError: a number out of its range.
    """

    count: float
    max_queueing_time: float | timedelta = field(compare=False)
    max_queueing_ns: int = field(init=False, repr=False)
    unit_ns: int = field(init=False, repr=False, compare=False)
    interval_ns: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense; choose the unit."""
        count = permits_per_second("count", self.count)
        nearest = round_half_up(count)
        # Below 0.5 a second the original divides by zero here.
        whole_ms = count <= 1000 and nearest > 0 and 1000 % nearest == 0
        object.__setattr__(self, "max_queueing_ns", to_ns(self.max_queueing_time, "max_queueing_time"))
        object.__setattr__(self, "unit_ns", MS_NS if whole_ms else 1)
        object.__setattr__(self, "interval_ns", self.price_ns(1) if count else NS_PER_SECOND)

    @property
    def quota(self) -> int:
        """Those who may wait, and the one who goes at once (0 for count 0)."""
        return 1 + self.max_queueing_ns // self.interval_ns if self.count else 0

    @property
    def window_ns(self) -> int:
        """The time in which a full queue goes."""
        return max(1, self.quota) * self.interval_ns

    @property
    def smallest_full_take(self) -> int:
        """A request of any size is admitted in the end."""
        return ANY_COST if self.count else 0

    @property
    def _kept_ns(self) -> int:
        return max(KEPT_NS, self.interval_ns)

    def price_ns(self, cost: int) -> int:
        """How long after the request before one of this cost may start."""
        units_a_second = float(NS_PER_SECOND // self.unit_ns)
        return round_half_up(units_a_second * cost / self.count) * self.unit_ns

    def start(self, now_ns: int) -> State:
        """Idle for a minute; never since before the epoch, as in the original."""
        return (max(-self.unit_ns, now_ns - self._kept_ns),)

    def step(self, state: State, now_ns: int) -> State:  # noqa: ARG002 - time is in the number itself
        """The state itself: it needs no upkeep."""
        return state

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """Book the first moment that lies the request's price after the latest one; see `Algorithm.take`.

        A cost below 1 passes and changes nothing, as in the original.
        """
        # The original's nanosecond clock may stand below 0, where no `from_ns` is not yet a later moment.
        asked_ns = from_ns if from_ns and from_ns > now_ns else now_ns
        shown_ns = patience_ns(self.max_queueing_ns, max_wait_ns)
        if cost < 1:
            return granted(asked_ns, now_ns, self.quota, *self._left(state[0], now_ns, shown_ns)), state
        if not self.count:
            return never(now_ns, self.window_ns), state
        at_ns = max(asked_ns, state[0] + self.price_ns(cost))
        late_ns = at_ns - now_ns - patience_ns(self.max_queueing_ns, max_wait_ns, asked_ns - now_ns)
        if late_ns > 0:
            return refused(now_ns, late_ns, self.quota, *self._left(state[0], now_ns, shown_ns)), state
        return granted(at_ns, now_ns, self.quota, *self._left(at_ns, now_ns, shown_ns)), (at_ns,)

    def _left(self, latest_ns: int, now_ns: int, waits_ns: int) -> tuple[int, int]:
        """Single permits left to one who waits so long, and the wait for the next or for all of them."""
        free_ns = latest_ns + self.interval_ns - now_ns
        left = room(free_ns, self.interval_ns, waits_ns) if self.count else 0
        return left, max(0, free_ns if left else free_ns - waits_ns)

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Book `cost` single permits without asking; the debt ends at one full queue beyond the full one."""
        cost = min(cost, 2 * self.quota - self.used(state, now_ns))
        free_ns = max(state[0] + self.interval_ns, now_ns)
        return (free_ns + (cost - 1) * self.interval_ns,) if cost > 0 else state

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:  # noqa: ARG002
        """Undo the latest booking; those who stand behind an earlier one cannot move up.

        (In the original a waiter who leaves keeps its place.) A request that did not wait comes back as
        its price: how long the key had been idle is not known any more.
        """
        return (at_ns - self.price_ns(cost),) if at_ns == state[0] else state

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request that does not wait would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> Pacing:
        """The count times `factor`."""
        return replace(self, count=self.count * factor_above_zero(factor))

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """The moments that were booked stay, as callers wait for them; other kinds leave a queue."""
        if isinstance(old, Pacing) and mode != "reset":
            return state
        used = adopted_use(self, state, now_ns, old, mode)
        return (now_ns + (used - 1) * self.interval_ns,) if used else self.start(now_ns)

    def used(self, state: State, now_ns: int) -> int:
        """Single permits in the queue, the one whose interval is running included."""
        return ceil_div(max(0, state[0] + self.interval_ns - now_ns), self.interval_ns)

    def forget_at_ns(self, state: State) -> int:
        """The moment from which a key never seen would be as strict: a minute after the latest booking."""
        latest_ns: int = state[0]
        return latest_ns + self._kept_ns
