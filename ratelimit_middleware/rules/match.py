"""Which limits count for a request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from ratelimit_middleware.request import RequestView
from ratelimit_middleware.request_texts import fold, has_dots, readings, squeezed
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


_Reading: TypeAlias = tuple[dict[int, _Entry], dict[int, _Entry]]
"""What fits a path as it is spelled and in its plain spelling, by the rule's place in the file."""


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
        unlimited or a limit of `limits` that is not a shadow counts. Where routers may read the path or the
        host in several ways, the limits of all of them count, and `default` if one of them is not covered.
        """
        kind: str = view.kind
        method = view.method
        if method == "OPTIONS" and self._skips_preflights and _is_preflight(view):
            kind = _PREFLIGHT
        key = (kind, method, view.path, view.host if self._by_host else "")
        if key[2].__class__ is not str or key[3].__class__ is not str:  # `Doubtful`, equal to what is not
            return self._always[kind == _PREFLIGHT] + self._routed(*key)
        counted = self._cache.young.get(key)
        if counted is None:
            counted = self._cache.renewed(key)
        if counted is None:
            counted = self._always[kind == _PREFLIGHT] + self._routed(*key)
            if len(method) + len(key[2]) + len(key[3]) <= _CACHE_TEXT:
                self._cache.put(key, counted)
        return counted

    def _routed(self, kind: str, method: str, path: str, host: str) -> Counted:
        is_preflight = kind == _PREFLIGHT
        wanted = methods_of(kind, method)
        found = [
            self._entries(spelled, plain, wanted, name)
            for spelled, plain in _spellings(path)
            for name in readings(host)
        ]
        entries: dict[int, _Entry] = {}
        is_unlimited = is_covered = True
        for as_seen, folded in found:
            both = {**folded, **as_seen}
            entries = {**both, **entries}
            if not (_has_unlimited(as_seen) and _has_unlimited(folded)):
                is_unlimited = False
                is_covered &= any(_limits_of(both, is_preflight=is_preflight, only_covering=True))
        if is_unlimited:
            return ()
        counted = _once(_limits_of(entries, is_preflight=is_preflight))
        return counted if is_covered else counted + self._defaults[is_preflight]

    def _entries(self, path: str, plain: str, wanted: frozenset[str], host: str) -> _Reading:
        as_seen: dict[int, _Entry] = {}
        folded: dict[int, _Entry] = {}
        for index in self._indexes:
            fitting, fitting_plain = index.find(path, plain)
            _choose(fitting, wanted, host, as_seen)
            _choose(fitting_plain, wanted, host, folded)
        return as_seen, folded


def _spellings(path: str) -> Iterator[tuple[str, str]]:
    """What a path may mean, each time as it is spelled and in its plain spelling.

    A path with dot segments means another one to those who resolve them.
    """
    for one in readings(path):
        plain = fold(one)
        if has_dots(one):
            yield one, squeezed(one)
            yield plain, plain
        else:
            yield one, plain


def _limits_of(
    entries: dict[int, _Entry], *, is_preflight: bool, only_covering: bool = False
) -> Iterator[tuple[Limit, str]]:
    """The limits of entries in the order of the file, each with its route's pattern."""
    for order in sorted(entries):
        entry = entries[order]
        if not (is_preflight and entry.skips_preflight):
            for limit in entry.rule.limits:
                if limit.covers or not only_covering:
                    yield limit, entry.route.pattern


def _indexes(ruleset: RuleSet) -> list[Index[_Entry]]:
    """The routes of the rules: those whose case counts, and the others."""
    indexes: dict[bool, Index[_Entry]] = {}
    for order, rule in enumerate(ruleset.limits):
        case_sensitive = ruleset.case_sensitive if rule.case_sensitive is None else rule.case_sensitive
        index = indexes.setdefault(case_sensitive, Index(any_case=not case_sensitive))
        for route in rule.routes:
            entry = _Entry(order, rule, route, _skips_preflight(ruleset, rule))
            index.add(route.path, entry, narrow=rule.unlimited)
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
