"""What the rule file says to lint: since when a rule watches, and which warnings are not wanted.

Raises:
    GrammarError: from every function here, when a value is not what its key takes.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from ratelimit_middleware.rules.lint.warning import CODES
from ratelimit_middleware.rules.model import Ignored
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.values import as_list, plain, text
from ratelimit_middleware.rules.words import GrammarError, shown, unknown

__all__ = ["LintSpec", "Since", "read_ignored", "read_since"]

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def read_since(value: Any) -> date:
    """A day."""
    if isinstance(value, str) and _DATE.fullmatch(value):
        with suppress(ValueError):  # there is no 31st of February
            return date.fromisoformat(value)
    raise GrammarError(f"{shown(value)} is not a date: write year, month and day, such as `2026-01-31`")


def read_ignored(value: Any) -> Ignored:
    """A warning that is not wanted: its code, and the rule's name if it is about one rule only."""
    code, _, rule = (value if isinstance(value, str) else shown(value).strip("`")).strip().partition(" ")
    if code not in CODES:
        raise GrammarError(f"{unknown('code', code, CODES)}; `RL101 NAME` is for the rule of this name only")
    return Ignored(code, rule.strip())


Since: TypeAlias = Annotated[
    date,
    plain(read_since, text(_DATE.pattern, "The day on which a shadow rule began to watch.", "2026-01-31")),
]

_CODE = text(r"RL[0-9]{3}(?:\s.*)?", "A code, and a rule's name if it is for one only.", "RL101", "RL301 api")


class LintSpec(Spec):
    """Which warnings are not given."""

    ignore: Annotated[list[Annotated[Ignored, plain(read_ignored, _CODE)]], as_list] = Field(
        default_factory=list
    )
