"""What the rule file says about penalties: after so many refusals in a row a client is blocked."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field, model_validator

from ratelimit_middleware.algorithms.penalty import Penalty
from ratelimit_middleware.decision import Policy
from ratelimit_middleware.rules.fields import read_period
from ratelimit_middleware.rules.limit import Limit, Strikes
from ratelimit_middleware.rules.limit_fields import read_count
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.values import DURATION, POSITIVE, as_list, plain
from ratelimit_middleware.rules.words import GrammarError

__all__ = ["PenaltySpec", "with_penalty"]


class PenaltySpec(Spec):
    """`{after: 10, block: [1m, 5m, 1h]}`."""

    after: Annotated[int, plain(read_count("after"), POSITIVE)]
    block: Annotated[list[Annotated[int, plain(read_period, DURATION)]], Field(min_length=1), as_list]
    forget_after: Annotated[int, plain(read_period, DURATION)] | None = None

    @model_validator(mode="after")
    def _grows(self) -> PenaltySpec:
        """Refuse blocks that become shorter."""
        if self.block != sorted(self.block):
            raise GrammarError("the blocks become shorter: write the shortest first, `[1m, 5m, 1h]`", "block")
        return self

    @property
    def algorithm(self) -> Penalty:
        """The arithmetic."""
        return Penalty(self.after, tuple(self.block), self.forget_after)


def with_penalty(limits: tuple[Limit, ...], spec: PenaltySpec, name: str) -> tuple[Limit, ...]:
    """The limits of a rule, the first of them with the penalty of all; its key is that of the penalty.

    Args:
        limits: those of the rule.
        spec: what the file says.
        name: of the penalty on the wire.
    """
    if not limits:
        return ()
    first, algorithm = limits[0], spec.algorithm
    penalty = Limit(
        Policy(name, algorithm.quota, algorithm.window_ns, f"{spec.after} refusals in a row"),
        algorithm,
        first.key,
        f"{first.rule_id}#penalty",
        missing=first.missing,
        on_error=first.on_error,
        strikes=Strikes(algorithm.strike, frozenset(limit.policy.name for limit in limits)),
    )
    return (replace(first, penalty=penalty), *limits[1:])
