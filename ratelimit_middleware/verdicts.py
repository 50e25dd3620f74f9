"""One verdict from the decisions of all limits that count: plain computing."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from ratelimit_middleware.decision import UNCHECKED, Decision, Outcome, Verdict
from ratelimit_middleware.rules.model import Limit
from ratelimit_middleware.stores.base import Check

__all__ = ["denied", "judged", "turned_away"]

_new = tuple.__new__
"""Past the constructors of named tuples, which cost several times what they do."""


def denied(limit: Limit) -> Verdict:
    """The refusal of a request that lacks a part of the key; nothing was taken, no waiting helps."""
    decision = Decision(False, 0, 0, None, limit.policy.quota, 0, 0)  # noqa: FBT003 - fields in order
    outcome = Outcome(limit.policy, decision)
    return Verdict(False, 0, None, (outcome,), outcome, ())  # noqa: FBT003


def judged(
    limits: Sequence[Limit], decisions: Sequence[Decision], asked: list[Check] | None = None
) -> Verdict:
    """One verdict from the decisions of all limits that count, in the same order.

    A limit that was let through unchecked has nothing to tell: it is not among the outcomes.

    Args:
        limits: what counts.
        decisions: what the store says.
        asked: what the verdict says was asked.
    """
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
        allowed, wait_ns, retry_after_ns, tuple(outcomes), binding, tuple(shadows), (), asked or [],
    ))
    # fmt: on


def turned_away(verdict: Verdict) -> Verdict:
    """The refusal of a request that was to wait, and for which there is no place to wait in."""
    outcomes = tuple(
        Outcome(policy, d._replace(allowed=False, wait_ns=0, retry_after_ns=d.wait_ns) if d.wait_ns else d)
        for policy, d in verdict.outcomes
    )
    binding = max((o for o in outcomes if not o.decision.allowed), key=_wait)
    retry_after_ns = binding.decision.retry_after_ns
    return Verdict(False, 0, retry_after_ns, outcomes, binding, verdict.shadows)  # noqa: FBT003


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
