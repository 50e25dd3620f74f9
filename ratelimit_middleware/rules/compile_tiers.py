"""From the tiers of a rule to the limits that each of them has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ratelimit_middleware.algorithms.base import Algorithm, scaled_count
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.rules.choices import Overrides
from ratelimit_middleware.rules.document import Path
from ratelimit_middleware.rules.grammar import AskedText, LimitText
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.queue_spec import at_a_time
from ratelimit_middleware.rules.stand_ins import Numbers, StandIns, apart, plain_text, span, with_numbers
from ratelimit_middleware.rules.tiers import TierPlan, Tiers, TierValue
from ratelimit_middleware.rules.words import shown

__all__ = ["TierCompiler"]

_PLACE: Path = ("tiers",)


@dataclass(frozen=True)
class TierCompiler:
    """Gives a limit other numbers for some tiers.

    Attributes:
        plan: what the tiers have.
        refuse: is told a place below the rule and what is wrong there.
        check_cost: refuses a cost that the arithmetic never admits.
        max_wait_ns: how long a request may be delayed by it.
        stand_ins: makes the limits that tiers have of their own.
    """

    plan: TierPlan
    refuse: Callable[[Path, str], None]
    check_cost: Callable[[Numbers, Algorithm, str], None]
    max_wait_ns: Callable[[Numbers, Algorithm, Path], int]
    stand_ins: StandIns

    def limit(self, limit: Limit, text: Numbers | AskedText, *, is_first: bool) -> Limit:
        """The limit with its tiers; its overrides go before them.

        Args:
            limit: as it is without tiers.
            text: as the file has it.
            is_first: whether it is the first of its rule, which alone has own numbers for tiers.
        """
        if isinstance(text, AskedText):
            self.refuse(_PLACE, "tiers need a limit with numbers: let the function tell them")
            return limit

        def of(value: TierValue) -> Limit:
            if value.limit and is_first:
                return self._own(limit, text, value.limit)
            return self._scaled(limit, text, value.scale)

        return self._chosen(limit, of)

    def slots(self, limit: Limit) -> Limit:
        """The slots with their tiers: a scale is for them too, a limit of a tier's own is not."""

        def of(value: TierValue) -> Limit:
            algorithm = self._times(limit, value.scale)
            return with_numbers(limit, algorithm, at_a_time(algorithm.quota))

        return self._chosen(limit, of)

    def _chosen(self, limit: Limit, of: Callable[[TierValue], Limit]) -> Limit:
        """The limit that is chosen by tier; `of` makes what a tier gets unless that is no limit at all."""
        overrides = limit.choose if isinstance(limit.choose, Overrides) else None
        plan = self.plan
        values = dict.fromkeys((*plan.values.values(), plan.unknown))
        made = {value: None if value.unlimited else of(value) for value in values}
        by_name = {name: made[value] for name, value in plan.values.items()}
        return replace(limit, choose=Tiers(plan, overrides, by_name, made[plan.unknown]))

    def _scaled(self, limit: Limit, text: Numbers, factor: float) -> Limit:
        """So many times the limit."""
        if factor == 1:
            return replace(limit, choose=None)
        algorithm, rate = self._times(limit, factor), _scaled_rate(text, factor)
        self.check_cost(text, algorithm, rate)
        wait_ns = limit.max_wait_ns and self.max_wait_ns(text, algorithm, _PLACE)
        return replace(with_numbers(limit, algorithm, rate), max_wait_ns=wait_ns)

    def _times(self, limit: Limit, factor: float) -> Algorithm:
        """So many times the arithmetic; itself if that is refused."""
        try:
            return limit.algorithm.scaled(factor)
        except InvalidLimitError as error:
            self.refuse(_PLACE, f"{factor:g} times {shown(limit.policy.text)}: {error}")
            return limit.algorithm

    def _own(self, limit: Limit, text: Numbers, own: LimitText) -> Limit:
        """Numbers of its own in the place of the limit's."""
        made = self.stand_ins.limit(limit, own, _PLACE)
        alike = type(made.algorithm) is type(limit.algorithm) and span(plain_text(text)) == span(own)
        return made if alike else apart(made, own)


def _scaled_rate(text: Numbers, factor: float) -> str:
    """A limit of the rule file, so many times, as clients are shown it."""
    numbers = plain_text(text)
    burst = None if numbers.burst is None else scaled_count(numbers.burst, factor)
    return replace(numbers, count=scaled_count(numbers.count, factor), burst=burst).rate
