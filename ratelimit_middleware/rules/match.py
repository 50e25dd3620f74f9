"""Which limits count for a request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.hosts import matches
from ratelimit_middleware.rules.index import Index
from ratelimit_middleware.rules.model import Limit, Route, Rule, RuleSet
from ratelimit_middleware.rules.recent import Recent

__all__ = ["Counted", "Matcher", "methods_of"]

Counted: TypeAlias = tuple[tuple[Limit, str], ...]
"""The limits that count, in order, each with the pattern of the route that matched (empty for `always`
and `default`)."""

_CACHE_ENTRIES = 2048  # in each of two generations
_CACHE_TEXT = 512
_PREFLIGHT = "preflight"
"""In the place of a request's kind, where some rule passes preflights over."""


class _Entry(NamedTuple):
    """A route of a rule, with the rule's place in the file."""

    order: int
    rule: Rule
    route: Route
    skips_preflight: bool


class Matcher:
    """A rule set, ready to be asked.

    May be used from several threads: the cache is the only thing that changes, and needs no lock.

    Raises:
        GrammarError: a route that was built by hand is a regular expression that cannot be used.
    """

    __slots__ = ("_always", "_by_host", "_cache", "_defaults", "_indexes", "_skips_preflights", "default")

    def __init__(self, ruleset: RuleSet) -> None:
        self._indexes = _indexes(ruleset)
        self.default = _limits([ruleset.default] if ruleset.default else [])
        # By whether the request is a preflight.
        self._always = (
            _limits(ruleset.always),
            _limits(rule for rule in ruleset.always if not rule.skip_preflight),
        )
        skipped = bool(ruleset.default and _skips_preflight(ruleset, ruleset.default))
        self._defaults = (self.default, () if skipped else self.default)
        self._by_host = any(rule.hosts for rule in ruleset.limits)
        self._skips_preflights = any(
            rule.skip_preflight or (rule.skip_preflight is None and ruleset.skip_preflight)
            for rule in ruleset.rules
        )
        self._cache: Recent[tuple[str, str, str, str], Counted] = Recent(_CACHE_ENTRIES)

    def match(self, view: RequestView) -> Counted:
        """Every limit that counts for the request, in the order `always`, `limits`, `default`.

        Rules are matched on the path as the router sees it and on the folded path: a limit found under
        either counts, once; `unlimited` only if both are. `default` counts unless the request is
        unlimited or a limit of `limits` that is not a shadow counts.
        """
        kind: str = view.kind
        method = view.method
        if method == "OPTIONS" and self._skips_preflights and _is_preflight(view):
            kind = _PREFLIGHT
        key = (kind, method, view.path, view.host if self._by_host else "")
        counted = self._cache.young.get(key)
        if counted is None:
            counted = self._cache.renewed(key)
        if counted is None:
            counted = self._always[kind == _PREFLIGHT] + self._routed(*key)
            if len(method) + len(key[2]) + len(key[3]) <= _CACHE_TEXT:
                self._cache.put(key, counted)
        return counted

    def _routed(self, kind: str, method: str, path: str, host: str) -> Counted:
        as_seen: dict[int, _Entry] = {}
        folded: dict[int, _Entry] = {}
        wanted = methods_of(kind, method)
        for index in self._indexes:
            spelled, plain = index.find(path)
            _choose(spelled, wanted, host, as_seen)
            _choose(plain, wanted, host, folded)
        if _has_unlimited(as_seen) and _has_unlimited(folded):
            return ()
        entries = {**folded, **as_seen}
        is_preflight = kind == _PREFLIGHT
        counted = _once(
            (limit, entries[order].route.pattern)
            for order in sorted(entries)
            if not (is_preflight and entries[order].skips_preflight)
            for limit in entries[order].rule.limits
        )
        enforced = any(limit.covers for limit, _ in counted)
        return counted if enforced else counted + self._defaults[is_preflight]


def _indexes(ruleset: RuleSet) -> list[Index[_Entry]]:
    """The routes of the rules: those whose case counts, and the others."""
    indexes: dict[bool, Index[_Entry]] = {}
    for order, rule in enumerate(ruleset.limits):
        case_sensitive = ruleset.case_sensitive if rule.case_sensitive is None else rule.case_sensitive
        index = indexes.setdefault(case_sensitive, Index(any_case=not case_sensitive))
        for route in rule.routes:
            index.add(route.path, _Entry(order, rule, route, _skips_preflight(ruleset, rule)))
    return list(indexes.values())


def _skips_preflight(ruleset: RuleSet, rule: Rule) -> bool:
    return ruleset.skip_preflight if rule.skip_preflight is None else rule.skip_preflight


def _limits(rules: Iterable[Rule]) -> Counted:
    """The limits of rules without routes."""
    return tuple((limit, "") for rule in rules for limit in rule.limits)


def _choose(entries: Sequence[_Entry], wanted: frozenset[str], host: str, chosen: dict[int, _Entry]) -> None:
    """Add the entries that are for the request's method and host, by their rule's place in the file.

    So a rule with several routes counts once.
    """
    for entry in entries:
        methods = entry.route.methods
        if (methods is None or methods & wanted) and matches(entry.rule.hosts, host):
            chosen[entry.order] = entry


def _once(counted: Iterable[tuple[Limit, str]]) -> Counted:
    """Each bucket once: of rules that share one, the first counts."""
    first: dict[str, tuple[Limit, str]] = {}
    for limit, route in counted:
        first.setdefault(limit.rule_id, (limit, route))
    return tuple(first.values())


def _is_preflight(view: RequestView) -> bool:
    """A CORS preflight, as the Fetch standard (4.8) sends it."""
    return view.header("origin") is not None and view.header("access-control-request-method") is not None


def methods_of(kind: str, method: str) -> frozenset[str]:
    """The words in front of a route that stand for this request."""
    if kind == "websocket":
        return frozenset({"WS"})
    return frozenset({method, "GET"} if method == "HEAD" else {method}) - {"WS"}


def _has_unlimited(entries: dict[int, _Entry]) -> bool:
    return any(entry.rule.unlimited for entry in entries.values())
