"""Tiers: other numbers for the requests of some tiers, in one bucket with all others of the same key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ratelimit_middleware.request import Asked, RequestView
from ratelimit_middleware.rules.choices import Overrides
from ratelimit_middleware.rules.grammar import LimitText
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.tier_source import TierSource

__all__ = ["TierPlan", "TierValue", "Tiers"]


@dataclass(frozen=True, slots=True)
class TierValue:
    """What a tier gets.

    Attributes:
        scale: so many times the numbers of the rule.
        limit: takes the place of the first limit of the rule; the others stay as they are.
        unlimited: the rule does not count.
    """

    scale: float = 1
    limit: LimitText | None = None
    unlimited: bool = False


@dataclass(frozen=True, slots=True)
class TierPlan:
    """The tiers of a rule.

    Attributes:
        source: tells the tier of a request.
        values: by tier.
        unknown: for requests of no tier, or of one that is not named.
    """

    source: TierSource
    values: Mapping[str, TierValue]
    unknown: TierValue


@dataclass(frozen=True, slots=True)
class Tiers:
    """Chooses the limit of a request by its tier.

    Attributes:
        plan: what the rules say.
        overrides: say it before: the value of a key is closer to a client than its tier.
        limits: by tier; None = unlimited.
        unknown: for requests of no tier.
    """

    plan: TierPlan
    overrides: Overrides | None = None
    limits: Mapping[str, Limit | None] = field(default_factory=dict, compare=False, repr=False)
    unknown: Limit | None = field(default=None, compare=False, repr=False)

    @property
    def asked(self) -> Asked | None:
        """The function that must be asked first."""
        return self.plan.source.asked

    @property
    def alternatives(self) -> tuple[Limit, ...]:
        """All limits that may be chosen."""
        overrides = self.overrides.alternatives if self.overrides else ()
        return (*overrides, *(limit for limit in (*self.limits.values(), self.unknown) if limit))

    def __call__(self, limit: Limit, view: RequestView, route: str) -> Limit | None:
        """The limit for a request; None = unlimited."""
        if self.overrides:
            chosen = self.overrides(limit, view, route)
            if chosen is not limit:
                return chosen
        tier = self.plan.source(view)
        return self.unknown if tier is None else self.limits.get(tier, self.unknown)
