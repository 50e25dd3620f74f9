"""What makes no sense in a rule with `concurrency` and without `limit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ratelimit_middleware.rules.tiers import TierValue
from ratelimit_middleware.rules.words import GrammarError

__all__ = ["check_slots_only"]


class _Rule(Protocol):
    """A rule of the file."""

    @property
    def model_fields_set(self) -> set[str]:
        """The keys that stand there."""

    @property
    def concurrency(self) -> Any:
        """Requests in progress, perhaps with a key."""

    @property
    def tiers(self) -> Mapping[str, TierValue] | None:
        """What some tiers have under it."""


def check_slots_only(spec: _Rule) -> None:
    """Refuse what is for a `limit`.

    Raises:
        GrammarError: a key would have no effect.
    """
    for key in ("cost", "overrides"):
        if key in spec.model_fields_set:
            raise GrammarError(
                f"`{key}` is for a `limit`, and this rule has none: `concurrency` counts each request as one,"
                " and alike for all",
                key,
            )
    said = spec.model_fields_set
    if spec.concurrency.key and "key" in said and "bandwidth" not in said:
        raise GrammarError("`key` has no effect: `concurrency` has its own, and there is no `limit`", "key")
    for tier, value in (spec.tiers or {}).items():
        if value.limit:
            raise GrammarError(
                f"the limit of the tier `{tier}` takes the place of a `limit`, and this rule has none: add"
                " one, or write `{scale: 2}` for more slots",
                "tiers",
            )
