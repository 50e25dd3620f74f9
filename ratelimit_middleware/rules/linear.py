r"""The proof that Python's own engine, which backtracks, compares a pattern in linear time.

Sufficient, not necessary: wherever the engine has a choice (go round once more or leave a repetition,
which alternative), the next character leaves only one way open. So a way that must be taken back fails at
its first character. One repetition of a class may break this, if a short end that keeps to it follows:
`.*\.json` is tried once at every place and fails after a few characters.
(The condition is that of LL(1) grammars; cf. Brüggemann-Klein and Wood, "One-Unambiguous Regular
Languages", 1998.)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import inf

from ratelimit_middleware.rules.char_sets import CharSet, overlap, union
from ratelimit_middleware.rules.pattern import Alternatives, Chars, Edge, Pattern, Repeat, Sequence

__all__ = ["first", "is_linear"]

_LONGEST_END = 64


def is_linear(pattern: Pattern) -> bool:
    """Whether the proof succeeds."""
    open_choices = list(_open_choices(pattern, ()))
    if not open_choices:
        return True
    parts = pattern.parts if isinstance(pattern, Sequence) else (pattern,)
    (choice, *others) = open_choices
    for place, part in enumerate(parts):
        if part is choice:
            short = _width(Sequence(parts[place + 1 :])) <= _LONGEST_END
            return not others and short and isinstance(part, Repeat) and isinstance(part.part, Chars)
    return False


def _open_choices(pattern: Pattern, follow: CharSet) -> Iterator[Repeat | Alternatives]:
    """The parts where the next character leaves two ways open; `follow` is what may come after."""
    if isinstance(pattern, Sequence):
        for place, part in enumerate(pattern.parts):
            yield from _open_choices(part, _after(pattern.parts[place + 1 :], follow))
    elif isinstance(pattern, Alternatives):
        begins = [_after((part,), follow) for part in pattern.parts]
        if any(overlap(one, other) for one, other in combinations(begins, 2)):
            yield pattern
        for part in pattern.parts:
            yield from _open_choices(part, follow)
    elif isinstance(pattern, Repeat):
        begin = first(pattern.part)
        again = pattern.high is None or pattern.high > 1
        if _may_be_empty(pattern.part) or (pattern.high != pattern.low and overlap(begin, follow)):
            yield pattern
        yield from _open_choices(pattern.part, union((begin, follow)) if again else follow)


def _after(parts: tuple[Pattern, ...], follow: CharSet) -> CharSet:
    """The characters that may come next where these parts follow, and `follow` behind them."""
    rest = Sequence(parts)
    return union((first(rest), follow)) if _may_be_empty(rest) else first(rest)


def first(pattern: Pattern) -> CharSet:
    """The characters with which a text may begin; more than these for no text."""
    if isinstance(pattern, Chars):
        return pattern.allowed
    if isinstance(pattern, Sequence):
        begins: list[CharSet] = []
        for part in pattern.parts:
            begins.append(first(part))
            if not _may_be_empty(part):
                break
        return union(begins)
    if isinstance(pattern, Alternatives):
        return union(first(part) for part in pattern.parts)
    return first(pattern.part) if isinstance(pattern, Repeat) and pattern.high != 0 else ()


def _may_be_empty(pattern: Pattern) -> bool:
    if isinstance(pattern, Sequence):
        return all(_may_be_empty(part) for part in pattern.parts)
    if isinstance(pattern, Alternatives):
        return any(_may_be_empty(part) for part in pattern.parts)
    if isinstance(pattern, Repeat):
        return pattern.low == 0 or _may_be_empty(pattern.part)
    return isinstance(pattern, Edge)


def _width(pattern: Pattern) -> float:
    """The length of the longest text that fits."""
    if isinstance(pattern, Sequence):
        return sum(_width(part) for part in pattern.parts)
    if isinstance(pattern, Alternatives):
        return max(_width(part) for part in pattern.parts)
    if isinstance(pattern, Repeat):
        width = _width(pattern.part)
        return width * (inf if pattern.high is None else pattern.high) if width else 0
    return 1 if isinstance(pattern, Chars) else 0
