"""WarmUpWindow: a sliding window whose limit warms up; `behavior: warm_up` in a rule file.

The curve is Sentinel's: the interval between permits is linear in the cold that is left (`_cold_window`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ratelimit_middleware.algorithms._cold_window import MILLI, ColdWindow
from ratelimit_middleware.algorithms.base import (
    AdoptMode,
    Algorithm,
    State,
    adopted_use,
    ceil_div,
    refused,
    scaled_count,
)
from ratelimit_middleware.decision import Decision

__all__ = ["WarmUpWindow"]


@dataclass(frozen=True, slots=True)
class WarmUpWindow(ColdWindow):
    """`limit` permits in any `period` when warm, `limit / cold_factor` when cold.

    Bound: in any half-open stretch of time as long as the period at most `limit` permits. While it warms
    up a request passes only if the stretch that ends with it holds at most the threshold of the moment
    (at least 1 permit).

    It starts cold. At every border of a period (aligned to the epoch) the passes of the period before
    take as many permits of cold away; a quiet period, one in which the window never held as many as
    the cold limit, `max(1, floor(limit / cold_factor))`, puts `limit` permits of cold back. That a
    window *held* them is asked, not that they passed between two borders: under random arrivals the hits
    drift over the borders, and a saturated cold limit would be taken for a quiet one.

    State: `(period_index, cold, passed, peak, used, log)`: the period that is counted, the cold left
    (thousandths of a permit), permits passed in that period (booked in it, when they start later), the
    most that the window held in it, and the window's own state.

    Args:
        limit: permits per period when warm, 1 to 10^9.
        period: seconds, or a `timedelta`; above 0.
        warm_up_period: seconds, or a `timedelta`; at least two periods. It takes about this long from
            cold to warm under full load.
        cold_factor: how much lower a cold limit is; above 1, at most 1000, kept as a fraction with a
            denominator up to 1000.

    Raises:
        InvalidLimitError: a number out of its range.
    """

    def start(self, now_ns: int) -> State:
        """Fully cold, nothing used."""
        return (now_ns // self.window.period_ns, self.full_cold, 0, 0, *self.window.start(now_ns))

    def step(self, state: State, now_ns: int) -> State:
        """Count the periods that have ended; drop the hits that are a period old."""
        used, log = self.window.step(state[4:], now_ns)
        index = now_ns // self.window.period_ns
        if index <= state[0]:
            return state if log is state[5] else (*state[:4], used, log)
        return (index, self.cold_in(state, index), 0, 0, used, log)

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """Book `cost` permits at the first moment the window has room; see `Algorithm.take`.

        A booking ahead is decided with the threshold that its moment will have if nobody else comes.
        `retry_after_ns` is None for a cost that this bucket, left alone, never lets through: a cold one
        admits the cold limit at most, and only the traffic of others warms it up.
        """
        state = self.step(state, now_ns)
        if from_ns <= now_ns:
            decision, window = self.window.take(state[4:], now_ns, cost, 0, now_ns, self.limit_at(state[1]))
            if decision.allowed:
                return self._grant(decision, state, window, now_ns, cost)
        decision, window = self._first(state, now_ns, cost, max(from_ns, now_ns))
        if not decision.allowed:
            return self._refuse(state, now_ns, None, None), state
        if max_wait_ns is not None and decision.wait_ns > max_wait_ns:
            next_ns = decision.wait_ns if cost == 1 and from_ns <= now_ns else None
            return self._refuse(state, now_ns, decision.wait_ns - max_wait_ns, next_ns), state
        return self._grant(decision, state, window, now_ns, cost)

    def _first(self, state: State, now_ns: int, cost: int, from_ns: int) -> tuple[Decision, State]:
        """The booking at the first moment from `from_ns` on, if nobody else comes.

        The limit may rise at the next border, when this period's passes are taken out of the cold. After
        that it only falls, so that the moment found under a limit is the earliest to look at next.
        """
        period_ns = self.window.period_ns
        index = first = max(state[0], from_ns // period_ns)
        while True:
            limit = self.limit_at(self.cold_in(state, index))
            decision, window = self.window.take(state[4:], now_ns, cost, None, from_ns, limit)
            reached = decision.at_ns // period_ns
            if index > first and not decision.allowed:
                return decision, window
            if decision.allowed and reached <= index:
                return decision, window
            index = index + 1 if index == first else reached
            from_ns = max(from_ns, index * period_ns)

    def _grant(
        self, decision: Decision, state: State, window: State, now_ns: int, cost: int
    ) -> tuple[Decision, State]:
        index, cold, passed, peak = state[:4]
        used = window[0]
        state = (index, cold, passed + cost, used if used > peak else peak, *window)
        if not decision.remaining:
            decision = decision._replace(reset_after_ns=self._next_ns(state, now_ns))
        return decision, state

    def _refuse(self, state: State, now_ns: int, retry_after_ns: int | None, next_ns: int | None) -> Decision:
        """A refusal; `next_ns` is the wait for the next single permit if it is known."""
        remaining = max(0, self.limit_at(state[1]) - state[4])
        if remaining:
            reset_ns = max(0, self.window.forget_at_ns(state[4:]) - now_ns)
        else:
            reset_ns = self._next_ns(state, now_ns) if next_ns is None else next_ns
        return refused(now_ns, retry_after_ns, self.limit, remaining, reset_ns)

    def _next_ns(self, state: State, now_ns: int) -> int:
        """The wait for the next single permit."""
        return self._first(state, now_ns, 1, now_ns)[0].wait_ns

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Take `cost` permits without asking; the debt ends at one limit beyond the limit."""
        index, cold, passed, peak, before, log = self.step(state, now_ns)
        used, log = self.window.charge((before, log), now_ns, cost)
        return (index, cold, passed + used - before, max(peak, used), used, log)

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """Take a booking out of the window and out of this period's passes; cold it took stays away."""
        index, cold, passed, peak, before, log = self.step(state, now_ns)
        used, log = self.window.give_back((before, log), now_ns, cost, at_ns)
        back = before - used if at_ns // self.window.period_ns >= index else 0
        return (index, cold, max(0, passed - back), max(0, peak - back), used, log)

    def without_oldest(self, state: State, permits: int) -> State:
        """Without the oldest `permits` permits of the window (for `RelatedCharge`)."""
        return (*state[:4], *self.window.without_oldest(state[4:], permits))

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> WarmUpWindow:
        """The limit times `factor`."""
        return replace(self, limit=scaled_count(self.limit, factor))

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Carry over the window's hits, and how cold it is (as a share, rounded to colder).

        Passes of the running period count on only if the periods are equal.
        """
        if not isinstance(old, WarmUpWindow) or mode == "reset":
            # The hits of a longer window would be forgotten here, and not be there on the way back.
            if old.window_ns == self.window_ns:
                window = self.window.adopt(state, now_ns, old, mode)
            else:
                window = self.window.holding(adopted_use(self, state, now_ns, old, mode), now_ns)
            return (*self.start(now_ns)[:4], *window)
        index, cold, passed, peak, used, log = state
        if self.window.period_ns != old.window.period_ns:
            now_index = now_ns // old.window.period_ns
            index, cold, passed, peak = now_ns // self.window.period_ns, old.cold_in(state, now_index), 0, 0
        cold = ceil_div(cold * self.full_cold, old.full_cold)
        if mode == "scale":
            passed, peak = passed * self.limit // old.limit, peak * self.limit // old.limit
        window = self.window.adopt((used, log), now_ns, old.window, mode)
        return (index, cold, passed, peak, *window)

    def used(self, state: State, now_ns: int) -> int:
        """Permits in the log that are younger than a period."""
        return self.window.used(state[4:], now_ns)

    def forget_at_ns(self, state: State) -> int:
        """The moment the window is empty and, left alone, fully cold again."""
        empty_ns = self.window.forget_at_ns(state[4:])
        index: int = state[0] + 1
        missing = self.full_cold - self.cold_in(state, index)
        if not missing:
            return empty_ns
        quiet = ceil_div(missing, self.limit * MILLI)
        return max(empty_ns, (index + quiet) * self.window.period_ns)
