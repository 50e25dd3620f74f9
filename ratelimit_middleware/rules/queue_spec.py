"""What the rule file says about waiting and about requests in progress.

Raises:
    GrammarError: from every function here, when a value is not what its key takes.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple, TypeAlias

from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.rules.grammar import parse_duration, parse_number
from ratelimit_middleware.rules.key_grammar import key_text, parse_key
from ratelimit_middleware.rules.limit_fields import read_count
from ratelimit_middleware.rules.model import KeyPart
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.values import (
    CONCURRENCY,
    POSITIVE,
    WAIT,
    ShortForm,
    plain,
)
from ratelimit_middleware.rules.words import GrammarError, shown

__all__ = ["Concurrent", "InProgress", "Queue", "QueueSpec", "at_a_time", "read_in_progress", "read_wait"]

_MILLISECONDS = re.compile(r"([0-9_]+)\s*(?:ms|msecs?|milliseconds?)", re.IGNORECASE)
_IN_PROGRESS = re.compile(r"([0-9_]+)(?:\s+per\s+(\S.*))?", re.IGNORECASE)
_LONGEST_WAIT_NS = 3600 * NS_PER_SECOND


class InProgress(NamedTuple):
    """How many requests may be in progress.

    Attributes:
        requests: at one time.
        key: what splits them; None = what the rule says.
    """

    requests: int
    key: tuple[KeyPart, ...] | None = None

    def __str__(self) -> str:
        """As `read_in_progress` reads it."""
        return f"{self.requests}" + ("" if self.key is None else f" per {key_text(self.key)}")


def at_a_time(requests: int) -> str:
    """A number of requests in progress as clients are shown it."""
    return f"{requests} at a time"


def read_in_progress(value: Any) -> InProgress:
    """A number, with an optional key: `4 per user`."""
    found = _IN_PROGRESS.fullmatch(value.strip()) if isinstance(value, str) else None
    if found:
        key = None if found[2] is None else parse_key(found[2])
        return InProgress(parse_number(found[1], "the number of requests"), key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise GrammarError(f"{shown(value)} is not a number of requests in progress: write `4 per user`")
    return InProgress(read_count("the number of requests")(value))


def read_wait(value: Any) -> int:
    """A time to wait, ns: above 0, at most an hour."""
    text = value.strip() if isinstance(value, str) else ""
    if value == 0 or text.lower().rstrip("smh ") == "0":
        raise GrammarError("a queue in which nobody may wait is none: leave `queue` out, or write `500ms`")
    if not text:
        raise GrammarError(f"{shown(value)} is not a time to wait: write `500ms` or `2s`")
    brief = _MILLISECONDS.fullmatch(text)
    if brief:
        wait_ns = parse_number(brief[1], "the number of milliseconds") * 1_000_000
    else:
        wait_ns = parse_duration(text) * NS_PER_SECOND
    if wait_ns > _LONGEST_WAIT_NS:
        raise GrammarError(f"a wait of {shown(value)} is too long: requests wait for an hour at most")
    return wait_ns


class QueueSpec(Spec):
    """`queue: 2s`, or with a number of places."""

    max_wait: Annotated[int, plain(read_wait, WAIT)] = NS_PER_SECOND // 2
    max_waiting: Annotated[int, plain(read_count("max_waiting"), POSITIVE)] | None = None


Queue: TypeAlias = Annotated[QueueSpec, ShortForm("max_wait", WAIT)]
Concurrent: TypeAlias = Annotated[InProgress, plain(read_in_progress, CONCURRENCY)]
