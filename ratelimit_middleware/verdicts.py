"""One verdict from the decisions of all limits that count: plain computing."""

from __future__ import annotations

from collections.abc import Sequence

from ratelimit_middleware.decision import UNCHECKED, Decision, Outcome, Policy, Verdict
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

UNDECIDED = Verdict(False, 0, None)  # noqa: FBT003 - fields in order
"""There is no verdict: the limits cannot be checked."""
UNLIMITED = Verdict(True, 0, None)  # noqa: FBT003 - fields in order
"""Nothing counts for the request."""
EXEMPT = Verdict(True, 0, None)  # noqa: FBT003
"""The request is on the list `exempt`. Known by identity, as is the next one."""
DENIED = Verdict(False, 0, None)  # noqa: FBT003
"""The request is on the list `deny`."""
WOULD_DENY = Verdict(True, 0, None)  # noqa: FBT003
"""It is, and the file only watches."""

_new = tuple.__new__
"""Past the constructors of named tuples, which cost several times what they do."""


def denied(limit: Limit) -> Verdict:
    """The refusal of a request that lacks a part of the key; nothing was taken, no waiting helps."""
    decision = Decision(False, 0, 0, None, limit.policy.quota, 0, 0)  # noqa: FBT003 - fields in order
    return Verdict(False, 0, None, (limit.policy,), (decision,))  # noqa: FBT003


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
    if len(decisions) == 1 and decisions[0] is not UNCHECKED and not limits[0].shadow:
        # The common case, for a third of the price.
        decision, policies = decisions[0], (limits[0].policy,)
        wait_ns, retry_after_ns = decision.wait_ns, decision.retry_after_ns
        return _new(Verdict, (decision.allowed, wait_ns, retry_after_ns, policies, decisions, (), (), asked))
    counted = [pair for pair in zip(limits, decisions, strict=True) if pair[1] is not UNCHECKED]
    shadows = tuple(Outcome(limit.policy, decision) for limit, decision in counted if limit.shadow)
    enforced = [(limit.policy, decision) for limit, decision in counted if not limit.shadow]
    return _of(enforced, shadows, asked)


def refused_too(verdict: Verdict, refusing: Sequence[Outcome]) -> Verdict:
    """A refusal to which others are added that refuse."""
    added = _of([*verdict.outcomes, *refusing], verdict.shadows)
    return added._replace(bookings=verdict.bookings, asked=verdict.asked)


def turned_away(verdict: Verdict) -> Verdict:
    """The refusal of a request that was to wait, and for which there is no place to wait in."""
    outcomes = [
        (policy, d._replace(allowed=False, wait_ns=0, retry_after_ns=d.wait_ns) if d.wait_ns else d)
        for policy, d in verdict.outcomes
    ]
    return _of(outcomes, verdict.shadows)


def watched(verdict: Verdict) -> Verdict:
    """The verdict of a file that only watches: admitted at once, and what would have been is told."""
    shadows = (*verdict.outcomes, *verdict.shadows)
    return Verdict(True, 0, None, (), (), shadows, verdict.bookings, verdict.asked)  # noqa: FBT003


def _of(
    enforced: Sequence[tuple[Policy, Decision]], shadows: tuple[Outcome, ...], asked: Sequence[Check] = ()
) -> Verdict:
    """The verdict that follows from what the enforcing limits say."""
    policies, decisions = zip(*enforced, strict=True) if enforced else ((), ())
    refusing = [decision for decision in decisions if not decision.allowed]
    if not refusing:
        wait_ns = max([decision.wait_ns for decision in decisions], default=0)
        return _new(Verdict, (True, wait_ns, None, policies, decisions, shadows, (), asked))
    waits_ns = [decision.retry_after_ns for decision in refusing if decision.retry_after_ns is not None]
    retry_after_ns = max(waits_ns) if len(waits_ns) == len(refusing) else None
    return _new(Verdict, (False, 0, retry_after_ns, policies, decisions, shadows, (), asked))
