"""Limits that a client leaves by writing another header, cookie, query or host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ratelimit_middleware.identity import CLIENT_WRITTEN, KeyPart, Missing
from ratelimit_middleware.rules.hosts import is_exact

__all__ = ["holds", "is_written_by_client"]

_MAY_LACK = frozenset({"user", "python"})


def is_written_by_client(part: KeyPart, hosts: Sequence[str]) -> bool:
    """Whether a client may change this part of a key at will, in a rule for these hosts."""
    return part.kind in CLIENT_WRITTEN and not (part.kind == "host" and is_exact(hosts))


def holds(key: Iterable[KeyPart], missing: Missing, hosts: Sequence[str]) -> bool:
    """Whether a client cannot get out of a limit with this key."""
    parts = tuple(key)
    lacking = missing == "skip" and any(part.kind in _MAY_LACK for part in parts)
    return not lacking and not any(is_written_by_client(part, hosts) for part in parts)
