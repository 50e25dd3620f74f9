"""Recorded scenarios, asked of an algorithm by hand and behind a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ratelimit_middleware.algorithms.base import Algorithm, State
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore
from tests.vectors.sentinel import Scenario, outcome_sha256

__all__ = ["MS", "Outcome", "agrees", "behind_a_store", "by_hand", "max_wait_ns", "moments", "recorded_ops"]

MS = 1_000_000


class Outcome(NamedTuple):
    """What a call hears: passed or not, and the wait in the scenario's own unit (ms or ns)."""

    passed: bool
    wait: float


def unit_ns(scenario: Scenario) -> int:
    return 1 if in_ns(scenario) else MS


def in_ns(scenario: Scenario) -> bool:
    return bool(scenario.data["init"].get("clock") == "ns")


def max_wait_ns(scenario: Scenario) -> int:
    return int(scenario.data["max_queueing_time_ms"]) * MS


def moments(scenario: Scenario) -> list[tuple[int, int]]:
    """Moment (ns) and permits of each call; those on the nanosecond clock have an origin of their own."""
    origin_ns = 0
    if in_ns(scenario):
        origin_ns = scenario.data["init"]["start_ns"] - scenario.data["start_ms"] * MS
    return [(origin_ns + at_ms * MS, cost) for at_ms, cost in scenario.arrivals]


def by_hand(algorithm: Algorithm, scenario: Scenario) -> Iterator[tuple[Outcome, State]]:
    """Through the pure `take`; the state after each call with it."""
    calls = moments(scenario)
    state = algorithm.start(calls[0][0])
    for now_ns, cost in calls:
        decision, state = algorithm.take(state, now_ns, cost, max_wait_ns(scenario))
        yield outcome(scenario, decision.allowed, decision.wait_ns), state


def behind_a_store(algorithm: Algorithm, scenario: Scenario) -> list[Outcome]:
    """Through a memory store on a clock that is set to each call's moment."""
    calls, clock = moments(scenario), ManualClock()
    clock.set_ns(calls[0][0])
    store, outcomes = MemoryStore(clock=clock), []
    for now_ns, cost in calls:
        clock.set_ns(now_ns)
        (decision,) = store.take([Check("key", algorithm, "overflow", cost, max_wait_ns(scenario))])
        outcomes.append(outcome(scenario, decision.allowed, decision.wait_ns))
    return outcomes


def outcome(scenario: Scenario, passed: bool, wait_ns: int) -> Outcome:
    wait, rest = divmod(wait_ns, unit_ns(scenario))
    return Outcome(passed, wait_ns / unit_ns(scenario) if rest else wait)


def recorded_ops(scenario: Scenario) -> list[Outcome]:
    wait = "wait_ns" if in_ns(scenario) else "wait_ms"
    return [Outcome(op["expect"]["pass"], op["expect"].get(wait, 0)) for op in scenario.ops]


def agrees(scenario: Scenario, outcomes: Sequence[Outcome]) -> bool:
    """Whether every call hears what was recorded; a pattern is compared by its digest."""
    if scenario.ops:
        return list(outcomes) == recorded_ops(scenario)
    return outcome_sha256(outcomes) == str(scenario.data["outcome_sha256"])
