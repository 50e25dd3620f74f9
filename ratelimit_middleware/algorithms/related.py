"""Related: a limit that other requests use up than those it refuses (*relate* of alibaba/Sentinel).

Two values work on one bucket, whose state is that of the limit's own arithmetic: `Related` asks and takes
nothing, `RelatedCharge` counts and never refuses. Both are taken in the same step as the other limits of
their request, so that all workers of a store agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from ratelimit_middleware.algorithms.base import AdoptMode, Algorithm, State, granted
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["Related", "RelatedCharge"]

_Self = TypeVar("_Self", bound="_OfAnother")


@dataclass(frozen=True, slots=True)
class _OfAnother:
    """What both share: the arithmetic, and its state."""

    limit: Algorithm

    def __post_init__(self) -> None:
        """Refuse what is no arithmetic of its own."""
        if isinstance(self.limit, _OfAnother) or not hasattr(self.limit, "take"):
            raise InvalidLimitError("limit", self.limit, "an algorithm such as SlidingWindow(100, 60)")

    @property
    def quota(self) -> int:
        """That of the limit."""
        return self.limit.quota

    @property
    def window_ns(self) -> int:
        """That of the limit."""
        return self.limit.window_ns

    @property
    def smallest_full_take(self) -> int:
        """That of the limit."""
        return self.limit.smallest_full_take

    def start(self, now_ns: int) -> State:
        """Nobody has come."""
        return self.limit.start(now_ns)

    def step(self, state: State, now_ns: int) -> State:
        """Let time pass."""
        return self.limit.step(state, now_ns)

    def scaled(self: _Self, factor: float) -> _Self:
        """The limit times `factor`."""
        return replace(self, limit=self.limit.scaled(factor))

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """The state itself where only the other of the two wrote it, else as the limit adopts it."""
        wrote = old.limit if isinstance(old, _OfAnother) else old
        return state if wrote == self.limit else self.limit.adopt(state, now_ns, wrote, mode)

    def used(self, state: State, now_ns: int) -> int:
        """Permits that the others have in use."""
        return self.limit.used(state, now_ns)

    def forget_at_ns(self, state: State) -> int:
        """That of the limit."""
        return self.limit.forget_at_ns(state)


@dataclass(frozen=True, slots=True)
class Related(_OfAnother):
    """Admits a request while the others have left room for it under `limit`, and takes nothing.

    Bound: no request starts at a moment at which the others have used the limit up.

    Args:
        limit: the arithmetic on the requests of the others.

    Raises:
        InvalidLimitError: it is none.
    """

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """The first moment with room, if nobody else comes; the state only lets time pass."""
        decision, _ = self.limit.take(state, now_ns, cost, max_wait_ns, from_ns)
        return self.untaken(decision, cost), self.limit.step(state, now_ns)

    def untaken(self, decision: Decision, cost: int) -> Decision:
        """The limit's decision, where an admission takes nothing."""
        if not decision.allowed:
            return decision
        remaining = min(self.quota, decision.remaining + cost)
        reset_ns = decision.reset_after_ns if remaining < self.quota else 0
        return decision._replace(remaining=remaining, reset_after_ns=reset_ns)

    def charge(self, state: State, now_ns: int, cost: int) -> State:  # noqa: ARG002 - it takes nothing
        """Nothing."""
        return self.limit.step(state, now_ns)

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:  # noqa: ARG002
        """Nothing."""
        return self.limit.step(state, now_ns)

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    @property
    def charged(self) -> RelatedCharge:
        """What counts a request of the others."""
        return RelatedCharge(self.limit)


@dataclass(frozen=True, slots=True)
class RelatedCharge(_OfAnother):
    """Counts a request under `limit`; taken, it always admits at the moment that it is asked for.

    Args:
        limit: the arithmetic.
    """

    def take(
        self,
        state: State,
        now_ns: int,
        cost: int = 1,
        max_wait_ns: int | None = 0,  # noqa: ARG002 - there is nothing to wait for
        from_ns: int = 0,
    ) -> tuple[Decision, State]:
        """Count at the start of the request; beyond the limit, as a debt."""
        at_ns = max(now_ns, from_ns)
        decision, new = self.limit.take(state, now_ns, cost, at_ns - now_ns, from_ns)
        if not decision.allowed:
            new = self.charge(state, now_ns, cost)
        return granted(at_ns, now_ns, self.quota, decision.remaining, decision.reset_after_ns), new

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Count; the debt ends where that of the limit does.

        A window that is full forgets its oldest permits for the new ones: when there is room again depends
        on the newest, however many there are.
        """
        if isinstance(self.limit, (SlidingWindow, WarmUpWindow)):
            state = self.limit.step(state, now_ns)
            state = self.limit.without_oldest(state, self.limit.used(state, now_ns) + cost - self.quota)
        return self.limit.charge(state, now_ns, cost)

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """The request was not served; it has never cost more than the longest debt."""
        return self.limit.give_back(state, now_ns, min(cost, 2 * self.quota), at_ns)

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]
