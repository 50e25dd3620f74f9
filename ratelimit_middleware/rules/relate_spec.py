"""What the rule file says about relations: `relate: GET /stock/{sku}`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol

from ratelimit_middleware.algorithms.related import Related
from ratelimit_middleware.rules.document import Path
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.model import Route
from ratelimit_middleware.rules.route import parse_route
from ratelimit_middleware.rules.words import GrammarError, shown

__all__ = ["check_relate", "related_limits", "related_routes"]

_OF_OWN_REQUESTS = {
    "cost": "each request of the other route counts as one",
    "charge": "its own requests take nothing, and those of the other route count whatever their answer",
    "concurrency": "requests in progress are those of the rule itself: write it into a rule of its own",
    "tiers": "the requests that count are of another route: write a rule of its own for each number",
    "overrides": "the requests that count are of another route: write a rule of its own for each number",
}
_OTHER_VALUES = ("route", "path", "method")


class _Relating(Protocol):
    """A rule of the file that may have `relate`."""

    @property
    def relate(self) -> list[str]:
        """The routes."""

    @property
    def limit(self) -> list[Any]:
        """The limits."""

    @property
    def model_fields_set(self) -> set[str]:
        """The keys that stand in the file."""


def check_relate(spec: _Relating) -> None:
    """No key that is about the rule's own requests stands beside `relate`.

    Raises:
        GrammarError: one does.
    """
    if spec.relate and not spec.limit:
        raise GrammarError("`relate` needs a limit that the other route uses up: add `limit: …`", "relate")
    for key, why in _OF_OWN_REQUESTS.items():
        if spec.relate and key in spec.model_fields_set:
            raise GrammarError(f"`{key}` does not go with `relate`: {why}", key)


def related_routes(
    spec: _Relating, own: Iterable[Route], refuse: Callable[[Path, str], None]
) -> tuple[Route, ...]:
    """The routes that use the limits of a rule up.

    Args:
        spec: what the file says.
        own: the routes of the rule.
        refuse: is told a place below the rule and what is wrong there.
    """
    patterns = {route.pattern for route in own}
    routes: dict[str, Route] = {}
    for number, text in enumerate(spec.relate):
        route = parse_route(text)
        if route.pattern in patterns:
            refuse(
                ("relate", number),
                f"{shown(text)} is a route of the rule itself, whose requests would be counted and never"
                " refused: leave `relate` out",
            )
        routes[route.pattern] = route
    return tuple(routes.values())


def related_limits(limits: Iterable[Limit], refuse: Callable[[Path, str], None]) -> tuple[Limit, ...]:
    """The limits of a rule, used up by requests of other routes.

    Args:
        limits: as they would be without `relate`.
        refuse: is told a place below the rule and what is wrong there.
    """
    found = tuple(limits)
    for limit in found:
        kinds: list[Any] = [part.kind for part in limit.key if part.kind in _OTHER_VALUES]
        if kinds:
            refuse(
                ("relate",),
                f"the key of {shown(limit.policy.text)} has the part `{kinds[0]}`, which is never the same"
                " for both routes: leave it out",
            )
        if limit.choose:
            refuse(("relate",), "`relate` needs a limit with numbers, such as `100/second`")
    return tuple(replace(limit, algorithm=Related(limit.algorithm)) for limit in found)
