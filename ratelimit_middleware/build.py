"""Settings -> rules + store + registry, wired. The one place that knows all."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import PathLike
from typing import Any, TypeAlias

from ratelimit_middleware.clock import Clock, SystemClock, told, utc_date
from ratelimit_middleware.errors import InvalidLimitError, RuleFileError, RuleProblem, StoreError
from ratelimit_middleware.events import Hook
from ratelimit_middleware.frameworks.selected import SelectedRoute
from ratelimit_middleware.overload.sensor import Sensor
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.reporter import Reporter
from ratelimit_middleware.rules.lint import lint
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.model import RuleSet
from ratelimit_middleware.shedding import with_meters
from ratelimit_middleware.stores._workers import ProcessesWarning, warn_of_workers
from ratelimit_middleware.stores.base import AsyncStore, ChoosyStore, Store
from ratelimit_middleware.stores.divided import DividedStore
from ratelimit_middleware.stores.guard import GuardedAsyncStore, GuardedStore, guarded
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.stores.open import open_store
from ratelimit_middleware.stores.shedding import SheddingStore

__all__ = ["RulesSource", "build_registry", "build_reporter", "processes_warning"]

_MOST_LINES = 20

_logger = logging.getLogger("ratelimit_middleware")

RulesSource: TypeAlias = "str | PathLike[str] | Mapping[str, Any] | RuleSet"


def build_registry(
    rules: RulesSource,
    *,
    store: Store | AsyncStore | None = None,
    clock: Clock | None = None,
    awaits: bool = True,
    app: object = None,
    sensor: Sensor | None = None,
) -> LimiterRegistry:
    """Load the rules, open the store they name and join them; what lint finds is logged, once.

    Args:
        rules: the path of a rule file, a dict of the same shape, or a `RuleSet`.
        store: use this store instead of the one the rules name.
        clock: where the time of a store that is opened here comes from, and that of responses.
        app: what is limited; asked which of its routes serves a request, if a key depends on that.
        awaits: whether requests are decided on an event loop, so that async functions can be asked.
        sensor: tells rules with `adaptive` how loaded the server is; the system's by default.

    Raises:
        RuleFileError: the rules have mistakes, or name an async function where nothing can be awaited;
            nothing was built.
        StoreError: the store cannot be opened, or cannot count one of the limits.
        InvalidLimitError: a `RuleSet` wants `fallback` and does not tell the number of processes; or the
            clock is none.
    """
    if clock is not None:
        told(clock)
    if store is not None and not isinstance(store, (Store, AsyncStore)):
        raise StoreError(
            f"store={store!r} is no store: expected an object such as MemoryStore(), or a URL under `store`"
            " in the rules"
        )
    ruleset = load_rules(rules)
    if not awaits:
        _refuse_async(ruleset)
    is_given = store is not None
    # What the file says of a store is then about the one that is given.
    _log_warnings(ruleset, besides=frozenset({"RL502"} if is_given else ()))
    if store is None:
        store = open_store(ruleset.store, clock)
    elif isinstance(store, MemoryStore):
        warn_of_workers()
    if isinstance(store, ChoosyStore):
        for limit in (limit for rule in ruleset.rules for limit in rule.all_limits if not limit.sheds):
            for one in (limit, *limit.alternatives()):
                store.accept(one.algorithm)
    route_of = None if app is None else SelectedRoute(app)
    place = store if is_given else _place(store, ruleset)
    guarded_store = _guarded(store, ruleset, clock)
    ruleset, guarded_store = with_meters(ruleset, guarded_store, clock, sensor, on_loop=awaits)
    return LimiterRegistry(ruleset, guarded_store, clock=clock, place=place, route_of=route_of)


def _place(store: Store | AsyncStore, ruleset: RuleSet) -> object:
    """Where the counts of a store live that the rules name: each memory for itself, else the URL says."""
    settings = ruleset.store
    return store if isinstance(store, (MemoryStore, DividedStore)) else (settings.url, settings.prefix)


def build_reporter(
    registry: LimiterRegistry, hooks: Sequence[Hook], clock: Clock | None = None
) -> Reporter | None:
    """What tells hooks of the verdicts of a registry; None if there are none.

    Raises:
        InvalidLimitError: one of the hooks is none, or they are not in a list.
    """
    if not isinstance(hooks, Sequence):
        raise InvalidLimitError("hooks", hooks, "a list: hooks=[Counters()]")
    if not hooks:
        return None
    registry.note_checks()
    return Reporter(registry.ruleset, registry.counted, hooks, clock)


def processes_warning(registry: LimiterRegistry) -> ProcessesWarning:
    """What looks at the requests of a WSGI server for a sign that the counts are not shared."""
    store = registry.store
    return ProcessesWarning(store.inner if isinstance(store, SheddingStore) else store)


def _guarded(store: Store | AsyncStore, ruleset: RuleSet, clock: Clock | None) -> Store | AsyncStore:
    """The store behind a guard, where it may fail and something is to be done about it."""
    settings = ruleset.store
    own = {limit.on_error for rule in ruleset.rules for limit in (*rule.all_limits, *rule.charges)} - {None}
    if isinstance(store, (MemoryStore, DividedStore, GuardedStore, GuardedAsyncStore)):
        return store
    if not (settings.is_remote or settings.on_error or own):
        return store
    if "fallback" in own and settings.expected_workers is None:
        raise InvalidLimitError("expected_workers", None, "the number of processes that share the store")
    return guarded(store, settings, clock)


def _refuse_async(ruleset: RuleSet) -> None:
    problems = [
        RuleProblem(
            ruleset.source,
            f"the rule `{rule.name}` asks the async function `{asked.name}`, which WSGI cannot await:"
            " name a plain function",
        )
        for rule in ruleset.rules
        for limit in rule.all_limits
        for asked in limit.awaited()
    ]
    if problems:
        raise RuleFileError(problems)


def _log_warnings(ruleset: RuleSet, besides: frozenset[str]) -> None:
    """One line a warning that is not of these codes; never raises.

    That memory is not shared by workers, opening the store tells.
    """
    with suppress(Exception):
        found = lint(ruleset, today=utc_date(SystemClock().now_ns()))
        lines = [str(warning) for warning in found if warning.code not in besides]
        if len(lines) > _MOST_LINES:
            more = len(lines) - _MOST_LINES + 1
            lines[_MOST_LINES - 1 :] = [f"{more} more warnings: `ratelimits check` shows all"]
        for line in lines:
            _logger.warning("%s", line)
