"""Which rules hold for which routes of an app, before a request has come."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ratelimit_middleware.build import RulesSource
from ratelimit_middleware.coverage.overlap import Extent, extent_of
from ratelimit_middleware.frameworks.routes import AppRoute, routes_of
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.model import Rule, RuleSet

__all__ = ["Coverage", "RouteCoverage", "coverage", "warn_of_idle_rules"]

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WS")
_MOST_PAIRS = 50_000
_MOST_NAMED = 10
_UNUSED = "no route of the app can match `relate` of %s of %s: %s; see `ratelimits routes`"
_IDLE = "no route of the app can match %s of %s: %s; see `ratelimits routes`"

_logger = logging.getLogger("ratelimit_middleware")


@dataclass(frozen=True, slots=True)
class RouteCoverage:
    """What the rules do with one method of a route.

    Attributes:
        route: the route.
        method: the method; `WS` for a handshake.
        rules: names of the rules that hold for every request of it.
        some: names of the rules that hold for some of its requests only, because they are for some values
            of a parameter, or for some hosts.
        exempt: whether a rule says `unlimited` for all of them.
        limited: whether surely each of them is counted by a limit that refuses. A shadow rule, one with
            `missing: skip`, one with `enforce` below 100% or one for `concurrency` only is not enough.
    """

    route: AppRoute
    method: str
    rules: tuple[str, ...]
    some: tuple[str, ...]
    exempt: bool
    limited: bool


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the rules do with an app.

    Attributes:
        routes: each method of each route, in the order of the app.
        idle_rules: names of the rules of `limits` that no route can match.
        idle_relations: names of the rules that nothing uses up, since no route can match their `relate`.
    """

    routes: tuple[RouteCoverage, ...]
    idle_rules: tuple[str, ...]
    idle_relations: tuple[str, ...] = ()

    @property
    def unlimited(self) -> tuple[RouteCoverage, ...]:
        """What may go without any limit, though no rule says so."""
        return tuple(one for one in self.routes if not (one.limited or one.exempt))


def coverage(app: Any, rules: RulesSource) -> Coverage:
    """Hold the rules against the routes of a FastAPI, Starlette, Litestar, Flask or Quart app.

    Args:
        app: the app, or what wraps it.
        rules: the path of a rule file, a dict of the same shape, or a `RuleSet`.

    Raises:
        UnreachableError: nothing that can be seen from `app` knows routes.
        RuleFileError: the rules have mistakes.
    """
    ruleset = load_rules(rules)
    routes = routes_of(app)
    found = tuple(_covered(ruleset, route, method) for route in routes for method in _methods(route))
    idle, relations = _idle(ruleset, routes, ruleset.limits), _idle(ruleset, routes, _relations(ruleset))
    return Coverage(found, tuple(idle), tuple(relations))


def warn_of_idle_rules(app: Any, ruleset: RuleSet) -> None:
    """Tell in one log line of rules that no route can match, if the routes can be found; never raises.

    Where the rules and routes are so many that it would take long, it is left to the command.
    """
    with suppress(Exception):  # whatever the app's routes are; a middleware must come up all the same
        routes = routes_of(app)
        if len(routes) * len(ruleset.limits) > _MOST_PAIRS:
            return
        for message, rules in ((_IDLE, ruleset.limits), (_UNUSED, _relations(ruleset))):
            idle = list(_idle(ruleset, routes, rules))
            if idle:
                named = ", ".join(f"`{name}`" for name in idle[:_MOST_NAMED])
                more = f" and {len(idle) - _MOST_NAMED} more" if len(idle) > _MOST_NAMED else ""
                _logger.warning(message, _counted(len(idle)), ruleset.source, named + more)


def _counted(number: int) -> str:
    return "1 rule" if number == 1 else f"{number} rules"


def _methods(route: AppRoute) -> list[str]:
    if route.methods is None:
        return list(_METHODS)
    known = [method for method in _METHODS if method in route.methods]
    return known + sorted(route.methods.difference(known))


