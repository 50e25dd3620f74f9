r"""Regular expressions of routes, read into trees.

Python's own parser reads them. What is kept of the language means the same to every engine: characters,
classes (`\d`, `\w`, `\s` as in ASCII), groups, alternatives, repetitions, the edges of the path. Greedy or
lazy, capturing or not makes no difference where only the whole path is compared.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

from ratelimit_middleware.rules.char_sets import (
    CharSet,
    char_set,
    complement,
    lowered,
    union,
)
from ratelimit_middleware.rules.words import GrammarError

__all__ = ["Alternatives", "Chars", "Edge", "Pattern", "Repeat", "Sequence", "in_lower_case", "parse_pattern"]

_MOST_GROUPS = 50
_MOST_REPEATS = 1000  # RE2 takes no more
_CATEGORIES: dict[str, CharSet] = {
    "CATEGORY_DIGIT": char_set((48, 57)),
    "CATEGORY_WORD": char_set((48, 57), (65, 90), (95, 95), (97, 122)),
    "CATEGORY_SPACE": char_set((9, 13), (32, 32)),
}
_EDGES = {"AT_BEGINNING": False, "AT_BEGINNING_STRING": False, "AT_END": True, "AT_END_STRING": True}
_NOT_LINEAR = {
    "GROUPREF": "a back-reference",
    "GROUPREF_EXISTS": "a back-reference",
    "ASSERT": "a look-around",
    "ASSERT_NOT": "a look-around",
    "FAILURE": "a look-around",
    "AT": "a word boundary",
}


@dataclass(frozen=True, slots=True)
class Chars:
    """One of the characters listed, or with `negated` any other."""

    listed: CharSet
    negated: bool = False

    def __post_init__(self) -> None:
        """Refuse what is no character."""
        if any(0xD800 <= code <= 0xDFFF for ends in self.listed for code in ends):
            raise GrammarError("half of a surrogate pair is not a character")

    @property
    def allowed(self) -> CharSet:
        """The characters that fit."""
        return complement(self.listed) if self.negated else self.listed


@dataclass(frozen=True, slots=True)
class Edge:
    """The beginning of the text, or its end."""

    is_end: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after the other."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """One of the parts."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part, `low` to `high` times; None = any number."""

    part: Pattern
    low: int
    high: int | None


Pattern: TypeAlias = Chars | Edge | Sequence | Alternatives | Repeat


def parse_pattern(text: str) -> Pattern:
    """Read a regular expression.

    Raises:
        GrammarError: Python cannot read it, or it holds what engines of linear time cannot do.
    """
    if text.count("(") > _MOST_GROUPS:
        raise GrammarError(f"more than {_MOST_GROUPS} groups are too many")
    # There is no public way to the tree. What a later Python may put into it is refused below.
    parser = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = parser.parse(text)
    except (re.error, OverflowError, Warning) as error:
        raise GrammarError(str(error)) from None
    if tree.state.flags != re.UNICODE:
        raise GrammarError("flags such as `(?i)` are not supported: write `case_sensitive: false`")
    pattern = _sequence(tree)
    if _repeats(pattern) > _MOST_REPEATS:
        raise GrammarError(f"counted repetitions go to {_MOST_REPEATS}, those inside others multiplied")
    return pattern


def in_lower_case(pattern: Pattern) -> Pattern:
    """What fits the lower-case spelling of a text that fits in any case."""
    if isinstance(pattern, Chars):
        return Chars(lowered(pattern.listed), pattern.negated)
    if isinstance(pattern, Repeat):
        return Repeat(in_lower_case(pattern.part), pattern.low, pattern.high)
    if isinstance(pattern, Edge):
        return pattern
    return type(pattern)(tuple(in_lower_case(part) for part in pattern.parts))


def _sequence(tree: Iterable[tuple[Any, Any]]) -> Pattern:
    parts = tuple(_node(str(kind), value) for kind, value in tree)
    return parts[0] if len(parts) == 1 else Sequence(parts)


def _node(kind: str, value: Any) -> Pattern:
    if kind in ("LITERAL", "NOT_LITERAL"):
        return Chars(((value, value),), negated=kind == "NOT_LITERAL")
    if kind == "ANY":
        return Chars((), negated=True)
    if kind == "IN":
        items = [(str(item), detail) for item, detail in value]
        return Chars(union(_listed(*item) for item in items), negated=items[0][0] == "NEGATE")
    if kind == "AT" and str(value) in _EDGES:
        return Edge(_EDGES[str(value)])
    if kind == "BRANCH":
        return Alternatives(tuple(_sequence(part) for part in value[1]))
    if kind in ("MAX_REPEAT", "MIN_REPEAT"):
        low, high, part = value
        return Repeat(_sequence(part), low, None if str(high) == "MAXREPEAT" else high)
    if kind == "SUBPATTERN" and not any(value[1:3]):
        return _sequence(value[3])
    if kind == "SUBPATTERN":
        raise GrammarError("flags such as `(?i:…)` are not supported: write `case_sensitive: false`")
    what = _NOT_LINEAR.get(kind, f"`{kind.lower()}`")
    raise GrammarError(f"{what} is not supported: an engine of linear time cannot do it")


def _listed(kind: str, value: Any) -> CharSet:
    """An item between brackets."""
    if kind == "LITERAL":
        return ((value, value),)
    if kind == "RANGE":
        return (value,)
    if kind == "CATEGORY":
        name = str(value)
        known = _CATEGORIES[name.replace("_NOT", "")]
        return complement(known) if "_NOT" in name else known
    return ()  # NEGATE


def _repeats(pattern: Pattern) -> int:
    """How often the innermost part is repeated by counts at most."""
    if isinstance(pattern, Repeat):
        return max(pattern.high or pattern.low, 1) * _repeats(pattern.part)
    if isinstance(pattern, (Sequence, Alternatives)):
        return max((_repeats(part) for part in pattern.parts), default=1)
    return 1
