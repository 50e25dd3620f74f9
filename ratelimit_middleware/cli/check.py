"""`ratelimits check`: the mistakes of rule files, and what is odd about them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.lint import lint
from ratelimit_middleware.rules.load import load_rules

__all__ = ["check"]


def check(files: Sequence[str], *, today: date, workers: int = 1, strict: bool = False) -> tuple[str, int]:
    """Load each file and lint it.

    Args:
        files: their paths.
        today: the date by which shadow rules are old.
        workers: how many processes will share the load.
        strict: whether a warning counts as a mistake.

    Returns:
        What to print and the exit code: 1 if any file holds a mistake, else 0.
    """
    reports = [_report(file, today, workers, strict=strict) for file in files]
    return "".join(f"{text}\n" for text, _ in reports), int(not all(sound for _, sound in reports))


def _report(file: str, today: date, workers: int, *, strict: bool) -> tuple[str, bool]:
    try:
        rules = load_rules(file)
    except RuleFileError as error:
        return str(error), False
    warnings = lint(rules, today=today, workers=workers)
    count = f", {_counted(len(warnings), 'warning')}" if warnings else ""
    head = f"{file}: ok, {_counted(len(rules.rules), 'rule')}{count}"
    return "\n".join([head, *map(str, warnings)]), not (strict and warnings)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
