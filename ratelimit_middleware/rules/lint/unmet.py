"""RL201 to RL205: rules, and parts of rules, that no request ever meets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from ipaddress import IPv6Network

from ratelimit_middleware.identity import REGISTERED_METHODS, KeyKind, KeyPart, client_address
from ratelimit_middleware.rules.choices import MethodCost, Overrides
from ratelimit_middleware.rules.lint.cover import Cover
from ratelimit_middleware.rules.lint.warning import LintWarning, about
from ratelimit_middleware.rules.model import Rule, RuleSet
from ratelimit_middleware.rules.route import fold
from ratelimit_middleware.rules.tiers import Tiers
from ratelimit_middleware.rules.words import shown

__all__ = ["under_unlimited", "unmet_costs", "unmet_default", "unmet_overrides", "unplain_routes"]


def under_unlimited(ruleset: RuleSet) -> Iterator[LintWarning]:
    """RL201: rules whose requests are all unlimited."""
    unlimited = [rule for rule in ruleset.limits if rule.unlimited]
    cover = Cover(unlimited, case_sensitive=ruleset.case_sensitive)
    for rule in ruleset.limits:
        met = [] if rule.unlimited else [cover.meeting(part, rule.hosts) for part in cover.demands(rule)]
        if met and all(met):
            names = ", ".join(f"`{name}`" for name in dict.fromkeys(rules[0].name for rules in met))
            yield about(
                ruleset,
                rule,
                "RL201",
                f"the rule `{rule.name}` lies wholly under what is unlimited by {names}, so no request to a"
                " plainly written path counts: leave the rule out, or narrow what is unlimited",
            )


def unmet_default(ruleset: RuleSet) -> Iterator[LintWarning]:
    """RL202: a `default` beside a rule that counts for every request."""
    default = ruleset.default
    if not default or any(rule.hosts for rule in ruleset.limits):
        return  # a file with hosts must have a default
    for rule in ruleset.limits:
        everything = any(route.path == "/**" and route.methods is None for route in rule.routes)
        if rule.relate:
            continue  # requests of the related routes are left for it
        if ruleset.skips(rule) and not ruleset.skips(default):
            continue  # preflights are left for it
        if everything and any(
            limit.covers and limit.missing != "skip" and not (limit.exempt or limit.share or limit.chain)
            for limit in rule.limits
        ):
            yield about(
                ruleset,
                default,
                "RL202",
                f"the rule `{rule.name}` counts for every request, so `default` never does: leave one out, or"
                " move what holds for all requests to `always`",
            )
            return


def unplain_routes(ruleset: RuleSet) -> Iterator[LintWarning]:
    """RL203: routes that are not written as the path they stand for."""
    for rule in ruleset.limits:
        for route in rule.routes:
            path = route.path
            if path.startswith("/") and fold(path) not in (path, path.removesuffix("/")):
                yield about(
                    ruleset,
                    rule,
                    "RL203",
                    f"the route {shown(route.pattern)} has an empty segment, `.` or `..`, which paths lose"
                    f" before they are matched, so it stands for {shown(fold(path))}: write that",
                )


def unmet_overrides(ruleset: RuleSet) -> Iterator[LintWarning]:
    """RL204: overrides for values that the key never has."""
    for rule in ruleset.rules:
        for limit in rule.limits:
            overrides = limit.choose.overrides if isinstance(limit.choose, Tiers) else limit.choose
            if isinstance(overrides, Overrides):
                for value, reason in _unmet_values(overrides):
                    message = f"the override for {shown(value)} never holds: {reason}"
                    yield about(ruleset, rule, "RL204", message)


def _unmet_values(overrides: Overrides) -> Iterator[tuple[str, str]]:
    part = overrides.part
    known = _VALUES.get(part.kind)
    for value in overrides.exact:
        if known and not known[0](value, part):
            yield value, known[1]
    globs = [glob for glob, _ in overrides.globs]
    for glob in globs[globs.index("*") + 1 :] if "*" in globs else []:
        yield glob, "`*` stands before it and takes every value: move `*` to the end"


def _is_address(value: str, _part: KeyPart) -> bool:
    """Whether some client is counted under this name: IPv6 by a prefix, test clients and sockets by name."""
    if "/" in value:
        with suppress(ValueError):
            return str(IPv6Network(value)) == value
    return value.startswith("=") or value in (client_address(value), client_address(None))


def _is_method(value: str, _part: KeyPart) -> bool:
    return value in REGISTERED_METHODS | {"WS", "*other"}


def _is_host(value: str, _part: KeyPart) -> bool:
    has_port = re.search(r"(?:^[^:]*|\]):[0-9]*$", value)
    return not has_port and value == value.strip().lower().removesuffix(".")


def _is_path(value: str, part: KeyPart) -> bool:
    return value == fold(value) and not (part.any_case and value != value.lower())


def _is_everyone(value: str, _part: KeyPart) -> bool:
    return value == "*global"


_VALUES: dict[KeyKind, tuple[Callable[[str, KeyPart], bool], str]] = {
    "ip": (
        _is_address,
        "addresses count as `192.0.2.7` and `2001:db8::/64`; a glob such as `10.*` stands for several",
    ),
    "method": (_is_method, "methods are written in capitals, handshakes are `WS`"),
    "host": (_is_host, "hosts are in lower case, without port and final dot"),
    "path": (_is_path, "paths begin with `/` and lose doubled and trailing slashes"),
    "global": (_is_everyone, "all clients share one bucket: change the limit itself"),
}
"""For kinds of parts with values of a known form: the test of a value, and what to write."""


def unmet_costs(ruleset: RuleSet) -> Iterator[LintWarning]:
    """RL205: costs of methods that a rule is not for."""
    for rule in ruleset.limits:
        methods = _methods(rule)
        costs = rule.limits[0].cost_of if rule.limits else None
        if methods and isinstance(costs, MethodCost):
            for method in sorted(costs.costs.keys() - methods):
                yield about(
                    ruleset,
                    rule,
                    "RL205",
                    f"the rule `{rule.name}` has a cost for `{method}` but is only for"
                    f" {', '.join(sorted(methods))}: leave the cost out, or add the method to the route",
                )


def _methods(rule: Rule) -> frozenset[str]:
    """The methods that a rule sees; none = all."""
    methods: frozenset[str] = frozenset()
    for route in rule.routes:
        if route.methods is None:
            return frozenset()
        methods |= route.methods
    return methods | {"HEAD"} if "GET" in methods else methods
