"""Rules as plain data, with the place of each part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from ratelimit_middleware.errors import RuleFileError, RuleProblem, on_one_line

__all__ = [
    "BROKEN",
    "MAX_DEPTH",
    "MAX_VALUES",
    "MISSING",
    "TOO_DEEP",
    "TOO_MANY",
    "UNREADABLE",
    "Document",
    "Finding",
    "Mark",
    "Path",
    "Position",
    "at_position",
    "failure",
    "in_order",
]

MAX_DEPTH = 20
MAX_VALUES = 100_000
TOO_MANY = f"more than {MAX_VALUES} keys and values"
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
MISSING = "a value is missing here"

Path: TypeAlias = tuple[str | int, ...]
"""The way to a part: keys of maps and indexes of lists."""

_EXCERPT_WIDTH = 100


class _Broken:
    """The type of `BROKEN`."""

    def __repr__(self) -> str:
        return "(unreadable)"


BROKEN = _Broken()
"""Stands for a value that was refused when it was read, so that nothing more is said about it."""

UNREADABLE = "?"
"""Stands for a key that was refused when it was read; its value is `BROKEN`."""


class Position(NamedTuple):
    """Line and column, from 0; a dict has the number of the part in the place of the line."""

    line: int
    column: int


class Mark(NamedTuple):
    """Where a part stands: its key (or itself, in a list) and its value."""

    key: Position
    value: Position


class Finding(NamedTuple):
    """A problem and what it is sorted by."""

    position: Position
    problem: RuleProblem


class Document(NamedTuple):
    """What was read.

    Attributes:
        name: the file as it was named, or what stands for it.
        data: dicts, lists and scalars; never None.
        marks: where each part stands, by its path.
        lines: the lines of the file, `hidden`; None for a dict.
    """

    name: str
    data: dict[str, Any]
    marks: Mapping[Path, Mark]
    lines: list[str] | None

    def place(self, path: Path) -> str:
        """Where a part begins, as messages name it."""
        return self.find(path, "", at_key=True).problem.place

    def where(self, path: Path) -> str:
        """The place of a key, for another message: its line, or the path in a dict."""
        if self.lines is None or path not in self.marks:
            return f"at `{on_one_line(_dotted(path))}`"
        return f"in line {self.marks[path].key.line + 1}"

    def find(self, path: Path, message: str, *, at_key: bool = False) -> Finding:
        """A problem with a part; steps of the path that the document does not have are left out."""
        real: Path = ()
        for step in path:
            if (*real, step) in self.marks:
                real = (*real, step)
        mark = self.marks.get(real, Mark(Position(0, 0), Position(0, 0)))
        position = mark.key if at_key else mark.value
        if self.lines is None:
            return Finding(position, RuleProblem(_dotted(real) or self.name, message))
        return at_position(self.name, self.lines, position, message)


def at_position(name: str, lines: list[str], position: Position, message: str) -> Finding:
    """A problem at a line and column of a file."""
    line, column = position
    text = lines[line] if line < len(lines) else ""
    place = f"{name}:{line + 1}:{column + 1}"
    return Finding(position, RuleProblem(place, message, _excerpt(text, column)))


def failure(findings: list[Finding]) -> RuleFileError:
    """All that was found in a file as one error, in order of place."""
    return RuleFileError(in_order(findings))


def in_order(findings: list[Finding]) -> list[RuleProblem]:
    """The problems of a file in order of place."""
    return [finding.problem for finding in sorted(findings, key=lambda finding: finding.position)]


def _excerpt(line: str, column: int) -> str:
    """The line (a window of it, when long) and a caret; without control characters."""
    start = max(0, column - _EXCERPT_WIDTH // 2) if len(line) > _EXCERPT_WIDTH else 0
    window = line[start : start + _EXCERPT_WIDTH].rstrip()
    if not window:
        return ""
    window = "".join(char if char.isprintable() else " " for char in window)
    return f"    {window}\n    {' ' * (column - start)}^"


def _dotted(path: Path) -> str:
    """`limits./items.limit[1]`."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(steps).removeprefix(".")
