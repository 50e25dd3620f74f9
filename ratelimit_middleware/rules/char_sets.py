"""Sets of characters as sorted ranges of code points, both ends included."""

from __future__ import annotations

import string
from collections.abc import Iterable
from functools import cache
from typing import TypeAlias

__all__ = ["CharSet", "bracketed", "char_set", "complement", "lower_case", "lowered", "overlap", "union"]

CharSet: TypeAlias = tuple[tuple[int, int], ...]

_LAST = 0x10FFFF
_LAST_CASED = 0x1FFFF  # letters end below; what follows are ideographs


def char_set(*ranges: tuple[int, int]) -> CharSet:
    """The set of these ranges, which may overlap and stand in any order."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def union(sets: Iterable[CharSet]) -> CharSet:
    """All characters of all sets."""
    return char_set(*(part for one in sets for part in one))


def complement(one: CharSet) -> CharSet:
    """All other characters."""
    lows = [0, *(high + 1 for _, high in one)]
    highs = [*(low - 1 for low, _ in one), _LAST]
    return tuple((low, high) for low, high in zip(lows, highs, strict=True) if low <= high)


def overlap(one: CharSet, other: CharSet) -> bool:
    """Whether the sets have a character in common."""
    return any(low <= top and bottom <= high for low, high in one for bottom, top in other)


def lowered(one: CharSet) -> CharSet:
    """The set with the lower case of its characters."""
    found = (lower for code, lower in _pairs() if any(low <= code <= high for low, high in one))
    return char_set(*one, *((lower, lower) for lower in found))


@cache
def _pairs() -> tuple[tuple[int, int], ...]:
    """All characters that have a lower case, and this."""
    pairs = ((code, ord(lower_case(chr(code)))) for code in range(_LAST_CASED + 1))
    return tuple((code, lower) for code, lower in pairs if code != lower)


def lower_case(text: str) -> str:
    """As `str.lower`, character by character: the one that would become two becomes the first of them."""
    return text.replace("\u0130", "i").lower()


def bracketed(one: CharSet, *, negated: bool) -> str:
    """The set as a regular expression that every engine reads alike."""
    ranges = "".join(_char(low) if low == high else f"{_char(low)}-{_char(high)}" for low, high in one)
    return f"[{'^' if negated else ''}{ranges}]"


def _char(code: int) -> str:
    char = chr(code)
    if char in string.punctuation:
        return f"\\{char}"
    return char if code >= 0x20 and code != 0x7F else f"\\x{code:02x}"
