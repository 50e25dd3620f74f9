"""The engines that compare a path with a regular expression, all in linear time.

A pattern that provably takes linear time there runs on Python's own engine, whether RE2 is installed or
not; every other one runs on RE2 (the extra `regex`), or is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from ratelimit_middleware.rules.char_sets import bracketed
from ratelimit_middleware.rules.linear import is_linear
from ratelimit_middleware.rules.pattern import Alternatives, Chars, Edge, Pattern, Repeat
from ratelimit_middleware.rules.words import GrammarError

__all__ = ["Fits", "compiled", "on_re", "on_re2"]

Fits: TypeAlias = Callable[[str], object]
"""Whether the whole of a text fits; the answer counts as true or false."""

_MAX_MEMORY = 1 << 20  # bytes for each pattern; beyond them RE2 goes on with less speed, in linear time


def compiled(pattern: Pattern) -> Fits:
    """The pattern on the engine that is right for it.

    Raises:
        GrammarError: it needs RE2, which is not installed, or RE2 refuses it.
    """
    return on_re(pattern) if is_linear(pattern) else on_re2(pattern)


def on_re(pattern: Pattern) -> Fits:
    """The pattern on Python's own engine."""
    return re.compile(_source(pattern, r"\Z")).fullmatch


def on_re2(pattern: Pattern) -> Fits:
    """The pattern on RE2.

    Raises:
        GrammarError: RE2 is not installed, or refuses it.
    """
    try:
        import re2  # type: ignore[import-untyped]  # it has no stubs
    except ImportError:
        raise GrammarError(
            "on a long path it could take Python's own engine very long: install the linear-time one,"
            ' `pip install "ratelimit-middleware[regex]"`, or write it so that after each `*`, `+`, `?` and'
            " `|` the next character tells which way to go"
        ) from None
    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    try:
        fullmatch = re2.compile(_source(pattern, r"\z"), options).fullmatch
    except re2.error as error:
        reason = error.args[0]
        words = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        raise GrammarError(f"RE2 refuses it: {words}") from None
    return lambda text: fullmatch(text.encode())


def _source(pattern: Pattern, end: str) -> str:
    """The pattern as both engines read it, but for the end of the text."""
    if isinstance(pattern, Chars):
        return bracketed(pattern.listed, negated=pattern.negated) if pattern.listed else "(?s:.)"
    if isinstance(pattern, Edge):
        return end if pattern.is_end else r"\A"
    if isinstance(pattern, Repeat):
        high = "" if pattern.high is None else pattern.high
        return f"(?:{_source(pattern.part, end)}){{{pattern.low},{high}}}"
    parts = [_source(part, end) for part in pattern.parts]
    return f"(?:{'|'.join(parts)})" if isinstance(pattern, Alternatives) else "".join(parts)
