"""Limits in the place of another one: those of a tier, of an override, and those that a function tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.decision import Policy
from ratelimit_middleware.rules.document import Path
from ratelimit_middleware.rules.grammar import LimitText
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.limit_spec import LongLimitSpec
from ratelimit_middleware.rules.words import shown

__all__ = ["Numbers", "StandIns", "apart", "plain_text", "span", "with_numbers"]

Numbers: TypeAlias = LimitText | LongLimitSpec
"""What the file has for a limit with numbers of its own."""


@dataclass(frozen=True)
class StandIns:
    """Makes limits that differ from another one in their numbers.

    Attributes:
        behavior: of the rule, for limits in the short form; the long form has its own.
        refuse: is told a place below the rule and what is wrong there.
        algorithm: makes the arithmetic, or refuses it.
        check_cost: refuses a cost that the arithmetic cannot do.
        max_wait_ns: how long a request may be delayed by it.
    """

    behavior: str
    refuse: Callable[[Path, str], None]
    algorithm: Callable[[Numbers, Path], Algorithm | None]
    check_cost: Callable[[Numbers, Algorithm], None]
    max_wait_ns: Callable[[Numbers, Algorithm, Path], int]

    def limit(self, limit: Limit, text: Numbers, place: Path) -> Limit:
        """The limit with the numbers of a text: it waits as the text lets it; itself if they are refused.

        Args:
            limit: whose place it takes.
            text: the numbers.
            place: below the rule.
        """
        misfit = self._misfit(text)
        if misfit:
            self.refuse(place, misfit)
            return limit
        algorithm = self.algorithm(text, place)
        if algorithm is None:
            return limit
        self.check_cost(text, algorithm)
        wait_ns = self.max_wait_ns(text, algorithm, place)
        return replace(with_numbers(limit, algorithm, plain_text(text).rate), max_wait_ns=wait_ns)

    def _misfit(self, text: Numbers) -> str:
        """What the behavior of the rule cannot do; empty if it can."""
        if self.behavior == "reject" or isinstance(text, LongLimitSpec):
            return ""
        takes_burst = self.behavior == "queue"
        if not text.by_calendar and (takes_burst or text.burst is None):
            return ""
        without = "" if takes_burst else ", without `burst`"
        return (
            f"{shown(text.rate)} does not go with `behavior: {self.behavior}`, which works on a limit such as"
            f" `100/second`{without}"
        )


def with_numbers(limit: Limit, algorithm: Algorithm, rate: str) -> Limit:
    """A limit like another one, with its own numbers."""
    policy = Policy(limit.policy.name, algorithm.quota, algorithm.window_ns, rate)
    return replace(limit, policy=policy, algorithm=algorithm, choose=None)


def span(text: LimitText) -> str:
    """The period of a limit: its length, or the unit of the calendar."""
    return text.unit if text.by_calendar else f"{text.period_s}s"


def apart(limit: Limit, text: LimitText) -> Limit:
    """The limit in a bucket for its period.

    In one bucket with a limit of another period, a request of the shorter one would drop what the longer
    one still has to count.
    """
    burst = "" if text.burst is None else "-burst"
    return replace(limit, rule_id=f"{limit.rule_id}#{span(text)}{burst}")


def plain_text(text: Numbers) -> LimitText:
    """What the short form can say of it."""
    return text.limit if isinstance(text, LongLimitSpec) else text
