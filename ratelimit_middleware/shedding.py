"""Rules that shed requests, joined with what measures: everything of it lives in this process."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from ratelimit_middleware.clock import Clock, SystemClock
from ratelimit_middleware.overload.adaptive import Adaptive
from ratelimit_middleware.overload.meter import Meter
from ratelimit_middleware.overload.sensor import Sensor, SystemSensor
from ratelimit_middleware.overload.served import Served
from ratelimit_middleware.rules.model import Rule, RuleSet
from ratelimit_middleware.stores.base import AsyncStore, Store
from ratelimit_middleware.stores.shedding import shedding

__all__ = ["with_meters"]

_NO_LOOP = "`loop_lag` of %s has no effect under WSGI, where no event loop runs: `cpu` and `load` work there"

_logger = logging.getLogger("ratelimit_middleware")


def with_meters(
    ruleset: RuleSet,
    store: Store | AsyncStore,
    clock: Clock | None,
    sensor: Sensor | None,
    *,
    on_loop: bool,
) -> tuple[RuleSet, Store | AsyncStore]:
    """The rules with meters, and the store behind them; the same two if no rule sheds.

    Args:
        ruleset: the rules.
        store: where all other limits are counted.
        clock: tells how long requests took; the system's by default.
        sensor: tells how the server is; the system's by default.
        on_loop: whether requests are decided on an event loop.

    Raises:
        ImportError: what a rule asks for needs a package.
    """
    found = [
        (rule.name, limit, limit.algorithm)
        for rule in ruleset.rules
        for limit in rule.limits
        if isinstance(limit.algorithm, Adaptive)
    ]
    if not found:
        return ruleset, store
    wanted = {trigger for _, _, settings in found for trigger in settings.triggers}
    if sensor is None:
        lagging = [name for name, _, settings in found if "loop_lag" in settings.triggers]
        sensor = _system(wanted, lagging, on_loop=on_loop)
    clock = clock or SystemClock()
    meters = {limit.overflow: Meter(name, settings, sensor, clock) for name, limit, settings in found}
    return _measured(ruleset, meters), shedding(store, meters)


def _system(wanted: Collection[str], lagging: list[str], *, on_loop: bool) -> Sensor:
    if lagging and not on_loop:
        _logger.warning(_NO_LOOP, ", ".join(f"`{name}`" for name in lagging))
        wanted = {trigger for trigger in wanted if trigger != "loop_lag"}
    # The system's clock, whatever the app counts by: a loop is late by the time that runs.
    return SystemSensor(wanted, SystemClock())


def _measured(ruleset: RuleSet, meters: dict[str, Meter]) -> RuleSet:
    """The rules, whose requests tell the meters when they end."""

    def told(rule: Rule) -> Rule:
        limits = tuple(
            replace(limit, settle=Served(meters[limit.overflow])) if limit.overflow in meters else limit
            for limit in rule.limits
        )
        return replace(rule, limits=limits)

    return replace(
        ruleset,
        limits=tuple(map(told, ruleset.limits)),
        always=tuple(map(told, ruleset.always)),
        default=told(ruleset.default) if ruleset.default else None,
    )
