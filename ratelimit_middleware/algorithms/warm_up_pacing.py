"""WarmUpPacing: Sentinel's warm-up with pacing: requests evenly spaced, further apart while it is cold.

Source: `WarmUpRateLimiterController` of alibaba/Sentinel (1.8.9 line, Apache-2.0), described in our own
words. The bucket of cold is that of `WarmUp`; its rate gives the distance between requests, which queue as
in `Pacing`. Where the original limits nothing, this class does not follow; docs/deviations/sentinel.md has
the table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ratelimit_middleware.algorithms import _slots as slots
from ratelimit_middleware.algorithms._cold_bucket import MS_NS
from ratelimit_middleware.algorithms._cold_prices import ColdPrices
from ratelimit_middleware.algorithms._numbers import factor_above_zero
from ratelimit_middleware.algorithms._queue import (
    ANY_COST,
    never,
    patience_ns,
    room,
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
from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.decision import Decision

__all__ = ["WarmUpPacing"]


@dataclass(frozen=True, slots=True)
class WarmUpPacing(ColdPrices):
    """`count` permits a second when warm, `count / cold_factor` when cold, one after the other.

    Bound: requests start in the order of their bookings, each at least its own price after the one
    before. A price is never below `cost / count` seconds; so in any time t all requests but the first
    together get at most `t * count` permits. With `whole_ms` prices are rounded to the nearest
    millisecond, as in the original: 400 a second become 333, 700 become 1000 (what would round to
    nothing keeps its nanoseconds).

    A request of any size is admitted when the key has been idle for its price; a key never seen is cold
    and counts as idle for a minute (for one cold interval, if that is longer). The price is that of the
    calendar second in which a request is booked, also if it waits for a later one. A request counts as
    passed in the second in which it starts.

    `quota` is how many may stand in a warm queue and at its head, `window_ns` the time in which they go;
    `remaining` says how many single permits would be admitted to one as patient as the asker.

    State: `(stored_tokens, last_filled_ms, latest_ns, older_ns, passes)`: the bucket, the moment of the
    latest booking, the moment up to which bookings were made at another price, and the permits that pass
    in each calendar second, from the present one on (`_slots`).

    Args:
        count: permits per second, fractions allowed, 10^-9 to 10^9; 0 refuses everything.
        warm_up_period: seconds, or a `timedelta`; above 0.
        cold_factor: how much slower a cold bucket is; above 1, fractions allowed, at most 10^6.
        max_queueing_time: seconds, or a `timedelta`; who would have to wait longer is refused. A smaller
            `max_wait_ns` counts instead.
        whole_ms: prices in whole milliseconds, with the original's doubles.

    Raises:
        InvalidLimitError: a number out of its range.
    """

    @property
    def smallest_full_take(self) -> int:
        """A request of any size is admitted in the end."""
        return ANY_COST if self.count else 0

    def start(self, now_ns: int) -> State:
        """Cold, and idle for a minute; never since before the epoch, as in the original."""
        latest_ns = max(-MS_NS, now_ns - self._kept_ns)
        return (*self.cold_core(now_ns), latest_ns, latest_ns, ())

    def step(self, state: State, now_ns: int) -> State:
        """Count tokens if a new second began, and forget the passes of the ones before."""
        second = now_ns // NS_PER_SECOND
        if second * 1000 <= state[1]:
            return state
        return (*self._core_in(state, second), state[2], state[2], slots.since(state[4], second))

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """Book the first moment that lies the request's price after the latest one; see `Algorithm.take`.

        As in the original, a cost of 0 is a request: it stands in the queue, at no price of its own.
        """
        state = self.step(state, now_ns)
        if not self.count:
            return never(now_ns, self.window_ns), state
        asked_ns = from_ns if from_ns > now_ns else now_ns
        shown_ns = patience_ns(self.max_queueing_ns, max_wait_ns)
        waits_ns = patience_ns(self.max_queueing_ns, max_wait_ns, asked_ns - now_ns)
        at_ns = max(asked_ns, state[2] + self.price_ns(state[0], cost))
        if at_ns - now_ns > waits_ns:
            free_ns = self._free_ns(state, now_ns, cost, waits_ns)
            retry_ns = max(free_ns, asked_ns - waits_ns) - now_ns
            return refused(now_ns, retry_ns, self.quota, *self._left(state, now_ns, shown_ns)), state
        passes = slots.added(state[4], at_ns // NS_PER_SECOND, cost)
        state = (state[0], state[1], at_ns, state[3], passes)
        return granted(at_ns, now_ns, self.quota, *self._left(state, now_ns, shown_ns)), state

    def _free_ns(self, state: State, now_ns: int, cost: int, waits_ns: int) -> int:
        """The first moment at which one who waits so long is admitted, if nobody comes before it.

        The price is another one in each second: it may fall as long as those pass who are booked, from
        then on it only rises, so that the moment found under a price is the earliest to look at next.
        """
        _, _, latest_ns, _, passes = state
        # Nobody is booked behind the latest (a clock that steps back may round its second up): only a broken
        # entry says so, and all the seconds until then would be gone through.
        falls_until = min(passes[-2], latest_ns // NS_PER_SECOND + 1) + 1 if passes else 0
        second = max(now_ns, latest_ns + self.least_price_ns(cost) - waits_ns) // NS_PER_SECOND
        while True:
            stored = self._core_in(state, second)[0]
            due_ns = latest_ns + self.price_ns(stored, cost) - waits_ns
            at_ns: int = max(now_ns, second * NS_PER_SECOND, due_ns)
            reached = at_ns // NS_PER_SECOND
            if reached == second:
                return at_ns
            second = second + 1 if second <= falls_until else reached

    def _left(self, state: State, now_ns: int, waits_ns: int) -> tuple[int, int]:
        """Single permits left to one who waits so long, and the wait for the next or for all of them."""
        price_ns = self.price_ns(state[0], 1)
        free_ns = state[2] + price_ns - now_ns
        left = room(free_ns, price_ns, waits_ns)
        return left, max(0, free_ns) if left else self._free_ns(state, now_ns, 1, waits_ns) - now_ns

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Book `cost` single permits without asking; the debt ends at one full queue beyond the full one."""
        stored, filled_ms, latest_ns, older_ns, passes = self.step(state, now_ns)
        price_ns = self.single_ns(stored)
        free_ns = max(latest_ns + price_ns, now_ns)
        cost = min(cost, 2 * self.quota - ceil_div(free_ns - now_ns, price_ns))
        if cost <= 0:
            return (stored, filled_ms, latest_ns, older_ns, passes)
        passes = slots.added(passes, now_ns // NS_PER_SECOND, cost)
        return (stored, filled_ms, free_ns + (cost - 1) * price_ns, older_ns, passes)

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:  # noqa: ARG002
        """Undo the latest booking; those who stand behind an earlier one cannot move up.

        One that was booked at the price of an earlier second comes back at the least price. (In the
        original a waiter who leaves keeps its place.)
        """
        stored, filled_ms, latest_ns, older_ns, passes = state
        if at_ns != latest_ns or not self.count:  # a limit of 0 has booked nothing
            return state
        latest_ns = at_ns - (self.price_ns(stored, cost) if at_ns > older_ns else self.least_price_ns(cost))
        passes = slots.removed(passes, at_ns // NS_PER_SECOND, cost)
        # What is booked next may lie before the one that has gone, and has the present price all the same.
        return (stored, filled_ms, latest_ns, min(older_ns, latest_ns), passes)

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request that does not wait would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> WarmUpPacing:
        """The count times `factor`."""
        return replace(self, count=self.count * factor_above_zero(factor))

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Carry over how cold it is (as a share, rounded to colder), and the moments that were booked.

        Callers wait for those moments, so they stay. Other kinds of algorithm leave a queue.
        """
        if isinstance(old, WarmUpPacing) and mode != "reset":
            stored, filled_ms, latest_ns, _, passes = old.step(state, now_ns)
            return (self.stored_from(old, stored), filled_ms, latest_ns, latest_ns, passes)
        used = adopted_use(self, state, now_ns, old, mode)
        fresh = self.start(now_ns)
        latest_ns = now_ns + (used - 1) * self.interval_ns
        return (fresh[0], fresh[1], latest_ns, latest_ns, ()) if used else fresh

    def used(self, state: State, now_ns: int) -> int:
        """The time until the queue has gone, in permits at the warm price: a cold one counts as several."""
        state = self.step(state, now_ns)
        free_ns = state[2] + self.single_ns(state[0]) - now_ns
        return ceil_div(max(0, free_ns), self.interval_ns)

    def forget_at_ns(self, state: State) -> int:
        """The moment from which a key never seen would be as strict, and no colder."""
        stored, filled_ms, latest_ns, _, passes = state
        idle_ns: int = latest_ns + self._kept_ns
        missing = self.max_token - stored + slots.total(passes)
        if not missing or not self.count:
            return idle_ns
        refill_ms = filled_ms + math.ceil(missing * 1000 / self.count)
        last = passes[-2] if passes else 0
        return max(idle_ns, max(ceil_div(refill_ms, 1000), last + 2) * NS_PER_SECOND)
