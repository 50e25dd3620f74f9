"""Adaptive: a limit that the state of the server sets. Here are its numbers, and when they are exceeded."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple

from ratelimit_middleware.algorithms.base import AdoptMode, Algorithm, State, granted, positive_int
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["Adaptive", "Senses"]

_UNBOUNDED = 10**12


class Senses(NamedTuple):
    """How the server is.

    Attributes:
        loop_lag_ns: how late the event loop is; 0 where there is none.
        cpu: share of the processors in use, 0 to 1.
        load: processes that want to run, for each processor.
    """

    loop_lag_ns: int = 0
    cpu: float = 0.0
    load: float = 0.0


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Admits a request unless the server has too much to do.

    What it decides by lives in the process and not in a bucket (`Meter`): for a store it is a limit that
    admits everything.

    Args:
        max_in_flight: requests that may be in progress; None = no fixed number.
        bbr: while the server is loaded, no more may be in progress than it has been measured to serve
            without a queue.
        loop_lag_ns: an event loop later than that is loaded.
        cpu: a use of the processors above that is load.
        load: more processes that want to run, for each processor, are load.

    Raises:
        InvalidLimitError: a number out of its range; nothing is limited; or `bbr` cannot know of load.
    """

    max_in_flight: int | None = None
    bbr: bool = False
    loop_lag_ns: int | None = None
    cpu: float | None = None
    load: float | None = None
    triggers: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        if self.max_in_flight is not None:
            positive_int("max_in_flight", self.max_in_flight)
        if self.loop_lag_ns is not None and self.loop_lag_ns <= 0:
            raise InvalidLimitError("loop_lag_ns", self.loop_lag_ns, "a span of time above 0")
        if self.cpu is not None and not 0 < self.cpu < 1:
            raise InvalidLimitError("cpu", self.cpu, "a number between 0 and 1, such as 0.9")
        if self.load is not None and not (isfinite(self.load) and self.load > 0):
            raise InvalidLimitError("load", self.load, "a number above 0, such as 2.5")
        found = {"loop_lag": self.loop_lag_ns, "cpu": self.cpu, "load": self.load}
        triggers = tuple(name for name, value in found.items() if value is not None)
        if not triggers and (self.bbr or self.max_in_flight is None):
            raise InvalidLimitError("triggers", (), "one of loop_lag, cpu and load, or max_in_flight=100")
        object.__setattr__(self, "triggers", triggers)

    def exceeded(self, in_flight: int, capacity: int, senses: Senses, waiting: int = 0) -> str:
        """What a request that comes now would be too much for; empty = it is admitted.

        Whoever finds nobody in progress is admitted, however busy the processors are: else a load that
        others cause would stop the app for good. A loop that is late comes to itself when nobody is admitted.

        Args:
            in_flight: requests in progress.
            capacity: how many the server has been measured to serve at one time.
            senses: how it is.
            waiting: requests that the event loop has not come to, by its lag.
        """
        if self.max_in_flight is not None and in_flight >= self.max_in_flight:
            return "max_in_flight"
        if self.bbr and in_flight + waiting < capacity:
            return ""
        if self.loop_lag_ns is not None and senses.loop_lag_ns > self.loop_lag_ns:
            return "loop_lag"
        if not in_flight:
            return ""
        if self.cpu is not None and senses.cpu > self.cpu:
            return "cpu"
        return "load" if self.load is not None and senses.load > self.load else ""

    @property
    def quota(self) -> int:
        """The fixed number, if there is one."""
        return self.max_in_flight or _UNBOUNDED

    @property
    def window_ns(self) -> int:
        """None: what is counted is no rate."""
        return 0

    @property
    def smallest_full_take(self) -> int:
        """Costs do not matter."""
        return _UNBOUNDED

    def start(self, now_ns: int) -> State:  # noqa: ARG002 - there is no state
        """Nothing."""
        return ()

    def step(self, state: State, now_ns: int) -> State:  # noqa: ARG002
        """Nothing."""
        return ()

    def take(
        self,
        state: State,  # noqa: ARG002
        now_ns: int,
        cost: int = 1,  # noqa: ARG002
        max_wait_ns: int | None = 0,  # noqa: ARG002
        from_ns: int = 0,
    ) -> tuple[Decision, State]:
        """Admit."""
        at_ns = max(now_ns, from_ns)
        return granted(at_ns, now_ns, self.quota, self.quota, 0), ()

    def charge(self, state: State, now_ns: int, cost: int) -> State:  # noqa: ARG002
        """Nothing."""
        return ()

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:  # noqa: ARG002
        """Nothing."""
        return ()

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """Admit."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> Adaptive:  # noqa: ARG002 - it is about this process already
        """Itself."""
        return self

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:  # noqa: ARG002
        """Nothing."""
        return ()

    def used(self, state: State, now_ns: int) -> int:  # noqa: ARG002
        """Nothing."""
        return 0

    def forget_at_ns(self, state: State) -> int:  # noqa: ARG002
        """At once."""
        return 0
