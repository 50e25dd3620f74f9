"""Short spans of time in the rule file, to the millisecond."""

from __future__ import annotations

import re
from typing import Any

from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.rules.grammar import parse_duration, parse_number
from ratelimit_middleware.rules.words import GrammarError, shown

__all__ = ["read_span"]

_MILLISECONDS = re.compile(r"([0-9_]+)\s*(?:ms|msecs?|milliseconds?)", re.IGNORECASE)


def read_span(value: Any, what: str, example: str, longest_ns: int) -> int:
    """A span of time above 0, ns.

    Args:
        value: of the file.
        what: it is, for messages.
        example: of one.
        longest_ns: the longest.

    Raises:
        GrammarError: it is none, or too long.
    """
    if not isinstance(value, str):
        raise GrammarError(f"{shown(value)} is no {what}: write `{example}`")
    brief = _MILLISECONDS.fullmatch(value.strip())
    if brief:
        span_ns = parse_number(brief[1], "the number of milliseconds") * 1_000_000
    else:
        span_ns = parse_duration(value) * NS_PER_SECOND
    if span_ns > longest_ns:
        raise GrammarError(f"{shown(value)} is too long: write at most `{longest_ns // NS_PER_SECOND}s`")
    return span_ns
