"""Several checks with one start time, all or nothing: pure, for every store that holds states itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ratelimit_middleware.algorithms.base import Algorithm, State
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.stores.base import Check

__all__ = ["Taken", "take_together", "untouched"]

_MAX_ROUNDS = 8
_new = tuple.__new__
"""Past the constructors of named tuples, which cost several times what they do."""


class Taken(NamedTuple):
    """What came out: a decision a check, in order, and the states to keep as (key, algorithm, state)."""

    decisions: list[Decision]
    states: list[tuple[str, Algorithm, State]]


class _Attempt:
    """One try at booking all enforcing checks at one start time; states are kept apart until it holds."""

    __slots__ = ("_load", "_now_ns", "states")

    def __init__(
        self,
        load: Callable[[str, Check, int], State],
        now_ns: int,
        states: Mapping[str, tuple[Algorithm, State]] | None = None,
    ) -> None:
        self._load = load
        self._now_ns = now_ns
        self.states = dict(states or {})

    def take(self, key: str, check: Check, max_wait_ns: int | None, from_ns: int) -> Decision:
        """Take on top of what this attempt has taken already (two checks may share a bucket)."""
        held = self.states.get(key)
        if held is None or held[0] != check.algorithm:
            state = self._load(key, check, self._now_ns)
        else:
            state = held[1]
        decision, state = check.algorithm.take(state, self._now_ns, check.cost, max_wait_ns, from_ns)
        self.states[key] = (check.algorithm, state)
        return decision


def take_together(
    checks: Sequence[Check],
    keys: Sequence[str],
    load: Callable[[str, Check, int], State],
    now_ns: int,
) -> Taken:
    """Book all enforcing checks at the earliest moment that suits all, or none; shadow checks apart.

    Args:
        checks: what is asked, in order.
        keys: the bucket of each check.
        load: gives a bucket's state in the check's own numbers.
        now_ns: the present moment.
    """
    enforcing = [i for i, check in enumerate(checks) if not check.shadow]
    decisions, booked = _book(checks, keys, enforcing, load, now_ns)
    for i, check in enumerate(checks):
        if check.shadow:
            # On top of what is booked: a bucket may be shared with an enforcing limit.
            alone = _Attempt(load, now_ns, booked)
            decisions[i] = alone.take(keys[i], check, 0, now_ns)
            if decisions[i].allowed:
                booked = alone.states
    states = [(key, algorithm, state) for key, (algorithm, state) in booked.items()]
    return Taken([decisions[i] for i in range(len(checks))], states)


def _book(
    checks: Sequence[Check],
    keys: Sequence[str],
    enforcing: Sequence[int],
    load: Callable[[str, Check, int], State],
    now_ns: int,
) -> tuple[dict[int, Decision], dict[str, tuple[Algorithm, State]]]:
    """Search the common start time: ask each at t, take the largest moment asked for, repeat."""
    waits = [checks[i].max_wait_ns for i in enforcing if checks[i].max_wait_ns != 0]
    bounded = [wait for wait in waits if wait is not None]
    max_wait_ns = min(bounded) if bounded else (None if waits else 0)
    start_ns = latest_ns = now_ns
    for _ in range(_MAX_ROUNDS):
        start_ns = latest_ns
        attempt = _Attempt(load, now_ns)
        decisions = {}
        for i in enforcing:
            patience_ns = start_ns - now_ns if checks[i].max_wait_ns == 0 else max_wait_ns
            decisions[i] = attempt.take(keys[i], checks[i], patience_ns, start_ns)
        if not waits:  # nobody asks for a later moment
            break
        asked = [d.at_ns for i, d in decisions.items() if d.allowed and checks[i].max_wait_ns != 0]
        latest_ns = max(asked, default=start_ns)
        if latest_ns <= start_ns:
            break
    if latest_ns <= start_ns and all(decision.allowed for decision in decisions.values()):
        return decisions, attempt.states
    return {i: untouched(decision, checks[i], start_ns) for i, decision in decisions.items()}, {}


def untouched(decision: Decision, check: Check, start_ns: int) -> Decision:
    """A decision in a request that is refused: its permits are still there.

    A check that asks for yet another moment when the search has ended is one of those that refuse. One that
    never waits was asked about a start ahead, to which the others need not come again: it tells its wait
    from now on.
    """
    if not decision.allowed:
        ahead_ns = start_ns - decision.at_ns
        if not ahead_ns or check.max_wait_ns != 0 or decision.retry_after_ns is None:
            return decision
        if not check.algorithm.window_ns:
            return decision
        return decision._replace(retry_after_ns=decision.retry_after_ns + ahead_ns)
    remaining = decision.remaining + check.cost
    if decision.at_ns > start_ns:
        return decision._replace(
            allowed=False, wait_ns=0, retry_after_ns=decision.wait_ns, remaining=remaining
        )
    _, at_ns, _, _, limit, _, reset_ns = decision
    return _new(Decision, (True, at_ns, 0, None, limit, remaining, reset_ns))
