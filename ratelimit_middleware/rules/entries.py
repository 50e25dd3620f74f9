"""Routes of rules, to be asked which of them a request may be meant for, however it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from ratelimit_middleware.request_texts import fold, has_dots, readings, squeezed
from ratelimit_middleware.rules.hosts import matches
from ratelimit_middleware.rules.index import Index
from ratelimit_middleware.rules.model import Route, Rule, RuleSet

__all__ = ["Entries", "Entry", "Placed", "Reading", "methods_of"]


class Entry(NamedTuple):
    """A route of a rule, with the rule's place among them."""

    order: int
    rule: Rule
    route: Route
    skips_preflight: bool


Reading: TypeAlias = tuple[dict[int, Entry], dict[int, Entry]]
"""What fits a path as it is spelled and in its plain spelling, by the rule's place."""

Placed: TypeAlias = tuple[Rule, Sequence[Route], bool]
"""A rule, routes of it, and whether they take only what all frameworks accept."""


class Entries:
    """The routes of some rules: those whose case counts, and the others.

    Args:
        ruleset: what the rules do not say.
        placed: the rules, in order.

    Raises:
        GrammarError: a route that was built by hand is a regular expression that cannot be used.
    """

    __slots__ = ("_indexes",)

    def __init__(self, ruleset: RuleSet, placed: Iterable[Placed]) -> None:
        indexes: dict[bool, Index[Entry]] = {}
        for order, (rule, routes, narrow) in enumerate(placed):
            case_sensitive = ruleset.case_sensitive if rule.case_sensitive is None else rule.case_sensitive
            index = indexes.setdefault(case_sensitive, Index(any_case=not case_sensitive))
            for route in routes:
                index.add(route.path, Entry(order, rule, route, ruleset.skips(rule)), narrow=narrow)
        self._indexes = list(indexes.values())

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._indexes)

    def readings(self, kind: str, method: str, path: str, host: str) -> list[Reading]:
        """What fits, for each way in which the path and the host may be read."""
        wanted = methods_of(kind, method)
        return [
            self._reading(spelled, plain, wanted, name)
            for spelled, plain in _spellings(path)
            for name in readings(host)
        ]

    def _reading(self, path: str, plain: str, wanted: frozenset[str], host: str) -> Reading:
        as_seen: dict[int, Entry] = {}
        folded: dict[int, Entry] = {}
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


def _choose(entries: Sequence[Entry], wanted: frozenset[str], host: str, chosen: dict[int, Entry]) -> None:
    """Add the entries that are for the request's method and host, by their rule's place.

    So a rule with several routes counts once.
    """
    for entry in entries:
        methods = entry.route.methods
        if (methods is None or methods & wanted) and matches(entry.rule.hosts, host):
            chosen[entry.order] = entry


def methods_of(kind: str, method: str) -> frozenset[str]:
    """The words in front of a route that stand for this request."""
    if kind == "websocket":
        return frozenset({"WS"})
    return frozenset({method, "GET"} if method == "HEAD" else {method}) - {"WS"}
