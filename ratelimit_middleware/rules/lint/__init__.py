"""Lint: what a rule file may say, but hardly means. Each code has its section in docs/lint.md."""

from __future__ import annotations

from datetime import date

from ratelimit_middleware.rules.lint.surroundings import (
    client_written_keys,
    idle_store_keys,
    memory_under_workers,
    old_shadows,
    wide_proxies,
)
from ratelimit_middleware.rules.lint.tightness import idle_limits
from ratelimit_middleware.rules.lint.unmet import (
    under_unlimited,
    unmet_costs,
    unmet_default,
    unmet_overrides,
    unplain_routes,
)
from ratelimit_middleware.rules.lint.warning import CODES, LintWarning
from ratelimit_middleware.rules.model import RuleSet

__all__ = ["CODES", "LintWarning", "lint"]


def lint(ruleset: RuleSet, *, today: date, workers: int = 1) -> tuple[LintWarning, ...]:
    """What is odd about rules that are right; no false alarms, but not everything is seen.

    Args:
        ruleset: the rules.
        today: the date by which shadow rules are old.
        workers: how many processes will share the load.

    Returns:
        The warnings that the rules do not ignore: of the whole file first, then rule by rule in the order of
        `RuleSet.rules`, then by code.
    """
    found = [
        *memory_under_workers(ruleset, workers),
        *idle_store_keys(ruleset),
        *wide_proxies(ruleset),
        *idle_limits(ruleset),
        *under_unlimited(ruleset),
        *unmet_default(ruleset),
        *unplain_routes(ruleset),
        *unmet_overrides(ruleset),
        *unmet_costs(ruleset),
        *client_written_keys(ruleset),
        *old_shadows(ruleset, today),
    ]
    order = {rule.name: number for number, rule in enumerate(ruleset.rules)}
    found.sort(key=lambda warning: (order.get(warning.rule, -1), warning.code))
    return tuple(warning for warning in found if not warning.is_ignored(ruleset.ignored))
