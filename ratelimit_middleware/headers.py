"""The RateLimit fields and `Retry-After`: a verdict in the words of HTTP, one function per generation.

`draft-11` is draft-ietf-httpapi-ratelimit-headers-11 (the syntax stands since -08), `legacy` the
`X-RateLimit-*` family with its reset as epoch seconds. Field values are RFC 9651 structured fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.decision import Decision, Outcome, Policy, Verdict

__all__ = ["Field", "draft_11", "legacy", "rate_limit_fields", "retry_after_s"]

Field: TypeAlias = tuple[str, str]

_LARGEST_INTEGER = 10**15 - 1  # RFC 9651, section 3.3.1
_NOT_PRINTABLE = re.compile(r"[^ -~]")


def rate_limit_fields(verdict: Verdict, styles: Sequence[str]) -> list[Field]:
    """The RateLimit fields of a response, refused or not.

    Args:
        verdict: the answer to the request.
        styles: the generations to send, `draft-11` and `legacy`.

    Returns:
        Name and value pairs; none when no limit was checked.

    Raises:
        KeyError: a style that does not exist (rules are checked when they are loaded).
    """
    if verdict.binding is None:
        return []
    if len(styles) == 1:
        return _WRITERS[styles[0]](verdict.outcomes, verdict.binding)
    return [field for style in styles for field in _WRITERS[style](verdict.outcomes, verdict.binding)]


def retry_after_s(verdict: Verdict) -> int | None:
    """Whole seconds for `Retry-After`: rounded up, at least 1; None when no waiting helps."""
    return None if verdict.retry_after_ns is None else _seconds_up(verdict.retry_after_ns)


def draft_11(outcomes: Sequence[Outcome], binding: Outcome) -> list[Field]:
    """`RateLimit-Policy` with every limit that was checked, `RateLimit` with the binding one."""
    decision = binding.decision
    name, _ = _words(binding.policy)
    window_s = _seconds_up(_effective_window_ns(decision))
    return [
        ("RateLimit-Policy", ", ".join([_words(policy)[1] for policy, _ in outcomes])),
        ("RateLimit", f"{name};r={_integer(decision.remaining)};t={window_s}"),
    ]


def legacy(_: Sequence[Outcome], binding: Outcome) -> list[Field]:
    """`X-RateLimit-Limit`, `-Remaining` and `-Reset` (epoch seconds, rounded up) of the binding limit."""
    decision = binding.decision
    reset_ns = decision.at_ns + _effective_window_ns(decision)
    return [
        ("X-RateLimit-Limit", str(_integer(binding.policy.quota))),
        ("X-RateLimit-Remaining", str(_integer(decision.remaining))),
        ("X-RateLimit-Reset", str(_seconds_up(reset_ns))),
    ]


_WRITERS: Mapping[str, Callable[[Sequence[Outcome], Outcome], list[Field]]] = MappingProxyType(
    {"draft-11": draft_11, "legacy": legacy}
)


def _effective_window_ns(decision: Decision) -> int:
    """A refusal names its own wait, even with permits left, or `Retry-After` would end inside the window."""
    return decision.reset_after_ns if decision.retry_after_ns is None else decision.retry_after_ns


@lru_cache(maxsize=4096)
def _words(policy: Policy) -> tuple[str, str]:
    """The policy's name as a structured string, and its whole member of `RateLimit-Policy`.

    What a structured string cannot hold becomes `?`: a name must never break a header line.
    """
    printable = _NOT_PRINTABLE.sub("?", policy.name)
    escaped = printable.replace("\\", "\\\\").replace('"', '\\"')
    name = f'"{escaped}"'
    return name, f"{name};q={_integer(policy.quota)};w={_seconds_up(policy.window_ns)}"


def _integer(number: int) -> int:
    """Within what a structured field can hold."""
    if 0 <= number <= _LARGEST_INTEGER:
        return number
    return 0 if number < 0 else _LARGEST_INTEGER


def _seconds_up(duration_ns: int) -> int:
    """Rounded up and at least 1: nothing left for zero seconds would say nothing."""
    return _integer(-(-duration_ns // NS_PER_SECOND)) or 1
