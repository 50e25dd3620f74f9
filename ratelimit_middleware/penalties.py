"""What is added to a verdict where rules have penalties. Plain computing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ratelimit_middleware.decision import Decision, Outcome, Verdict
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.verdicts import refused_too

__all__ = ["Due", "blocking", "strikes_due", "told"]


class Due(NamedTuple):
    """A refusal that is to be counted.

    Attributes:
        penalty: the limit that blocks.
        check: what the store is asked, which counts it.
    """

    penalty: Limit
    check: Check


def told(limits: Sequence[Limit], decisions: Sequence[Decision]) -> tuple[list[Limit], list[Decision]]:
    """Without what says nothing to the client: what does not refuse and is no quota of its own."""
    kept = [
        i
        for i, limit in enumerate(limits)
        if not (decisions[i].allowed and (limit.charges or limit.strikes or limit.sheds))
    ]
    return [limits[i] for i in kept], [decisions[i] for i in kept]


def strikes_due(
    verdict: Verdict, limits: Sequence[Limit], checks: Sequence[Check], decisions: Sequence[Decision]
) -> list[Due]:
    """The refusals by rules that have a penalty; none for a client that is blocked already."""
    if verdict.allowed:
        return []
    answers = zip(limits, checks, decisions, strict=True)
    refusing = {limit.policy.name for limit, check, d in answers if not (d.allowed or check.shadow)}
    return [
        Due(limit, check._replace(algorithm=limit.strikes.algorithm))
        for limit, check in zip(limits, checks, strict=True)
        if limit.strikes and limit.policy.name not in refusing
        if not refusing.isdisjoint(limit.strikes.counts)
    ]


def blocking(verdict: Verdict, due: Iterable[Due], decisions: Iterable[Decision]) -> Verdict:
    """The refusal, with the blocks that have begun by it: their end is the wait that the client is told."""
    blocks = [
        Outcome(
            strike.penalty.policy,
            d._replace(allowed=False, retry_after_ns=d.reset_after_ns, remaining=0),
        )
        for strike, d in zip(due, decisions, strict=True)
        if d.reset_after_ns
    ]
    return refused_too(verdict, blocks) if blocks else verdict
