"""The answers: `Decision` to one check, `Verdict` to a whole request. Names and numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

__all__ = ["UNCHECKED", "Decision", "Outcome", "Policy", "Verdict"]

_new = tuple.__new__
"""Past the constructors of named tuples, which cost several times what they do."""


class Decision(NamedTuple):
    """The full answer to one check, from one atomic step; never ask the store again for headers.

    Attributes:
        allowed: whether the permits were granted.
        at_ns: the moment they were booked for (ns since the epoch); when refused, the moment asked.
        wait_ns: how long to wait before starting, 0 = go now; 0 when refused.
        retry_after_ns: when refused, the wait after which the same request is admitted if nobody else
            comes; None when no waiting helps in any state, and when allowed.
        limit: how many permits the limit grants per window (for warm-up: the full number).
        remaining: how many are left after this decision.
        reset_after_ns: within this time expect no more than `remaining`: the wait for the next permit
            when none is left, else the wait until all are back.
    """

    allowed: bool
    at_ns: int
    wait_ns: int
    retry_after_ns: int | None
    limit: int
    remaining: int
    reset_after_ns: int

    @property
    def wait(self) -> float:
        """`wait_ns` in seconds."""
        return self.wait_ns / 1e9

    @property
    def retry_after(self) -> float | None:
        """`retry_after_ns` in seconds."""
        return None if self.retry_after_ns is None else self.retry_after_ns / 1e9

    @property
    def share_left(self) -> float:
        """How much of the limit is left."""
        return self.remaining / self.limit

    @property
    def reset_after(self) -> float:
        """`reset_after_ns` in seconds."""
        return self.reset_after_ns / 1e9


UNCHECKED = Decision(True, -1, 0, None, 0, 0, 0)  # noqa: FBT003 - fields in order
"""Let through uncounted: the store does not answer, and the limit's policy is `allow`. Known by identity: it
has no numbers to tell, and no moment that could be given back."""


class Policy(NamedTuple):
    """A limit as clients see it.

    Attributes:
        name: its name on the wire, plain ASCII.
        quota: permits per window.
        window_ns: length of the window, ns.
        text: the limit in the words of the rule file ("5/minute").
    """

    name: str
    quota: int
    window_ns: int
    text: str


class Outcome(NamedTuple):
    """One limit's decision under its policy."""

    policy: Policy
    decision: Decision


class Verdict(NamedTuple):
    """The answer to a request.

    Attributes:
        allowed: admit (perhaps after `wait_ns`) or refuse.
        wait_ns: how long to wait before the app is called; 0 when refused.
        retry_after_ns: when refused, the largest wait of the refusing limits; None if any of them
            says that no waiting helps, and when allowed.
        policies: the enforcing limits that were checked, in the order of the file.
        decisions: what came out of each.
        shadows: outcomes of limits that are only watched.
        bookings: what the registry must hear of again, when the request is given up or has ended; empty
            when nothing is left to do.
        asked: what the store was asked, for an instance of the middleware further in.
    """

    allowed: bool
    wait_ns: int
    retry_after_ns: int | None
    policies: Sequence[Policy] = ()
    decisions: Sequence[Decision] = ()
    shadows: tuple[Outcome, ...] = ()
    bookings: tuple[Any, ...] = ()
    asked: Sequence[Any] = ()

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The policies with their decisions."""
        return tuple(map(Outcome, self.policies, self.decisions))

    @property
    def binding(self) -> Outcome | None:
        """The refusing outcome with the longest wait, else the one with the least share left.

        None when nothing was checked.
        """
        if len(self.policies) == 1:  # the common case
            return _new(Outcome, (self.policies[0], self.decisions[0]))
        found: Outcome | None = None
        for outcome in self.outcomes:
            if found is None or _binds_more(outcome.decision, found.decision):
                found = outcome
        return found

    @property
    def violated(self) -> tuple[str, ...]:
        """Names of the policies that refused."""
        if len(self.policies) == 1:  # the common case
            return () if self.decisions[0].allowed else (self.policies[0].name,)
        pairs = zip(self.policies, self.decisions, strict=True)
        return tuple([policy.name for policy, decision in pairs if not decision.allowed])


def _binds_more(decision: Decision, other: Decision) -> bool:
    """Whether a refusal waits longer, or has met an admission, or an admission has less left."""
    if decision.allowed != other.allowed:
        return other.allowed
    if decision.allowed:
        return decision.share_left < other.share_left
    return _wait_ns(decision) > _wait_ns(other)


def _wait_ns(refusal: Decision) -> float:
    """One that no waiting helps waits longest."""
    return inf if refusal.retry_after_ns is None else refusal.retry_after_ns
