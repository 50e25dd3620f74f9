"""Settings -> rules + store + registry, wired. The one place that knows all."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeAlias

from ratelimit_middleware.clock import Clock
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.model import RuleSet
from ratelimit_middleware.stores.base import AsyncStore, Store
from ratelimit_middleware.stores.open import open_store

__all__ = ["RulesSource", "build_registry"]

RulesSource: TypeAlias = "str | PathLike[str] | Mapping[str, Any] | RuleSet"


def build_registry(
    rules: RulesSource, *, store: Store | AsyncStore | None = None, clock: Clock | None = None
) -> LimiterRegistry:
    """Load the rules, open the store they name and join them.

    Args:
        rules: the path of a rule file, a dict of the same shape, or a `RuleSet`.
        store: use this store instead of the one the rules name.
        clock: where the store's time comes from; only for a store that is opened here.

    Raises:
        RuleFileError: the rules have mistakes; nothing was built.
        StoreError: the store cannot be opened.
    """
    ruleset = load_rules(rules)
    return LimiterRegistry(ruleset, store or open_store(ruleset.store_url, clock))
