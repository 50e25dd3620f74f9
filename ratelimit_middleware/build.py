"""Settings -> rules + store + registry, wired. The one place that knows all."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from os import PathLike
from typing import Any, TypeAlias

from ratelimit_middleware.clock import Clock, SystemClock, utc_date
from ratelimit_middleware.errors import RuleFileError, RuleProblem
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.rules.lint import lint
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.model import RuleSet
from ratelimit_middleware.stores.base import AsyncStore, Store
from ratelimit_middleware.stores.open import open_store

__all__ = ["RulesSource", "build_registry"]

_MOST_LINES = 20

_logger = logging.getLogger("ratelimit_middleware")

RulesSource: TypeAlias = "str | PathLike[str] | Mapping[str, Any] | RuleSet"


def build_registry(
    rules: RulesSource,
    *,
    store: Store | AsyncStore | None = None,
    clock: Clock | None = None,
    awaits: bool = True,
) -> LimiterRegistry:
    """Load the rules, open the store they name and join them; what lint finds is logged, once.

    Args:
        rules: the path of a rule file, a dict of the same shape, or a `RuleSet`.
        store: use this store instead of the one the rules name.
        clock: where the store's time comes from; only for a store that is opened here.
        awaits: whether requests are decided on an event loop, so that async functions can be asked.

    Raises:
        RuleFileError: the rules have mistakes, or name an async function where nothing can be awaited;
            nothing was built.
        StoreError: the store cannot be opened.
    """
    ruleset = load_rules(rules)
    if not awaits:
        _refuse_async(ruleset)
    _log_warnings(ruleset)
    return LimiterRegistry(ruleset, open_store(ruleset.store_url, clock) if store is None else store)


def _refuse_async(ruleset: RuleSet) -> None:
    problems = [
        RuleProblem(
            ruleset.source,
            f"the rule `{rule.name}` asks the async function `{asked.name}`, which WSGI cannot await:"
            " name a plain function",
        )
        for rule in ruleset.rules
        for limit in rule.limits
        for asked in limit.awaited()
    ]
    if problems:
        raise RuleFileError(problems)


def _log_warnings(ruleset: RuleSet) -> None:
    """One line a warning; never raises. That memory is not shared by workers, opening the store tells."""
    with suppress(Exception):
        lines = [str(warning) for warning in lint(ruleset, today=utc_date(SystemClock().now_ns()))]
        if len(lines) > _MOST_LINES:
            more = len(lines) - _MOST_LINES + 1
            lines[_MOST_LINES - 1 :] = [f"{more} more warnings: `ratelimits check` shows all"]
        for line in lines:
            _logger.warning("%s", line)
