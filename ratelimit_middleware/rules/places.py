"""Where rules stand, and what messages say of that."""

from __future__ import annotations

from collections.abc import Sequence

from ratelimit_middleware.rules.document import Path
from ratelimit_middleware.rules.model import Route
from ratelimit_middleware.rules.part import Part
from ratelimit_middleware.rules.route import REGEX, parse_route
from ratelimit_middleware.rules.schema import FileSpec, RuleSpec
from ratelimit_middleware.rules.words import GrammarError, shown

__all__ = ["is_route", "no_route", "place_of", "taken"]


def is_route(path: Path) -> bool:
    """Whether a rule stands below a route, or below a name and lists its routes."""
    return path[0] == "limits" and any(mark in str(path[1]) for mark in ("/", REGEX))


def no_route(text: str) -> str:
    """What is wrong with a key of `limits` that names no route, if that can be told."""
    if text in RuleSpec.model_fields:
        return f"`{text}` is no route: indent it below the route that it belongs to"
    if text in FileSpec.model_fields:
        return f"`{text}` is no route: let it begin in the first column"
    try:
        parse_route(text)
    except GrammarError as error:
        return f"{error}; or give the rule a list of `routes`"
    return ""


def place_of(first: tuple[Part, Path], part: Part) -> str:
    """Where a rule stands, as seen from a part."""
    other, path = first
    own = (*path, "name") if (*path, "name") in other.document.marks else path
    where = other.document.where(own)
    return where if other is part else f"{where} of {other.document.name}"


def taken(name: str, spec: RuleSpec, routes: Sequence[Route], first: str) -> str:
    """That a name is another rule's, which stands at `first`."""
    if spec.name:
        return f"the name {shown(name)} is taken by the rule {first}: each needs its own"
    if routes:
        return (
            f"the route {shown(name)} stands {first} too, perhaps in another spelling: put its limits in one"
            " rule"
        )
    return f"the name {shown(name)} belongs to this rule: rename the one {first}"
