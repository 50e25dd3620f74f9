"""Which routes match all that another one matches: a tree of templates, asked with a template."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from ratelimit_middleware.rules.model import Route, Rule
from ratelimit_middleware.rules.route import REGEX, REST, fold, segments

__all__ = ["Cover", "Demand"]

_Shape: TypeAlias = "tuple[str, ...]"

_ANY_METHOD = ""
_PARAMETER = re.compile(r"\{[^{}:]+(?::(?P<converter>\w+))?\}")
_ANY_SEGMENT = "{str}"


class Demand(NamedTuple):
    """Some of the requests of a rule: all paths of a template, with one method (empty = any).

    Attributes:
        shape: of the template.
        method: the method.
        any_case: the paths in whatever case, too.
    """

    shape: _Shape
    method: str
    any_case: bool


class _Entry(NamedTuple):
    """A route of a rule: its methods, None = all, and the rule's place among the rules."""

    methods: frozenset[str] | None
    order: int


class _Node:
    """What may follow at one place of a template."""

    __slots__ = ("after", "ends", "rests")

    def __init__(self) -> None:
        self.after: dict[str, _Node] = {}
        self.ends: list[_Entry] = []
        self.rests: list[_Entry] = []


class Cover:
    """Rules of `limits`, to be asked which of them match whatever another one does.

    Args:
        rules: the rules.
        case_sensitive: whether `/Items` is another path than `/items`, for rules that do not say.
    """

    def __init__(self, rules: Iterable[Rule], *, case_sensitive: bool) -> None:
        self._rules = tuple(rules)
        self._case_sensitive = case_sensitive
        # By whether any case fits.
        self._roots = {False: _Node(), True: _Node()}
        for order, rule in enumerate(self._rules):
            any_case = self._any_case(rule)
            for route in rule.routes:
                for shape in _shapes(route, any_case=any_case):
                    _add(self._roots[any_case], shape, _Entry(_with_head(route.methods), order))

    def demands(self, rule: Rule) -> list[Demand]:
        """All that a rule matches, in parts; the folded spelling of a template matches too."""
        any_case = self._any_case(rule)
        return [
            Demand(shape, method, any_case)
            for route in rule.routes
            for shape in _shapes(route, any_case=any_case)
            for method in sorted(route.methods or {_ANY_METHOD})
        ]

    def wider(self, rule: Rule) -> list[Rule]:
        """The rules that match every request that `rule` matches, itself included if it is one of them."""
        met = [self._meeting(demand) for demand in self.demands(rule)]
        orders = set.intersection(*met) if met else set()
        return [other for other in self._at(orders) if _has_hosts(other.hosts, rule.hosts)]

    def meeting(self, demand: Demand, hosts: Sequence[str]) -> list[Rule]:
        """The rules that match all of a demand on these hosts."""
        return [rule for rule in self._at(self._meeting(demand)) if _has_hosts(rule.hosts, hosts)]

    def _at(self, orders: Iterable[int]) -> Iterator[Rule]:
        return (self._rules[order] for order in sorted(orders))

    def _meeting(self, demand: Demand) -> set[int]:
        return {
            entry.order
            for entry in self._find(demand)
            if entry.methods is None or demand.method in entry.methods
        }

    def _find(self, demand: Demand) -> list[_Entry]:
        """The routes that match all paths of a demand."""
        shape = demand.shape
        if demand.any_case:
            return _found(self._roots[True], shape) + _found(self._roots[False], tuple(map(_uncased, shape)))
        return _found(self._roots[False], shape) + _found(self._roots[True], tuple(map(_lowered, shape)))

    def _any_case(self, rule: Rule) -> bool:
        return not (self._case_sensitive if rule.case_sensitive is None else rule.case_sensitive)


def _found(root: _Node, shape: _Shape) -> list[_Entry]:
    """The routes that match all paths of a template."""
    nodes, found = [root], list(root.rests)
    for segment in shape:
        if segment == REST:
            return found
        nodes = [node.after[word] for node in nodes for word in _wider(segment) if word in node.after]
        for node in nodes:
            found += node.rests
    for node in nodes:
        found += node.ends
    return found


def _add(root: _Node, shape: _Shape, entry: _Entry) -> None:
    node = root
    for segment in shape:
        if segment == REST:
            node.rests.append(entry)
            return
        node = node.after.setdefault(segment, _Node())
    node.ends.append(entry)


def _shapes(route: Route, *, any_case: bool) -> set[_Shape]:
    """The template as it is spelled, and in its plain spelling."""
    if not route.path.startswith("/"):
        return {(f"{{{route.path}",)}  # no template: it covers itself, `/**` covers it
    plain = fold(route.path)
    return {_shape(path) for path in (route.path, plain.lower() if any_case else plain)}


def _lowered(segment: str) -> str:
    """What routes of any case are asked for a segment of one case."""
    return segment if segment.startswith("{") else segment.lower()


def _uncased(segment: str) -> str:
    """What routes of one case are asked for a segment in any case: a parameter alone takes all of it."""
    if segment.startswith(f"{{{REGEX}"):
        return f"{{{segment}"  # found nowhere
    return segment if segment.startswith("{") or segment.upper() == segment.lower() else _ANY_SEGMENT


def _shape(path: str) -> _Shape:
    """A template without the names of its parameters."""
    return tuple(_plain(segment) for segment in segments(path))


def _plain(segment: str) -> str:
    found = _PARAMETER.fullmatch(segment)
    if not found:
        return segment
    converter = found["converter"] or "str"
    return REST if converter == "path" else f"{{{converter}}}"


def _wider(segment: str) -> tuple[str, ...]:
    """What matches all that a segment of a template does."""
    known = "{" not in segment or re.fullmatch(r"\{\w+\}", segment)
    if segment and known and segment != _ANY_SEGMENT:
        return segment, _ANY_SEGMENT
    return (segment,)  # an empty segment is none; what else has a bracket is not known here


def _with_head(methods: frozenset[str] | None) -> frozenset[str] | None:
    return methods | {"HEAD"} if methods and "GET" in methods else methods


def _has_hosts(wide: Sequence[str], narrow: Sequence[str]) -> bool:
    """Whether all hosts of `narrow` are hosts of `wide`; none named = all."""
    if not wide:
        return True
    return bool(narrow) and all(
        any(host == other or (other[0] == "*" and host.endswith(other[1:])) for other in wide)
        for host in narrow
    )
