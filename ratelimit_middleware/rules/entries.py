"""Routes of rules, to be asked which of them a request may be meant for, however it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ratelimit_middleware.request_texts import fold, has_dots, readings, squeezed
from ratelimit_middleware.rules.hosts import matches
from ratelimit_middleware.rules.index import Index
from ratelimit_middleware.rules.model import Route, Rule, RuleSet

__all__ = ["Entries", "Entry", "Fitting", "Placed", "Reading", "chosen", "methods_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A route of a rule, with the rule's place among them; each is equal to itself alone."""

    order: int
    rule: Rule
    route: Route
    skips_preflight: bool


Fitting: TypeAlias = tuple[tuple[tuple[Entry, ...], tuple[Entry, ...]], ...]
"""What fits a path, whoever asks: for each way to read it, as it is spelled and in its plain spelling."""

Reading: TypeAlias = tuple[dict[int, Entry], dict[int, Entry]]
"""What of that is for a request, by the rule's place."""

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
        return chosen(self.fitting(path), kind, method, host)

    def fitting(self, path: str) -> Fitting:
        """What fits a path; there are few answers, however many paths."""
        if path.__class__ is str and "/." not in path:  # nearly all
            return (self._fitting(path, fold(path)),)
        return tuple([self._fitting(spelled, plain) for spelled, plain in _doubtful_spellings(path)])

    def _fitting(self, path: str, plain: str) -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
        as_seen: tuple[Entry, ...] = ()
        folded: tuple[Entry, ...] = ()
        for index in self._indexes:
            fitting, fitting_plain = index.find(path, plain)
            as_seen += fitting
            folded += fitting_plain
        return as_seen, folded


def chosen(fitting: Fitting, kind: str, method: str, host: str) -> list[Reading]:
    """What of that which fits a path is for a request, for each way in which its host may be read."""
    wanted = methods_of(kind, method)
    return [
        (_choose(as_seen, wanted, name), _choose(folded, wanted, name))
        for as_seen, folded in fitting
        for name in readings(host)
    ]


def _doubtful_spellings(path: str) -> Iterator[tuple[str, str]]:
    """What a path may mean, each time as it is spelled and in its plain spelling.

    Routers differ in it, as they do in who resolves dot segments.
    """
    for one in readings(path):
        plain = fold(one)
        if has_dots(one):
            yield one, squeezed(one)
            yield plain, plain
        else:
            yield one, plain


def _choose(entries: Sequence[Entry], wanted: frozenset[str], host: str) -> dict[int, Entry]:
    """The entries that are for the request's method and host, by their rule's place.

    So a rule with several routes counts once.
    """
    return {
        entry.order: entry
        for entry in entries
        if (entry.route.methods is None or entry.route.methods & wanted) and matches(entry.rule.hosts, host)
    }


def methods_of(kind: str, method: str) -> frozenset[str]:
    """The words in front of a route that stand for this request."""
    if kind == "websocket":
        return frozenset({"WS"})
    return frozenset({method, "GET"} if method == "HEAD" else {method}) - {"WS"}
