"""StoreSettings: where the counts live, and what is done when they cannot be reached."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from ratelimit_middleware.algorithms.base import positive_int
from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["LeaseSettings", "OnError", "StoreSettings"]

OnError: TypeAlias = Literal["allow", "deny", "fallback"]
"""`allow`: let through uncounted; `deny`: answer 503; `fallback`: count in this process."""

_LOCAL = frozenset({"memory", "shared"})
_PREFIX = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_SHORTEST_NS = 1_000_000
_LONGEST_NS = 60 * 10**9


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """What `lease` of a rule file says: permits are taken in blocks and spent in this process.

    Attributes:
        size: the most permits of a block; 2 to 10^6.
        max_age_ns: how long a block may be spent; 1 ms to 60 s.

    Raises:
        InvalidLimitError: a value makes no sense.
    """

    size: int = 50
    max_age_ns: int = 200_000_000

    def __post_init__(self) -> None:
        """Refuse nonsense."""
        if positive_int("size", self.size, 10**6) < 2:
            raise InvalidLimitError("size", self.size, "a whole number from 2 to 1000000")
        if not _SHORTEST_NS <= self.max_age_ns <= _LONGEST_NS:
            raise InvalidLimitError("max_age_ns", self.max_age_ns, "a number of ns from 1 ms to 60 s")


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """What the block `store` of a rule file says.

    Attributes:
        url: names the store; never shown, for it may hold a password.
        timeout_ns: how long a call may take, the connection included; 1 ms to 60 s.
        on_error: what is done when the store does not answer; None = `fallback` for a remote store with
            `expected_workers`, else `deny`.
        expected_workers: how many processes share the store, over all hosts; `fallback` needs it.
        workers: how many processes share the limits that `memory://` counts.
        max_keys: the most buckets held in this process or in the shared file.
        prefix: first part of every key in a remote store.
        lease: how permits of busy limits are taken in blocks; None = each request asks the store. Stores of
            this host are always asked.

    Raises:
        InvalidLimitError: a value makes no sense.
    """

    url: str = field(default="memory://", repr=False)
    timeout_ns: int = 50_000_000
    on_error: OnError | None = None
    expected_workers: int | None = None
    workers: int = 1
    max_keys: int = 100_000
    prefix: str = "ratelimit:"
    lease: LeaseSettings | None = None

    def __post_init__(self) -> None:
        """Refuse nonsense."""
        if not _SHORTEST_NS <= self.timeout_ns <= _LONGEST_NS:
            raise InvalidLimitError("timeout_ns", self.timeout_ns, "a number of ns from 1 ms to 60 s")
        if self.on_error not in (None, *get_args(OnError)):
            raise InvalidLimitError("on_error", self.on_error, "allow, deny or fallback")
        positive_int("workers", self.workers)
        positive_int("max_keys", self.max_keys)
        if self.expected_workers is not None:
            positive_int("expected_workers", self.expected_workers)
        if not _PREFIX.fullmatch(self.prefix):
            raise InvalidLimitError("prefix", self.prefix, "1 to 64 letters, digits, `.`, `_`, `:` or `-`")

    @property
    def scheme(self) -> str:
        """The kind of store: what stands before `://`; empty for what is no URL."""
        scheme, mark, _ = self.url.partition("://")
        return scheme if mark else ""

    @property
    def is_remote(self) -> bool:
        """Whether a server holds the counts, which may be slow or gone."""
        return self.scheme not in _LOCAL

    @property
    def policy(self) -> OnError:
        """What is done when the store does not answer.

        A remote store falls back where that is possible: without the number of processes nobody knows by
        what to divide, so requests are denied.
        """
        return self.on_error or ("fallback" if self.is_remote and self.expected_workers else "deny")
