"""`ratelimits routes`: which rules hold for each route of an app."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from ratelimit_middleware.coverage import Coverage, RouteCoverage, coverage
from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.frameworks.routes import UnreachableError

__all__ = ["routes"]

_HEAD = ("route", "methods", "rules")


def routes(place: str, file: str, *, as_json: bool = False, fail_unlimited: bool = False) -> tuple[str, int]:
    """Import the app and hold the rules against its routes.

    Args:
        place: `MODULE:NAME`, or `MODULE:NAME()` for a function that makes the app.
        file: the rule file.
        as_json: for programs.
        fail_unlimited: exit with 1 if a route may go without any limit though no rule says so.

    Returns:
        What to print and the exit code: 1 also if the file holds a mistake, 2 if there is no such app.
    """
    try:
        app = _imported(place)
    except Exception as error:  # noqa: BLE001 - whatever the app does when it is imported
        return f"{place} cannot be imported: {type(error).__name__}: {error}\n", 2
    try:
        found = coverage(app, file)
    except RuleFileError as error:
        return f"{error}\n", 1
    except UnreachableError as error:
        return f"{place}: {error}\n", 2
    text = _json(found) if as_json else "\n".join(_lines(found)) + "\n"
    return text, int(fail_unlimited and bool(found.unlimited))


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.removesuffix("()").split("."):
        found = getattr(found, part)
    return found() if name.endswith("()") else found


def _lines(found: Coverage) -> Iterator[str]:
    rows = [_HEAD, *_rows(found.routes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD) - 1)]
    for *cells, last in rows:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)), last])
    free = list(_rows(found.unlimited))
    if free:
        yield "\nmay go without any limit:"
        yield from (f"  {methods} {route}" for route, methods, _ in free)
    if found.idle_rules:
        yield "\nrules that no route can match:"
        yield from (f"  {name}" for name in found.idle_rules)
    if found.idle_relations:
        yield "\nrules that never limit, since no route can match their `relate`:"
        yield from (f"  {name}" for name in found.idle_relations)


def _rows(covered: Sequence[RouteCoverage]) -> Iterator[tuple[str, str, str]]:
    """A row for the methods of a route that fare alike."""
    for (route, rules), group in groupby(covered, key=lambda one: (one.route, _rules(one))):
        where = f"{route.host}{route.path}"
        yield where, ",".join(one.method for one in group), rules


def _rules(one: RouteCoverage) -> str:
    mark = " (unlimited)" if one.exempt else ""
    some = [f"{name} (some)" for name in one.some]
    return (", ".join([*one.rules, *some]) or "-") + mark


def _json(found: Coverage) -> str:
    report = {
        "routes": [
            {
                "path": one.route.path,
                "host": one.route.host,
                "method": one.method,
                "rules": one.rules,
                "some": one.some,
                "exempt": one.exempt,
                "limited": one.limited,
            }
            for one in found.routes
        ],
        "idle_rules": found.idle_rules,
        "idle_relations": found.idle_relations,
    }
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"
