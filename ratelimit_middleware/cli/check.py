"""`ratelimits check`: the mistakes of rule files."""

from __future__ import annotations

from collections.abc import Sequence

from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.model import RuleSet

__all__ = ["check"]


def check(files: Sequence[str]) -> tuple[str, int]:
    """Load each file.

    Returns:
        What to print and the exit code: 1 if any file holds a mistake, else 0.
    """
    reports = [_report(file) for file in files]
    return "".join(f"{text}\n" for text, _ in reports), int(not all(sound for _, sound in reports))


def _report(file: str) -> tuple[str, bool]:
    try:
        rules = load_rules(file)
    except RuleFileError as error:
        return str(error), False
    return f"{file}: ok, {_counted(rules)}", True


def _counted(rules: RuleSet) -> str:
    number = len(rules.limits) + len(rules.always) + (rules.default is not None)
    return f"{number} rule{'' if number == 1 else 's'}"
