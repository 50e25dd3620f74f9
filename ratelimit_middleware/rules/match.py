"""Which limits count for a request.

The index is a trie over the segments of the templates: looking a path up costs its own length, however
many rules there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.hosts import matches
from ratelimit_middleware.rules.model import Limit, Route, Rule, RuleSet
from ratelimit_middleware.rules.route import REST, fold, segments

__all__ = ["Counted", "Matcher"]

Counted: TypeAlias = tuple[tuple[Limit, str], ...]
"""The limits that count, in order, each with the pattern of the route that matched (empty for `always`
and `default`)."""

_CACHE_ENTRIES = 4096
_CACHE_TEXT = 512
_PARAMETER = re.compile(r"\{[^{}:]+(?::(?P<converter>\w+))?\}")
# The union of what Starlette and Werkzeug accept, so that no converted segment slips past its rule.
_FLOAT = re.compile(r"\d+(\.\d+)?")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")
_TESTS: dict[str, Callable[[str], object]] = {
    "str": bool,
    "int": str.isdecimal,
    "float": _FLOAT.fullmatch,
    "uuid": _UUID.fullmatch,
}


class _Entry(NamedTuple):
    """A route of a rule, with the rule's place in the file."""

    order: int
    rule: Rule
    route: Route


class _Node:
    """What may follow at one place of a path."""

    __slots__ = ("ends", "literals", "parameters", "rests")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.parameters: dict[str, _Node] = {}
        self.ends: list[_Entry] = []
        self.rests: list[_Entry] = []

    def add(self, entry: _Entry, path: str) -> None:
        """Put a route under a spelling of its template."""
        node = self
        for segment in segments(path):
            found = _PARAMETER.fullmatch(segment)
            converter = (found["converter"] or "str") if found else None
            if segment == REST or converter == "path":
                node.rests.append(entry)
                return
            if converter is None:
                node = node.literals.setdefault(segment, _Node())
            else:
                node = node.parameters.setdefault(converter, _Node())
        node.ends.append(entry)

    def after(self, segment: str) -> Iterable[_Node]:
        """The places where `segment` leads."""
        if segment in self.literals:
            yield self.literals[segment]
        for converter, node in self.parameters.items():
            if _TESTS[converter](segment):
                yield node

    def find(self, path: str) -> list[_Entry]:
        """All routes whose template fits `path` as it is spelled."""
        found = list(self.rests)
        nodes = [self]
        for segment in segments(path):
            nodes = [after for node in nodes for after in node.after(segment)]
            if not nodes:
                return found
            for node in nodes:
                found += node.rests
        for node in nodes:
            found += node.ends
        return found


class Matcher:
    """A rule set, ready to be asked.

    May be used from several threads: the cache is the only thing that changes, by single steps of a dict.
    """

    __slots__ = ("_always", "_by_host", "_cache", "_fold", "_root", "_skip_preflight", "default")

    def __init__(self, ruleset: RuleSet) -> None:
        self._fold = fold if ruleset.case_sensitive else _fold_case
        self._root = _Node()
        for order, rule in enumerate(ruleset.limits):
            for route in rule.routes:
                for path in {route.path, self._fold(route.path)}:
                    self._root.add(_Entry(order, rule, route), path)
        self._always: Counted = tuple((limit, "") for rule in ruleset.always for limit in rule.limits)
        self.default: Counted = (
            tuple((limit, "") for limit in ruleset.default.limits) if ruleset.default else ()
        )
        self._by_host = any(rule.hosts for rule in ruleset.limits)
        self._skip_preflight = ruleset.skip_preflight
        self._cache: dict[tuple[str, str, str, str], Counted] = {}

    def match(self, view: RequestView) -> Counted:
        """Every limit that counts for the request, in the order `always`, `limits`, `default`.

        Rules are matched on the path as the router sees it and on the folded path: a limit found under
        either counts, once; `unlimited` only if both are. `default` counts unless the request is
        unlimited or a limit of `limits` that is not a shadow counts.
        """
        key = (view.kind, view.method, view.path, view.host if self._by_host else "")
        if key[1] == "OPTIONS" and self._skip_preflight and _is_preflight(view):
            return self._always
        counted = self._cache.get(key)
        if counted is None:
            counted = self._always + self._routed(*key)
            if len(key[1]) + len(key[2]) + len(key[3]) <= _CACHE_TEXT:
                if len(self._cache) >= _CACHE_ENTRIES:  # random paths must not grow it without end
                    self._cache.clear()
                self._cache[key] = counted
        return counted

    def _routed(self, kind: str, method: str, path: str, host: str) -> Counted:
        wanted = _methods(kind, method)
        as_seen = self._entries(path, wanted, host)
        plain = self._fold(path)
        folded = as_seen if plain == path else self._entries(plain, wanted, host)
        if _has_unlimited(as_seen) and _has_unlimited(folded):
            return ()
        entries = {**folded, **as_seen}
        counted = _once(
            (limit, entries[order].route.pattern)
            for order in sorted(entries)
            for limit in entries[order].rule.limits
        )
        return counted if any(limit.covers for limit, _ in counted) else counted + self.default

    def _entries(self, path: str, wanted: frozenset[str], host: str) -> dict[int, _Entry]:
        """The routes that fit, by their rule's place in the file; a rule with several counts once."""
        return {
            entry.order: entry
            for entry in self._root.find(path)
            if (entry.route.methods is None or entry.route.methods & wanted)
            and matches(entry.rule.hosts, host)
        }


def _once(counted: Iterable[tuple[Limit, str]]) -> Counted:
    """Each bucket once: of rules that share one, the first counts."""
    first: dict[str, tuple[Limit, str]] = {}
    for limit, route in counted:
        first.setdefault(limit.rule_id, (limit, route))
    return tuple(first.values())


def _fold_case(path: str) -> str:
    return fold(path).lower()


def _is_preflight(view: RequestView) -> bool:
    """A CORS preflight, as the Fetch standard (4.8) sends it."""
    return view.header("origin") is not None and view.header("access-control-request-method") is not None


def _methods(kind: str, method: str) -> frozenset[str]:
    """The words in front of a route that stand for this request."""
    if kind == "websocket":
        return frozenset({"WS"})
    return frozenset({method, "GET"} if method == "HEAD" else {method}) - {"WS"}


def _has_unlimited(entries: dict[int, _Entry]) -> bool:
    return any(entry.rule.unlimited for entry in entries.values())
