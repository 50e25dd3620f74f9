"""From the tiers of a rule to the limits that each of them has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ratelimit_middleware.algorithms.base import Algorithm, scaled_count
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.decision import Policy
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.rules.choices import AskedLimit, Overrides
from ratelimit_middleware.rules.document import Path
from ratelimit_middleware.rules.grammar import LimitText
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.limit_spec import LongLimitSpec
from ratelimit_middleware.rules.tiers import TierPlan, Tiers, TierValue
from ratelimit_middleware.rules.words import shown

__all__ = ["TierCompiler", "with_numbers"]

_PLACE: Path = ("tiers",)


@dataclass(frozen=True)
class TierCompiler:
    """Gives a limit other numbers for some tiers.

    Attributes:
        plan: what the tiers have.
        refuse: is told a place below the rule and what is wrong there.
        algorithm: makes the arithmetic of a text, or refuses it.
        check_cost: refuses a cost that the arithmetic never admits.
        max_wait_ns: how long a request may be delayed by it.
    """

    plan: TierPlan
    refuse: Callable[[Path, str], None]
    algorithm: Callable[[LimitText, Path], Algorithm | None]
    check_cost: Callable[[Any, Algorithm, str], None]
    max_wait_ns: Callable[[Any, Algorithm, Path], int]

    def limit(self, limit: Limit, text: Any, *, is_first: bool) -> Limit:
        """The limit with its tiers; its overrides go before them.

        Args:
            limit: as it is without tiers.
            text: as the file has it.
            is_first: whether it is the first of its rule, which alone has own numbers for tiers.
        """
        if isinstance(limit.choose, AskedLimit):
            self.refuse(_PLACE, "tiers need a limit with numbers: let the function tell them")
            return limit

        def of(value: TierValue) -> Limit | None:
            if value.unlimited:
                return None
            if value.limit and is_first:
                return self._own(limit, text, value.limit)
            return self._scaled(limit, text, value.scale)

        overrides = limit.choose if isinstance(limit.choose, Overrides) else None
        plan = self.plan
        made = {value: of(value) for value in dict.fromkeys((*plan.values.values(), plan.unknown))}
        by_name = {name: made[value] for name, value in plan.values.items()}
        return replace(limit, choose=Tiers(plan, overrides, by_name, made[plan.unknown]))

    def _scaled(self, limit: Limit, text: Any, factor: float) -> Limit:
        """So many times the limit."""
        if factor == 1:
            return replace(limit, choose=None)
        try:
            algorithm = limit.algorithm.scaled(factor)
        except InvalidLimitError as error:
            self.refuse(_PLACE, f"{factor:g} times {shown(limit.policy.text)}: {error}")
            return limit
        return self._with(limit, text, algorithm, _scaled_rate(text, factor))

    def _own(self, limit: Limit, text: Any, own: LimitText) -> Limit:
        """Numbers of its own in the place of the limit's."""
        algorithm = self.algorithm(own, _PLACE)
        return self._with(limit, text, algorithm, own.rate) if algorithm else limit

    def _with(self, limit: Limit, text: Any, algorithm: Algorithm, rate: str) -> Limit:
        if not isinstance(algorithm, Concurrency):  # there each request counts as one
            self.check_cost(text, algorithm, rate)
        wait_ns = limit.max_wait_ns and self.max_wait_ns(text, algorithm, _PLACE)
        return replace(with_numbers(limit, algorithm, rate), max_wait_ns=wait_ns)


def with_numbers(limit: Limit, algorithm: Algorithm, rate: str) -> Limit:
    """A limit like another one, with its own numbers."""
    policy = Policy(limit.policy.name, algorithm.quota, algorithm.window_ns, rate)
    return replace(limit, policy=policy, algorithm=algorithm, choose=None)


def _scaled_rate(text: Any, factor: float) -> str:
    """A limit of the rule file, so many times, as clients are shown it."""
    numbers = text.limit if isinstance(text, LongLimitSpec) else text
    if not isinstance(numbers, LimitText):
        return f"{scaled_count(numbers.requests, factor)} at a time"
    burst = None if numbers.burst is None else scaled_count(numbers.burst, factor)
    return replace(numbers, count=scaled_count(numbers.count, factor), burst=burst).rate