def _covered(ruleset: RuleSet, route: AppRoute, method: str) -> RouteCoverage:
    """What counts, as `rules.match` decides it, for all requests of a route at once."""
    extents = [(rule, _held(rule, route, method, ruleset)) for rule in ruleset.limits]
    whole = [rule for rule, extent in extents if extent is Extent.WHOLE]
    some = [rule for rule, extent in extents if extent is Extent.SOME]
    always = [(rule, _unrelated(rule, route, method, ruleset)) for rule in ruleset.always]
    exempt = [rule for rule in whole if rule.unlimited]
    if exempt:
        whole, some, fallback = exempt, [], []
    else:
        fallback = [ruleset.default] if ruleset.default and not any(map(_switches_off, whole)) else []
    left = [_unrelated(rule, route, method, ruleset) for rule in fallback]
    if left != [Extent.WHOLE]:
        some, fallback = [*some, *(fallback if left == [Extent.SOME] else [])], []
    whole = [*(rule for rule, extent in always if extent is Extent.WHOLE), *whole]
    some += [rule for rule, extent in always if extent is Extent.SOME]
    limited = any(map(_holds, (*whole, *fallback)))
    if any(_may_cover(rule) for rule in (*whole, *some)):
        some += fallback
    else:
        whole += fallback
    return RouteCoverage(route, method, _names(whole), _names(some), exempt=bool(exempt), limited=limited)


def _held(rule: Rule, route: AppRoute, method: str, ruleset: RuleSet) -> Extent:
    """How many of a route's requests a rule holds: those that it is about, and that do not use it up."""
    return min(_extent(rule, route, method, ruleset), _unrelated(rule, route, method, ruleset))


def _unrelated(rule: Rule, route: AppRoute, method: str, ruleset: RuleSet) -> Extent:
    """How many of a route's requests do not use a rule up."""
    used = _extent(_relation(rule), route, method, ruleset) if rule.relate else Extent.NONE
    return Extent(Extent.WHOLE - used)


def _relations(ruleset: RuleSet) -> list[Rule]:
    return [_relation(rule) for rule in ruleset.rules if rule.relate]


def _relation(rule: Rule) -> Rule:
    """The requests that use a rule up, as those of a rule."""
    return Rule(rule.name, rule.relate, hosts=rule.hosts, case_sensitive=rule.case_sensitive)


def _extent(rule: Rule, route: AppRoute, method: str, ruleset: RuleSet) -> Extent:
    case_sensitive = ruleset.case_sensitive if rule.case_sensitive is None else rule.case_sensitive
    return extent_of(rule, route, method, any_case=not case_sensitive)


def _holds(rule: Rule) -> bool:
    """Whether none of the requests that the rule is about goes unlimited, but for those that it exempts."""
    return any(_surely(limit) for limit in rule.limits)


def _switches_off(rule: Rule) -> bool:
    """Whether `default` counts for none of the requests that the rule is about."""
    return any(_surely(limit) and not limit.exempt for limit in rule.limits)


def _surely(limit: Limit) -> bool:
    return limit.covers and limit.missing != "skip" and not (limit.chain or limit.share)


def _may_cover(rule: Rule) -> bool:
    """Whether `default` does not count for requests that the rule is about, or for some of them."""
    return bool(rule.routes) and (rule.unlimited or any(limit.covers for limit in rule.limits))


def _names(rules: Iterable[Rule]) -> tuple[str, ...]:
    return tuple(rule.name for rule in rules)


def _idle(ruleset: RuleSet, routes: Iterable[AppRoute], rules: Iterable[Rule]) -> Iterator[str]:
    """Those of the rules that have no route."""
    served = list(routes)
    for rule in rules:
        if not any(_can_match(rule, route, ruleset) for route in served):
            yield rule.name


def _can_match(rule: Rule, route: AppRoute, ruleset: RuleSet) -> bool:
    methods = _methods(route)
    # Any route may be asked for `OPTIONS`, and for `HEAD` where it has `GET`, whatever it says of them.
    if "WS" not in methods or route.methods is None:
        methods += ["OPTIONS", *(["HEAD"] if "GET" in methods else [])]
    return any(_extent(rule, route, method, ruleset) is not Extent.NONE for method in methods)
