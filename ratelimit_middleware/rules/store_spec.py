"""The block `store` of the rule file: where the counts live, and what is done when they cannot be reached."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import model_validator

from ratelimit_middleware.errors import InvalidLimitError, StoreError
from ratelimit_middleware.redis_url import REDIS_SCHEMES, read_redis_url
from ratelimit_middleware.rules.grammar import parse_duration
from ratelimit_middleware.rules.lease_spec import LeaseSpec
from ratelimit_middleware.rules.limit_fields import read_count
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.values import ON_ERROR, POSITIVE, PREFIX, STORE, TIMEOUT, plain
from ratelimit_middleware.rules.words import GrammarError, choose, shown, unknown
from ratelimit_middleware.store_settings import OnError, StoreSettings

__all__ = ["StoreSpec", "needs_workers", "read_on_error", "read_prefix", "read_store_url", "read_timeout"]

_STORES = ("memory", "shared", *REDIS_SCHEMES)
_MILLISECONDS = re.compile(r"([0-9]+)\s*ms", re.IGNORECASE)
_NS_PER_MS = 1_000_000


def read_store_url(value: Any) -> str:
    """Where the counts live.

    Raises:
        GrammarError: no store has this URL.
    """
    if not isinstance(value, str):
        raise GrammarError(f"{shown(value)} is not a store: write a URL such as `memory://`")
    scheme, mark, rest = value.partition("://")
    # Only the scheme is ever quoted: what follows may hold a password from the environment.
    if not mark or scheme not in _STORES:
        what = unknown("store", scheme, _STORES) if mark else "the store is not a URL"
        raise GrammarError(f"{what}; write `memory://`, `shared://` or `redis://HOST`")
    if scheme == "memory" and rest:
        raise GrammarError("`memory://` takes nothing after it")
    if scheme == "shared" and rest and not rest.startswith("/"):
        raise GrammarError("`shared://` takes nothing or a directory after it, `shared:///run/myapp/limits`")
    if scheme in REDIS_SCHEMES:
        _check_redis(value)
    return value


def _check_redis(url: str) -> None:
    try:
        read_redis_url(url)
    except StoreError as error:
        raise GrammarError(str(error)) from None


def read_timeout(value: Any) -> int:
    """How long a call to the store may take, in ns.

    Raises:
        GrammarError: not a span of time from 1 ms to 60 s.
    """
    example = "write `50ms` or `1s`, from 1 ms to 60 s"
    if not isinstance(value, str):
        raise GrammarError(f"the timeout {shown(value)} is not a span of time: {example}")
    found = _MILLISECONDS.fullmatch(value.strip())
    timeout_ns = int(found[1][:9]) * _NS_PER_MS if found else parse_duration(value) * 1000 * _NS_PER_MS
    try:
        return StoreSettings(timeout_ns=timeout_ns).timeout_ns
    except InvalidLimitError:
        raise GrammarError(f"the timeout {shown(value)} is too short or too long: {example}") from None


def read_on_error(value: Any) -> str:
    """What is done when the store does not answer.

    Raises:
        GrammarError: no such policy.
    """
    return choose("policy", value, ("allow", "deny", "fallback"))


def read_prefix(value: Any) -> str:
    """The first part of every key in a remote store.

    Raises:
        GrammarError: it cannot stand in a key.
    """
    try:
        return StoreSettings(prefix=str(value)).prefix
    except InvalidLimitError as error:
        raise GrammarError(f"the prefix {shown(value)} is not allowed: write {error.expected}") from None


def needs_workers(what: str) -> str:
    """The message for a `fallback` that does not know by what to divide."""
    return (
        f"{what} divides each limit by the number of processes that share the store: add"
        " `expected_workers: 4` to `store`, or choose `on_error: deny` or `on_error: allow`"
    )


class StoreSpec(Spec):
    """Where the counts live; a text stands for `url`."""

    url: Annotated[str, plain(read_store_url, STORE)] = "memory://"
    timeout: Annotated[int, plain(read_timeout, TIMEOUT)] = StoreSettings().timeout_ns
    on_error: Annotated[OnError, plain(read_on_error, ON_ERROR)] | None = None
    expected_workers: Annotated[int, plain(read_count("expected_workers"), POSITIVE)] | None = None
    workers: Annotated[int, plain(read_count("workers"), POSITIVE)] = 1
    max_keys: Annotated[int, plain(read_count("max_keys"), POSITIVE)] = StoreSettings().max_keys
    prefix: Annotated[str, plain(read_prefix, PREFIX)] = StoreSettings().prefix
    lease: LeaseSpec | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> StoreSpec:
        """Refuse a fallback without its divisor."""
        settings = self.settings
        if settings.policy == "fallback" and settings.scheme != "memory" and not self.expected_workers:
            raise GrammarError(needs_workers("`on_error: fallback`"), "on_error")
        return self

    @property
    def settings(self) -> StoreSettings:
        """As the rule set keeps it."""
        return StoreSettings(
            self.url,
            self.timeout,
            self.on_error,
            self.expected_workers,
            self.workers,
            self.max_keys,
            self.prefix,
            None if self.lease is None else self.lease.settings,
        )
