"""Which rules of other routes a request uses up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ratelimit_middleware.rules.entries import Entries, Reading
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.model import RuleSet

__all__ = ["NOTHING", "Relations", "Used"]


class Used(NamedTuple):
    """What a request means for rules that are used up by others.

    Attributes:
        charges: what counts it, each with the route that matched.
        excused: ids of the limits that it is not held by, since it uses them up.
    """

    charges: tuple[tuple[Limit, str], ...]
    excused: frozenset[str]


NOTHING = Used((), frozenset())


class Relations:
    """The rules of a set that have `relate`.

    Args:
        ruleset: the rules.
    """

    __slots__ = ("_narrow", "_rules", "_wide")

    def __init__(self, ruleset: RuleSet) -> None:
        self._rules = [rule for rule in ruleset.rules if rule.relate]
        self._wide = Entries(ruleset, [(rule, rule.relate, False) for rule in self._rules])
        self._narrow = Entries(ruleset, [(rule, rule.relate, True) for rule in self._rules])

    def used(self, kind: str, method: str, path: str, host: str, *, is_preflight: bool) -> Used:
        """A rule is used up in whatever way the request may be read; it excuses only if all agree.

        Else a request that is served as one of the rule's own could be spelled like one of the others.
        """
        entries = {
            order: entry
            for reading in self._wide.readings(kind, method, path, host)
            for part in reading
            for order, entry in part.items()
            if not (is_preflight and entry.skips_preflight)
        }
        agreed = _agreed(self._narrow.readings(kind, method, path, host)) & entries.keys()
        charges = {
            limit.rule_id: (limit, entries[order].route.pattern)
            for order in sorted(entries)
            for limit in self._rules[order].charges
        }
        excused = {limit.rule_id for order in agreed for limit in self._rules[order].limits}
        return Used(tuple(charges.values()), frozenset(excused))


def _agreed(readings: Iterable[Reading]) -> set[int]:
    """The places of the rules that fit in every way of reading."""
    return set.intersection(*(as_seen.keys() & folded.keys() for as_seen, folded in readings))
