"""Whether a cost makes sense for the arithmetic of a limit."""

from __future__ import annotations

from ratelimit_middleware.algorithms._smooth import SmoothRate
from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from ratelimit_middleware.rules.charge_spec import Cost
from ratelimit_middleware.rules.charges import Reserve
from ratelimit_middleware.rules.choices import HeaderCost
from ratelimit_middleware.rules.document import Path
from ratelimit_middleware.rules.words import shown

__all__ = ["cost_problems"]

# They price a request as a whole, before it starts: of what one has booked no part can come back.
_INDIVISIBLE = (SmoothRate, Pacing, WarmUpPacing)


def cost_problems(
    cost: Cost, algorithm: Algorithm, rate: str, *, waits: bool, shuts_out: bool = False
) -> list[tuple[Path, str]]:
    """What is wrong with a cost, with its place below the rule.

    Args:
        cost: of the rule.
        algorithm: of one of its limits.
        rate: how the limit is shown.
        waits: requests over the limit wait.
        shuts_out: the limit may be too small for the cost; that is how an override shuts somebody out.
    """
    if isinstance(cost, Reserve) and _is_indivisible(algorithm, waits=waits):
        settle = "this algorithm prices a request as a whole, before it starts, and cannot settle it later"
        return [(("cost", "actual"), f"{shown(rate)}: {settle}: choose a window, `gcra` or `token_bucket`")]
    messages = ["" if shuts_out else _too_much(cost, algorithm, rate), _unbounded(cost, algorithm, rate)]
    return [(("cost",), message) for message in messages if message]


def _is_indivisible(algorithm: Algorithm, *, waits: bool) -> bool:
    return isinstance(algorithm, _INDIVISIBLE) or (waits and isinstance(algorithm, LeakyBucket))


def _too_much(cost: Cost, algorithm: Algorithm, rate: str) -> str:
    """A cost that is never admitted."""
    most = cost if isinstance(cost, int) else cost.most
    fresh = algorithm.peek(algorithm.start(0), 0, most)
    never = not fresh.allowed and fresh.retry_after_ns is None
    if not never and most <= algorithm.smallest_full_take:
        return ""
    return (
        f"the cost {shown(most)} is more than {shown(rate)} ever admits at once, which is"
        f" {min(algorithm.quota, algorithm.smallest_full_take)}: lower the cost or raise the"
        + (" burst" if isinstance(algorithm, GCRA) else " limit")
    )


def _unbounded(cost: Cost, algorithm: Algorithm, rate: str) -> str:
    """A cost that a client may make so large that all others wait for it."""
    if not isinstance(cost, HeaderCost) or cost.ceiling or algorithm.smallest_full_take <= algorithm.quota:
        return ""
    return (
        f"{shown(rate)} admits any cost, and others pay for it: bound what clients may write,"
        f" `cost: {{by: header:{cost.header}, max: 100}}`"
    )
