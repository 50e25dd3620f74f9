"""What the rule file says about entrances: `chain: POST /checkout`, or a name that the app gives.

Raises:
    GrammarError: from every function here, when a value is not what its key takes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from ratelimit_middleware.entrances import road_of
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.entries import Entries
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.model import Route, Rule, RuleSet
from ratelimit_middleware.rules.route import REGEX, parse_route
from ratelimit_middleware.rules.values import Json, text
from ratelimit_middleware.rules.words import GrammarError, shown

__all__ = ["ENTRANCE", "Chain", "chained", "check_chain", "read_entrance"]

_Limit = TypeVar("_Limit", bound=Limit)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ENTRANCE: Json = text(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}|(?:[A-Z-]+(?:\s*,\s*[A-Z-]+)*\s+)?[/~].*",
    "What the request must be reached from: a route, or a name that the app gives.",
    "POST /checkout",
    "nightly-report",
)


@dataclass(frozen=True, slots=True)
class Chain:
    """Whether a request was reached from one of some entrances.

    Attributes:
        routes: of requests further out.
        names: that the app gives.
        any_case: paths that differ in case only are one.
    """

    routes: tuple[Route, ...]
    names: frozenset[str]
    any_case: bool = False
    _entries: Entries = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the routes ready to be asked."""
        rule = Rule("chain", case_sensitive=not self.any_case)
        entries = Entries(RuleSet(), [(rule, self.routes, False)] if self.routes else [])
        object.__setattr__(self, "_entries", entries)

    def __call__(self, view: RequestView) -> bool:
        """Any of those further out will do, in whatever way it may be read."""
        return any(
            one in self.names if isinstance(one, str) else self._fits(one) for one in road_of(view.raw)
        )

    def _fits(self, view: RequestView) -> bool:
        readings = self._entries.readings(view.kind, view.method, view.path, "")
        return any(as_seen or folded for as_seen, folded in readings)


class _Chaining(Protocol):
    """A rule of the file that may have `chain`."""

    @property
    def chain(self) -> list[str]:
        """Its entrances."""

    @property
    def relate(self) -> list[str]:
        """The routes that use it up."""


def read_entrance(value: Any) -> str:
    """A route, or a name."""
    if not isinstance(value, str) or not value.strip():
        raise GrammarError(f"{shown(value)} is no entrance: write a route, `POST /checkout`, or a name")
    found = value.strip()
    if not _NAME.fullmatch(found):
        parse_route(found)
    return found


def check_chain(spec: _Chaining) -> None:
    """Own requests by their entrance, or those of another route: not both.

    Raises:
        GrammarError: the rule has both.
    """
    if spec.chain and spec.relate:
        raise GrammarError(
            "`chain` is about the requests of the rule, `relate` about those of another: write two rules",
            "chain",
        )


def chained(limits: tuple[_Limit, ...], entrances: list[str], *, any_case: bool) -> tuple[_Limit, ...]:
    """The limits of a rule, for requests that are reached from its entrances.

    Args:
        limits: as they would be without `chain`.
        entrances: what the file says.
        any_case: paths that differ in case only are one.
    """
    routes = tuple(parse_route(one) for one in entrances if "/" in one or REGEX in one)
    names = frozenset(one for one in entrances if _NAME.fullmatch(one))
    chain = Chain(routes, names, any_case)
    return tuple(replace(limit, chain=chain) for limit in limits)
