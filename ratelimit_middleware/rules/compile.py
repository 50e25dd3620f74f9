"""From the checked shape of a file to its `RuleSet`: names, keys and algorithms."""

from __future__ import annotations

import re

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.decision import Policy
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.rules.document import Document, Finding, Path
from ratelimit_middleware.rules.grammar import LimitText, key_text
from ratelimit_middleware.rules.model import KeyPart, Limit, Route, Rule, RuleSet
from ratelimit_middleware.rules.route import parse_route
from ratelimit_middleware.rules.schema import FileSpec, RuleSpec, WarmUpSpec
from ratelimit_middleware.rules.words import shown

__all__ = ["compile_file"]

_NAME_LENGTH = 60
_CLIENT_WRITTEN = frozenset({"header"})


def compile_file(spec: FileSpec, document: Document) -> tuple[RuleSet, list[Finding]]:
    """The rule set, and what is wrong with rules whose shape is sound."""
    compiler = _Compiler(spec, document)
    limits = [compiler.rule(("limits", text), rule, parse_route(text)) for text, rule in spec.limits.items()]
    always = [compiler.rule(("always", index), rule) for index, rule in spec.always.items()]
    default = compiler.rule(("default",), spec.default) if spec.default else None
    ruleset = RuleSet(
        limits=tuple(rule for rule in limits if rule),
        always=tuple(rule for rule in always if rule),
        default=default,
        store_url=spec.store.url,
        headers=spec.response.headers,
        source=document.name,
    )
    return ruleset, compiler.findings


class _Compiler:
    """What the rules of a file share: the names taken and the findings."""

    def __init__(self, spec: FileSpec, document: Document) -> None:
        self.findings: list[Finding] = []
        self._document = document
        self._rule_names: set[str] = set()
        rules = [*spec.limits.values(), *spec.always.values(), *([spec.default] if spec.default else [])]
        # Names that somebody chose are kept free for them, whatever stands above.
        self._chosen = {rule.name for rule in rules if rule.name}
        self._policy_names: set[str] = set()
        self._suffixes: dict[str, int] = {}

    def rule(self, path: Path, spec: RuleSpec, route: Route | None = None) -> Rule | None:
        """A rule; None when it is switched off or wrong."""
        name = spec.name or (route.pattern if route else _own_name(path))
        routes = (route,) if route else ()
        if name in self._rule_names:
            self._refuse((*path, "name"), _taken(name, spec, route), at_key=not spec.name)
        self._rule_names.add(name)
        self._check_clients(path, spec)
        if spec.unlimited and path[0] == "always":
            self._refuse(
                (*path, "limit"), "`unlimited` does not belong in `always`, which counts every request"
            )
        base = spec.name or _wire_name(name)
        limits = [self._limit(path, spec, name, base, number) for number in range(len(spec.placed_limits))]
        if spec.mode == "none":
            return None
        return Rule(name, routes, tuple(limit for limit in limits if limit), spec.unlimited)

    def _refuse(self, path: Path, message: str, *, at_key: bool = False) -> None:
        self.findings.append(self._document.find(path, message, at_key=at_key))

    def _check_clients(self, path: Path, spec: RuleSpec) -> None:
        """Refuse a limit that a client leaves by writing another header, if nothing else holds it."""
        keys = [(index, limit.key or spec.key) for index, limit in spec.placed_limits]
        if spec.trusted or any(not _client_written(key) for _, key in keys):
            return
        for index, key in keys:
            message = (
                f"the key {shown(key_text(key))} has a part that the client writes and may change at will:"
                " add a limit `per ip` beside it, or `trusted: true` if a proxy sets it"
            )
            self._refuse((*path, "limit", index), message)

    def _limit(self, path: Path, spec: RuleSpec, rule: str, base: str, number: int) -> Limit | None:
        index, text = spec.placed_limits[number]
        try:
            algorithm = _algorithm(text, spec.warm_up)
        except InvalidLimitError as error:
            self._refuse(_blamed(path, error.what, index), f"{shown(text)}: {error}")
            return None
        policy = Policy(
            self._policy_name(base, number, spec), algorithm.quota, algorithm.window_ns, text.rate
        )
        rule_id = rule if number == 0 else f"{rule}#{number + 1}"
        return Limit(policy, algorithm, text.key or spec.key, rule_id, spec.mode == "shadow")

    def _policy_name(self, base: str, number: int, spec: RuleSpec) -> str:
        """`base`, else `base-2`, `base-3`, …: the first that is free."""
        chosen = base == spec.name and number == 0
        name = base if number == 0 else f"{base}-{number + 1}"
        while name in self._policy_names or (name in self._chosen and not chosen):
            self._suffixes[base] = max(self._suffixes.get(base, 1), number + 1) + 1
            name = f"{base}-{self._suffixes[base]}"
        self._policy_names.add(name)
        return name


def _algorithm(text: LimitText, warm_up: WarmUpSpec | None) -> Algorithm:
    """The arithmetic that keeps a limit.

    Raises:
        InvalidLimitError: the algorithm refuses a number.
    """
    if warm_up:
        return WarmUpWindow(
            limit=text.count,
            period=text.period_s,
            warm_up_period=warm_up.period,
            cold_factor=warm_up.cold_factor,
        )
    if text.burst is not None:
        return GCRA(limit=text.count, period=text.period_s, burst=text.burst)
    return SlidingWindow(limit=text.count, period=text.period_s)


def _blamed(path: Path, what: str, index: int) -> Path:
    """The place of the number that an algorithm refused."""
    if what == "cold_factor":
        return (*path, "warm_up", "cold_factor")
    return (*path, "warm_up", "period") if what == "warm_up_period" else (*path, "limit", index)


def _client_written(key: tuple[KeyPart, ...]) -> bool:
    return any(part.kind in _CLIENT_WRITTEN for part in key)


def _own_name(path: Path) -> str:
    """What a rule without name and route is called: `default`, `always-1`, `always-2`."""
    return f"always-{int(path[1]) + 1}" if path[0] == "always" else "default"


def _wire_name(name: str) -> str:
    """A rule's name as a policy name: `GET /items/{id:int}` becomes `get-items-id`."""
    plain = re.sub(r":\w+\}", "}", name).lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:_NAME_LENGTH].strip("-") or "root"


def _taken(name: str, spec: RuleSpec, route: Route | None) -> str:
    if spec.name:
        return f"the name {shown(name)} is taken by another rule: each needs its own"
    if route:
        return f"the route {shown(name)} stands twice, in two spellings: put its limits in one rule"
    return f"the name {shown(name)} belongs to this rule: rename the other one that has it"
