"""What came out: sections of figures and goals, as text, as Markdown and as bars."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Goal:
    """A number to reach.

    Attributes:
        what: in words.
        value: what was reached.
        bound: what was to be reached.
        at_least: whether `bound` is the least or the most.
        unit: of both; empty for ratios.
    """

    what: str
    value: float
    bound: float
    at_least: bool = False
    unit: str = "x"

    @property
    def is_met(self) -> bool:
        """Whether the number is reached."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound


@dataclass(frozen=True, slots=True)
class Section:
    """The figures of one benchmark: a row for each subject.

    Attributes:
        name: one word.
        title: heading.
        columns: their names, with units.
        rows: figures by subject and column; None where there is none.
        base: the subject whose figures are 1; empty = no ratios.
        goals: numbers to reach.
        note: what to know, below the table.
        drawn: the column that is drawn as bars; empty = none.
        lacks: what would have to be installed for all of it; empty = nothing.
        seconds: how long it took.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[float | None, ...]]
    base: str = ""
    goals: tuple[Goal, ...] = ()
    note: str = ""
    drawn: str = ""
    lacks: str = ""
    seconds: float = field(default=0.0, compare=False)


def number(value: float) -> str:
    """Three significant digits, thousands separated."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        digits = max(0, len(str(int(abs(value)))) - 3)
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"


def table(section: Section) -> list[list[str]]:
    """The cells of a section, the heading first."""
    base = section.rows.get(section.base)
    lines = [["", *section.columns]]
    for subject, values in section.rows.items():
        cells = [subject]
        for place, value in enumerate(values):
            reference = base[place] if base else None
            ratio = f" ({number(value / reference)}x)" if value is not None and reference else ""
            cells.append("" if value is None else number(value) + ratio)
        lines.append(cells)
    return lines


def goals_table(sections: Iterable[Section]) -> list[list[str]]:
    """All goals: met, missed, or not tried."""
    lines = [["goal", "benchmark", "reached", "wanted", ""]]
    for section in sections:
        for goal in section.goals:
            word = "at least" if goal.at_least else "at most"
            unit = "x" if goal.unit == "x" else f" {goal.unit}"
            met = "met" if goal.is_met else "MISSED"
            lines.append(
                [
                    goal.what,
                    section.name,
                    number(goal.value) + unit,
                    f"{word} {number(goal.bound)}{unit}",
                    met,
                ]
            )
        if section.lacks:
            lines.append(["others", section.name, "", "", f"not run: no {section.lacks}"])
    return lines


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Cells as a Markdown table, numbers to the right, padded so that it reads as text too."""
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    rule = ["-" * max(widths[0], 3), *("-" * max(width - 1, 2) + ":" for width in widths[1:])]
    head, *body = lines
    return "\n".join(_line(cells, widths) for cells in (head, rule, *body)) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = cells
    padded = [
        first.ljust(widths[0]),
        *(text.rjust(width) for text, width in zip(others, widths[1:], strict=True)),
    ]
    return f"| {' | '.join(padded)} |"


def without(*programs: str) -> str:
    """Those of them that are not installed, for `Section.lacks`."""
    return " and ".join(program for program in programs if not shutil.which(program))


def remarks(section: Section) -> str:
    """What to know about the table: what is missing in it first."""
    missing = f"Not complete: {section.lacks} is not installed." if section.lacks else ""
    return "\n\n".join(filter(None, (missing, section.note)))


def page(sections: Sequence[Section], about: str) -> str:
    """The results as a page of the docs."""
    goals = [goal for section in sections for goal in section.goals]
    missed = sum(not goal.is_met for goal in goals)
    met = f"{missed} of {len(goals)} goals are missed.\n"
    parts = ["# Benchmarks\n", about, "## Goals\n", met, markdown(goals_table(sections))]
    for section in sections:
        parts += [f"## {section.title}\n", f"`./scripts/bench {section.name}`\n", markdown(table(section))]
        if remarks(section):
            parts.append(f"{remarks(section)}\n")
        if section.drawn:
            parts.append(f"![{section.title}](images/bench_{section.name}.svg)\n")
    return "\n".join(parts)
