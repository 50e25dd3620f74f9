"""Concurrency: how many requests may be in progress at one time.

A slot is held from the moment a request is admitted until somebody gives it back; its ticket is the moment
it was booked for (two slots of one moment are alike, so it does not matter which of them comes back). Each
slot also has an end: a lease that its holder renews, so that the slots of a process that was killed come
back by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

from ratelimit_middleware.algorithms.base import (
    AdoptMode,
    Algorithm,
    State,
    granted,
    positive_int,
    refused,
    scaled_count,
)
from ratelimit_middleware.clock import NS_PER_SECOND, to_ns
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["Concurrency", "has_room", "renewed"]

_ASK_AGAIN_NS = NS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Concurrency:
    """At most `limit` requests in progress.

    Bound: never more than `limit` permits are held by leases that run. Nobody knows when a request ends,
    so a refusal says to try again in one second, and a booking never lies ahead for want of a slot.

    State: `(at_ns, until_ns, cost)` of each slot, one after the other: its ticket, the end of its lease
    and its permits.

    Args:
        limit: permits in use at one time.
        lease: seconds, or a `timedelta`, after which a slot that is not renewed comes back.

    Raises:
        InvalidLimitError: a number out of its range.
    """

    limit: int
    lease: float | timedelta = field(default=30, compare=False)
    lease_ns: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        object.__setattr__(self, "limit", positive_int("limit", self.limit))
        object.__setattr__(self, "lease_ns", to_ns(self.lease, "lease"))
        if not self.lease_ns:
            raise InvalidLimitError("lease", self.lease, "a number of seconds above 0")

    @property
    def quota(self) -> int:
        """The limit."""
        return self.limit

    @property
    def window_ns(self) -> int:
        """None: what is counted is no rate."""
        return 0

    @property
    def smallest_full_take(self) -> int:
        """The limit."""
        return self.limit

    def start(self, now_ns: int) -> State:  # noqa: ARG002 - no clock in an empty state
        """Nobody is in progress."""
        return ()

    def step(self, state: State, now_ns: int) -> State:
        """Leases that have ended are dropped."""
        if all(until_ns > now_ns for until_ns in state[1::3]):
            return state
        return tuple(
            number for i in range(0, len(state), 3) if state[i + 1] > now_ns for number in state[i : i + 3]
        )

    def take(
        self,
        state: State,
        now_ns: int,
        cost: int = 1,
        max_wait_ns: int | None = 0,  # noqa: ARG002 - no waiting makes a slot free
        from_ns: int = 0,
    ) -> tuple[Decision, State]:
        """Take a slot of `cost` permits, from now on though the request may start later."""
        state = self.step(state, now_ns)
        left = self.limit - sum(state[2::3])
        if cost > left:
            again_ns = _ASK_AGAIN_NS if cost <= self.limit else None
            return refused(now_ns, again_ns, self.limit, max(0, left), _reset_ns(state)), state
        at_ns = max(now_ns, from_ns)
        state = (*state, at_ns, at_ns + self.lease_ns, cost) if cost else state
        return granted(at_ns, now_ns, self.limit, left - cost, _reset_ns(state)), state

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """A slot without asking, up to one full set beyond the limit."""
        state = self.step(state, now_ns)
        cost = min(cost, 2 * self.limit - sum(state[2::3]))
        return (*state, now_ns, now_ns + self.lease_ns, cost) if cost > 0 else state

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """The slot with this ticket comes back; nothing if its lease has ended."""
        state = self.step(state, now_ns)
        place = _place(state, cost, at_ns)
        return state if place is None else state[:place] + state[place + 3 :]

    def renew(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """The lease of the slot with this ticket begins anew.

        A lease that had ended is there again, though it may be one too many: its request is in progress.
        """
        state = self.give_back(state, now_ns, cost, at_ns)
        return (*state, at_ns, max(at_ns, now_ns) + self.lease_ns, cost)

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> Concurrency:
        """The limit times `factor`, at least 1."""
        return replace(self, limit=scaled_count(self.limit, factor))

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Slots stay those of their requests, whatever the numbers; other kinds hold none."""
        return self.step(state, now_ns) if isinstance(old, Concurrency) and mode != "reset" else ()

    def used(self, state: State, now_ns: int) -> int:
        """Permits in use."""
        return sum(self.step(state, now_ns)[2::3])

    def forget_at_ns(self, state: State) -> int:
        """When the last lease ends."""
        return max(state[1::3], default=0)


def renewed(algorithm: Algorithm, state: State, now_ns: int, cost: int, at_ns: int) -> State:
    """The state with a lease renewed; itself where there are no leases."""
    return algorithm.renew(state, now_ns, cost, at_ns) if isinstance(algorithm, Concurrency) else state


def has_room(in_progress: int, cost: int, count: float) -> bool:
    """Whether `cost` more fit beside those in progress.

    As `DefaultController` of alibaba/Sentinel (1.8.9 line) decides on its number of threads. There a
    request counts as one when it has been let in, whatever it asked for.
    """
    return in_progress + cost <= count


def _place(state: State, cost: int, at_ns: int) -> int | None:
    """Where the slot stands whose lease ends first of those with this ticket."""
    places = [i for i in range(0, len(state), 3) if state[i] == at_ns and state[i + 2] == cost]
    return min(places, key=lambda i: state[i + 1], default=None)


def _reset_ns(state: State) -> int:
    """Nobody knows when a slot comes back: ask again in a second, unless all are there."""
    return _ASK_AGAIN_NS if state else 0
