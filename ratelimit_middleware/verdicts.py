"""One verdict from the decisions of all limits that count: plain computing."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from ratelimit_middleware.decision import UNCHECKED, Decision, Outcome, Verdict
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.model import Limit, RuleSet
from ratelimit_middleware.stores.base import Check

__all__ = [
    "DENIED",
    "EXEMPT",
    "UNDECIDED",
    "UNLIMITED",
    "WOULD_DENY",
    "denied",
    "judged",
    "listed",
    "refused_too",
    "turned_away",
    "watched",
]

UNDECIDED = Verdict(False, 0, None, (), None, ())  # noqa: FBT003 - fields in order
"""There is no verdict: the limits cannot be checked."""
UNLIMITED = Verdict(True, 0, None, (), None, ())  # noqa: FBT003 - fields in order
"""Nothing counts for the request."""
EXEMPT = Verdict(True, 0, None, (), None, ())  # noqa: FBT003
"""The request is on the list `exempt`. Known by identity, as is the next one."""
DENIED = Verdict(False, 0, None, (), None, ())  # noqa: FBT003
"""The request is on the list `deny`."""
WOULD_DENY = Verdict(True, 0, None, (), None, ())  # noqa: FBT003
"""It is, and the file only watches."""

_new = tuple.__new__
"""Past the constructors of named tuples, which cost several times what they do."""


def denied(limit: Limit) -> Verdict:
    """The refusal of a request that lacks a part of the key; nothing was taken, no waiting helps."""
    decision = Decision(False, 0, 0, None, limit.policy.quota, 0, 0)  # noqa: FBT003 - fields in order
    outcome = Outcome(limit.policy, decision)
    return Verdict(False, 0, None, (outcome,), outcome, ())  # noqa: FBT003


def listed(ruleset: RuleSet, view: RequestView) -> Verdict | None:
    """The verdict on a request that is on a list of the file."""
    if ruleset.deny and ruleset.deny(view):
        return WOULD_DENY if ruleset.shadow else DENIED
    return EXEMPT if ruleset.exempt and ruleset.exempt(view) else None


def judged(limits: Sequence[Limit], decisions: Sequence[Decision], asked: Sequence[Check] = ()) -> Verdict:
    """One verdict from the decisions of all limits that count, in the same order.

    A limit that was let through unchecked has nothing to tell: it is not among the outcomes.

    Args:
        limits: what counts.
        decisions: what the store says.
        asked: what the verdict says was asked.
    """
    decision = decisions[0] if len(decisions) == 1 else UNCHECKED
    if decision is not UNCHECKED and not limits[0].shadow:  # the common case, for a third of the price
        outcome = _new(Outcome, (limits[0].policy, decision))
        allowed, _, wait_ns, retry_after_ns, _, _, _ = decision
        return _new(Verdict, (allowed, wait_ns, retry_after_ns, (outcome,), outcome, (), (), asked))
    outcomes: list[Outcome] = []
    shadows: list[Outcome] = []
    binding: Outcome | None = None
    wait_ns = 0
    for limit, decision in zip(limits, decisions, strict=True):
        if decision is UNCHECKED:
            continue
        outcome = _new(Outcome, (limit.policy, decision))
        if limit.shadow:
            shadows.append(outcome)
            continue
        outcomes.append(outcome)
        if binding is None or _binds_more(outcome, binding):
            binding = outcome
        if decision.wait_ns > wait_ns:
            wait_ns = decision.wait_ns
    allowed, retry_after_ns = True, None
    if binding is not None and not binding.decision.allowed:
        allowed, wait_ns, retry_after_ns = False, 0, binding.decision.retry_after_ns
    # fmt: off
    return _new(Verdict, (
        allowed, wait_ns, retry_after_ns, tuple(outcomes), binding, tuple(shadows), (), asked,
    ))
    # fmt: on


def refused_too(verdict: Verdict, refusing: Sequence[Outcome]) -> Verdict:
    """A refusal to which others are added that refuse."""
    outcomes = (*verdict.outcomes, *refusing)
    binding = max((outcome for outcome in outcomes if not outcome.decision.allowed), key=_wait)
    return verdict._replace(
        outcomes=outcomes, binding=binding, retry_after_ns=binding.decision.retry_after_ns
    )


def turned_away(verdict: Verdict) -> Verdict:
    """The refusal of a request that was to wait, and for which there is no place to wait in."""
    outcomes = tuple(
        Outcome(policy, d._replace(allowed=False, wait_ns=0, retry_after_ns=d.wait_ns) if d.wait_ns else d)
        for policy, d in verdict.outcomes
    )
    binding = max((o for o in outcomes if not o.decision.allowed), key=_wait)
    retry_after_ns = binding.decision.retry_after_ns
    return Verdict(False, 0, retry_after_ns, outcomes, binding, verdict.shadows)  # noqa: FBT003


def watched(verdict: Verdict) -> Verdict:
    """The verdict of a file that only watches: admitted at once, and what would have been is told."""
    shadows = (*verdict.outcomes, *verdict.shadows)
    return Verdict(True, 0, None, (), None, shadows, verdict.bookings, verdict.asked)  # noqa: FBT003


def _binds_more(outcome: Outcome, other: Outcome) -> bool:
    """Whether a refusal waits longer, or has met an admission, or an admission has less left."""
    if outcome.decision.allowed != other.decision.allowed:
        return other.decision.allowed
    if outcome.decision.allowed:
        return _share_left(outcome) < _share_left(other)
    return _wait(outcome) > _wait(other)


def _wait(outcome: Outcome) -> float:
    """The wait of a refusing outcome; one that no waiting helps is the longest."""
    retry_after_ns = outcome.decision.retry_after_ns
    return inf if retry_after_ns is None else retry_after_ns


def _share_left(outcome: Outcome) -> float:
    return outcome.decision.remaining / outcome.decision.limit
