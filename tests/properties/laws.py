"""The laws every algorithm keeps, as functions that check one trace; each algorithm's tests call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ratelimit_middleware.algorithms.base import AdoptMode, Algorithm, State
from ratelimit_middleware.decision import Decision

START_NS = 1_700_000_000_000_000_000


class Ask(NamedTuple):
    """One call of a trace: `after_ns` since the one before, `cost` permits, at most `max_wait_ns`."""

    after_ns: int
    cost: int
    max_wait_ns: int | None = 0


class Hit(NamedTuple):
    """An admission: when it starts, and how many permits."""

    at_ns: int
    cost: int


def replay(
    algorithm: Algorithm, trace: Sequence[Ask], start_ns: int = START_NS
) -> tuple[list[Hit], State, int]:
    """Run a trace; the admissions in order of call, the last state and the last moment."""
    now_ns, state = start_ns, algorithm.start(start_ns)
    hits: list[Hit] = []
    for ask in trace:
        now_ns += ask.after_ns
        decision, state = algorithm.take(state, now_ns, ask.cost, ask.max_wait_ns)
        check_decision(decision, now_ns, ask.max_wait_ns)
        if decision.allowed:
            hits.append(Hit(decision.at_ns, ask.cost))
    return hits, state, now_ns


def check_decision(decision: Decision, now_ns: int, max_wait_ns: int | None) -> None:
    """The parts of a decision agree with each other."""
    assert decision.remaining >= 0
    assert decision.reset_after_ns >= 0
    if decision.allowed:
        assert decision.retry_after_ns is None
        assert decision.at_ns == now_ns + decision.wait_ns
        assert decision.wait_ns >= 0
        assert max_wait_ns is None or decision.wait_ns <= max_wait_ns
    else:
        assert decision.wait_ns == 0
        assert decision.retry_after_ns is None or decision.retry_after_ns > 0


def check_at_most(hits: Sequence[Hit], period_ns: int, limit: int) -> None:
    """At most `limit` permits start in any half-open stretch of `period_ns`."""
    ordered = sorted(hits)
    first, total = 0, 0
    for hit in ordered:
        total += hit.cost
        while ordered[first].at_ns <= hit.at_ns - period_ns:
            total -= ordered[first].cost
            first += 1
        assert total <= limit, (hit, total)


def check_envelope(hits: Sequence[Hit], allowed: Callable[[int], int]) -> None:
    """In any time t at most `allowed(t)` permits start (both ends counted)."""
    ordered = sorted(hits)
    for first in range(len(ordered)):
        total = 0
        for hit in ordered[first:]:
            total += hit.cost
            elapsed_ns = hit.at_ns - ordered[first].at_ns
            assert total <= allowed(elapsed_ns), (elapsed_ns, total)


def check_burst_and_rate(
    hits: Sequence[Hit], burst: int, limit: int, period_ns: int, rounding_ns: int = 0
) -> None:
    """At most `burst` and what flows in at `limit` a period.

    Moments of waiters are rounded up to the clock's nanosecond: two may lie `rounding_ns` closer.
    """
    check_envelope(hits, lambda t_ns: burst + (t_ns + rounding_ns) * limit // period_ns)


def check_retry_after(
    algorithm: Algorithm, state: State, now_ns: int, cost: int, max_wait_ns: int = 0
) -> None:
    """Refused before `retry_after`, admitted exactly at it, if nobody else comes."""
    decision, kept = algorithm.take(state, now_ns, cost, max_wait_ns)
    if decision.allowed:
        return
    if decision.retry_after_ns is None:
        for wait_ns in (algorithm.window_ns, 100 * algorithm.window_ns, 10**18):
            assert not algorithm.take(kept, now_ns + wait_ns, cost, max_wait_ns)[0].allowed
        return
    due_ns = now_ns + decision.retry_after_ns
    assert algorithm.take(kept, due_ns, cost, max_wait_ns)[0].allowed
    for early_ns in {1, 2, decision.retry_after_ns // 2, decision.retry_after_ns - 1} - {0}:
        if early_ns < decision.retry_after_ns:
            assert not algorithm.take(kept, due_ns - early_ns, cost, max_wait_ns)[0].allowed, early_ns


def check_refusal_consumes_nothing(algorithm: Algorithm, state: State, now_ns: int, cost: int) -> None:
    """With a refusal the state is `step(state, now)`, and peek changes nothing."""
    decision, after = algorithm.take(state, now_ns, cost)
    assert algorithm.peek(state, now_ns, cost) == decision
    if not decision.allowed:
        assert after == algorithm.step(state, now_ns)


def capacity(algorithm: Algorithm, state: State, now_ns: int, most: int = 10**9) -> int:
    """How many single permits can be taken at one moment, up to `most`."""
    taken = 0
    decision, state = algorithm.take(state, now_ns)
    while decision.allowed and taken < most:
        taken += 1
        decision, state = algorithm.take(state, now_ns)
    return taken


def check_no_more(
    algorithm: Algorithm, less: State, more: State, now_ns: int, later_ns: Sequence[int] = ()
) -> None:
    """`less` never admits what `more` refuses, now and at later moments."""
    for moment_ns in (now_ns, *(now_ns + later for later in later_ns)):
        assert algorithm.peek(less, moment_ns).remaining <= algorithm.peek(more, moment_ns).remaining
        assert capacity(algorithm, less, moment_ns) <= capacity(algorithm, more, moment_ns)


def check_adopt_there_and_back(
    algorithm: Algorithm, other: Algorithm, state: State, now_ns: int, mode: AdoptMode
) -> None:
    """Changing the numbers and changing them back never mints."""
    there = other.adopt(state, now_ns, algorithm, mode)
    back = algorithm.adopt(there, now_ns, other, mode)
    assert algorithm.used(back, now_ns) >= algorithm.used(state, now_ns)
    check_no_more(algorithm, back, state, now_ns, (algorithm.window_ns // 3, algorithm.window_ns // 2))


def check_time_back(algorithm: Algorithm, state: State, now_ns: int, back_ns: int) -> None:
    """A moment before the present never gets more than the present."""
    before_ns = now_ns - back_ns
    then, now = algorithm.peek(state, before_ns), algorithm.peek(state, now_ns)
    assert then.remaining <= now.remaining
    assert now.allowed or not then.allowed
    assert capacity(algorithm, state, before_ns) <= capacity(algorithm, state, now_ns)


def check_forgetting(algorithm: Algorithm, state: State, now_ns: int) -> None:
    """From `forget_at_ns` on, a fresh state is no more generous than the old one."""
    at_ns = max(now_ns, algorithm.forget_at_ns(state))
    check_no_more(algorithm, algorithm.start(at_ns), state, at_ns, (1, algorithm.window_ns // 2))


def check_charge(
    algorithm: Algorithm, state: State, now_ns: int, cost: int, dearest: int, dropped: int = 0
) -> None:
    """A charge takes its permits, at most at their `dearest`, or runs into the cap; it never gives.

    Args:
        algorithm: the algorithm.
        state: the state to charge.
        now_ns: the present moment.
        cost: permits charged.
        dearest: what they may come to as `used` counts.
        dropped: what rounding may take from them.
    """
    charged = algorithm.charge(state, now_ns, cost)
    before, after = algorithm.used(state, now_ns), algorithm.used(charged, now_ns)
    assert before <= after <= before + dearest
    assert after >= min(before + cost, 2 * algorithm.quota) - dropped
    check_no_more(algorithm, charged, state, now_ns)
