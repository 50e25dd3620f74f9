"""Runs recorded calls through our arithmetic, alone and in a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore
from tests.vectors.guava import Answer, Call, Record

__all__ = ["Alone", "InStore", "Limiter", "Smooth", "limiter", "recorded", "replayed", "told"]

Smooth: TypeAlias = SmoothBursty | SmoothWarmingUp

_KEY = "k"


class Limiter(Protocol):
    """One limiter whose calls come at given moments."""

    algorithm: Smooth

    @property
    def state(self) -> State:
        """Its state."""

    def take(self, now_ns: int, cost: int, max_wait_ns: int | None) -> Decision:
        """Take permits."""

    def set_rate(self, now_ns: int, rate: float) -> None:
        """Go on at another rate."""


class Alone:
    """The pure functions."""

    def __init__(self, algorithm: Smooth, start_ns: int = 0) -> None:
        self.algorithm = algorithm
        self.state = algorithm.start(start_ns)

    def take(self, now_ns: int, cost: int, max_wait_ns: int | None) -> Decision:
        decision, self.state = self.algorithm.take(self.state, now_ns, cost, max_wait_ns)
        return decision

    def set_rate(self, now_ns: int, rate: float) -> None:
        new = replace(self.algorithm, permits_per_second=rate)
        self.state = new.adopt(self.state, now_ns, self.algorithm, "scale")
        self.algorithm = new


class InStore:
    """A key of a memory store; a charge of nothing makes the key, or has it adopted at that moment."""

    def __init__(self, algorithm: Smooth, start_ns: int = 0) -> None:
        self.algorithm = algorithm
        self._clock = ManualClock(0)
        self._clock.set_ns(start_ns)
        self._store = MemoryStore(clock=self._clock, keep_state="scale")
        self._store.charge(Check(_KEY, algorithm, "overflow", 0))

    @property
    def state(self) -> State:
        return self._store._buckets[_KEY].state

    def take(self, now_ns: int, cost: int, max_wait_ns: int | None) -> Decision:
        self._clock.set_ns(now_ns)
        return self._store.take([Check(_KEY, self.algorithm, "overflow", cost, max_wait_ns)])[0]

    def set_rate(self, now_ns: int, rate: float) -> None:
        self._clock.set_ns(now_ns)
        self.algorithm = replace(self.algorithm, permits_per_second=rate)
        self._store.charge(Check(_KEY, self.algorithm, "overflow", 0))


def limiter(record: Record) -> Smooth:
    """The recorded limiter in our numbers."""
    return SmoothBursty(*record.arguments) if record.kind == "bursty" else SmoothWarmingUp(*record.arguments)


def replayed(record: Record, subject: Limiter, start_us: int = 0) -> list[Answer]:
    """The answers to all calls; times are told from `start_us` on, as in the record."""
    answers = []
    for call in record.calls:
        acquired, wait_us, raised = _called(subject, call, start_us)
        stored, next_free_us = subject.state[:2]
        numbers = subject.algorithm
        rate = 1e6 / numbers.stable_us if call.op == "set_rate" and not raised else None
        answers.append(
            Answer(acquired, wait_us, stored, next_free_us - start_us, numbers.max_permits, raised, rate)
        )
    return answers


def _called(subject: Limiter, call: Call, start_us: int) -> tuple[bool, int, bool]:
    now_ns = (start_us + call.at_us) * 1000
    try:
        if call.op == "set_rate":
            subject.set_rate(now_ns, call.amount)
            return True, 0, False
        max_wait_ns = None if call.timeout_us is None else max(0, call.timeout_us) * 1000
        decision = subject.take(now_ns, call.amount, max_wait_ns)
    except InvalidLimitError:
        return True, 0, True
    wait_us, rest_ns = divmod(decision.wait_ns, 1000)
    assert rest_ns == 0
    return decision.allowed, wait_us, False


def recorded(record: Record, answers: Sequence[Answer]) -> list[Answer]:
    """Guava's answers; where none was recorded, the one in `answers`."""
    return [call.answer or ours for call, ours in zip(record.calls, answers, strict=True)]


def told(record: Record) -> tuple[str, str]:
    """Where Guava and ours first differ in what a caller hears, in words; twice `same` if they agree."""
    try:
        answers = replayed(record, Alone(limiter(record)))
    except InvalidLimitError:
        return ("accepts", "refuses") if record.accepted else ("same", "same")
    if not record.accepted:
        return "refuses", "accepts"
    for place, (theirs, ours) in enumerate(zip(recorded(record, answers), answers, strict=True), 1):
        if theirs.raised != ours.raised:
            return ("refuses", "accepts") if theirs.raised else ("accepts", "refuses")
        if theirs[:2] != ours[:2]:
            return f"call {place} waits {theirs.wait_us}", f"call {place} waits {ours.wait_us}"
    return "same", "same"
