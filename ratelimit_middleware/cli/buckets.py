"""`ratelimits keys`, `peek` and `reset`: the buckets that the store of a rule file has now."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from ratelimit_middleware.algorithms.penalty import Penalty, Strike
from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.errors import RuleFileError, StoreError, UnreadableBucketError, on_one_line
from ratelimit_middleware.identity import client_forms
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.model import RuleSet
from ratelimit_middleware.rules.words import unknown
from ratelimit_middleware.stores.base import BrowsableStore, Look
from ratelimit_middleware.stores.open import open_store

__all__ = ["Selection", "keys", "peek", "reset"]

_UNREADABLE = 1
_NO_ANSWER = 3
_PATIENCE_NS = 5 * NS_PER_SECOND


class Selection(NamedTuple):
    """Which buckets of which file.

    Attributes:
        file: the rule file.
        rule: only those of this rule.
        client: only those of this client: an address, or whatever else the key of a limit holds.
        as_json: for programs.
    """

    file: str
    rule: str | None = None
    client: str | None = None
    as_json: bool = False


class _MemoryError(Exception):
    """The counts live inside other processes."""


def keys(selection: Selection) -> tuple[str, int]:
    """The buckets that are there.

    Returns:
        What to print and the exit code: 1 if the file holds a mistake, 2 if the command makes no sense, 3
        if the store does not answer.
    """
    return _done(selection, lambda _, found: [{"bucket": key} for key in found])


def peek(selection: Selection) -> tuple[str, int]:
    """The buckets that are there, and what the next request of each would hear; see `keys`.

    Returns:
        As `keys`; the code is also 1 if some bucket cannot be read.
    """

    def looked_at(store: BrowsableStore, found: list[str]) -> list[dict[str, Any]]:
        return [{"bucket": key, **told} for key in found if (told := _looked_at(store, key))]

    return _done(selection, looked_at)


def reset(selection: Selection) -> tuple[str, int]:
    """Forget buckets: their clients begin afresh; see `keys`."""

    def forgotten(store: BrowsableStore, found: list[str]) -> list[dict[str, Any]]:
        return [{"bucket": key} for key in found if store.reset(key)]

    return _done(selection, forgotten)


def _done(
    selection: Selection, work: Callable[[BrowsableStore, list[str]], list[dict[str, Any]]]
) -> tuple[str, int]:
    try:
        ruleset = load_rules(selection.file)
    except RuleFileError as error:
        return f"{error}\n", 1
    names = [rule.name for rule in ruleset.rules]
    if selection.rule is not None and selection.rule not in names:
        return f"{selection.file}: {unknown('rule', selection.rule, names)}\n", 2
    try:
        with _opened(ruleset) as store:
            # SCAN may tell a key twice.
            rows = work(store, sorted(set(_found(store, ruleset, selection))))
    except _MemoryError as error:
        return f"{selection.file}: {error}\n", 2
    except StoreError as error:
        return f"{selection.file}: {error}\n", _NO_ANSWER
    unreadable = sum("error" in row for row in rows)
    code = _UNREADABLE if unreadable else 0
    if selection.as_json:
        return json.dumps(rows, indent=2, ensure_ascii=False) + "\n", code
    count = "1 bucket" if len(rows) == 1 else f"{len(rows)} buckets"
    if unreadable:
        count += f", {unreadable} of them cannot be read: `ratelimits reset` takes such a bucket away"
    return "\n".join([*_lines(rows), count]) + "\n", code


@contextmanager
def _opened(ruleset: RuleSet) -> Iterator[BrowsableStore]:
    if ruleset.store.scheme == "memory":
        raise _MemoryError(
            "the counts are in `memory://`, inside the processes of the app: nobody else can see or reset"
            " them. There it is `store.scan()` and `store.reset(key)`; `shared://` and `redis://` can be"
            " looked at from here"
        )
    # The `timeout` of the file is for requests. Who types a command has time, and may be far from the server.
    patient = replace(ruleset.store, timeout_ns=max(ruleset.store.timeout_ns, _PATIENCE_NS))
    store = open_store(patient)
    try:
        if not isinstance(store, BrowsableStore):
            raise StoreError(f"a store of {ruleset.store.scheme}:// cannot tell its buckets")
        yield store
    finally:
        store.close()


def _found(store: BrowsableStore, ruleset: RuleSet, selection: Selection) -> Iterator[str]:
    beginnings = [""] if selection.rule is None else _beginnings(ruleset, selection.rule)
    prefixes = {part.ipv6_prefix for rule in ruleset.rules for limit in rule.limits for part in limit.key}
    forms: set[str] = set()
    if selection.client is not None:
        forms = {form for bits in prefixes or {64} for form in client_forms(selection.client, bits)}
    for beginning in beginnings:
        for key in store.scan(beginning):
            if selection.client is None or not forms.isdisjoint(key.split("|")[1:]):
                yield key


def _beginnings(ruleset: RuleSet, name: str) -> set[str]:
    """What the keys of a rule begin with: of its limits, and of all that may be checked in their place."""
    limits = [limit for rule in ruleset.rules if rule.name == name for limit in rule.limits]
    every = [one for limit in limits for one in (limit, *limit.alternatives())]
    return {limit.overflow.removesuffix("*") for limit in every}


def _looked_at(store: BrowsableStore, key: str) -> dict[str, Any]:
    """What stands in a bucket; nothing if it has gone meanwhile."""
    try:
        look = store.look(key)
    except UnreadableBucketError:
        return {"error": "cannot be read"}
    return {} if look is None else _told(look)


def _told(look: Look) -> dict[str, Any]:
    """A bucket in numbers; times in seconds."""
    decision = look.decision
    retry_ns = decision.retry_after_ns
    return {
        "allowed": decision.allowed,
        "limit": decision.limit,
        "remaining": decision.remaining,
        "retry_after_s": None if retry_ns is None else retry_ns / 1e9,
        "reset_after_s": decision.reset_after_ns / 1e9,
        "penalty": isinstance(look.algorithm, (Penalty, Strike)),
    }


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    # Our own keys are plain; others under the prefix may hold what a terminal would obey.
    names = [on_one_line(row["bucket"]) for row in rows]
    width = max(map(len, names), default=0)
    for name, row in zip(names, rows, strict=True):
        yield f"{name:{width}}  {_words(row)}" if len(row) > 1 else name


def _words(row: dict[str, Any]) -> str:
    if "error" in row:
        return str(row["error"])
    if row["penalty"]:
        return "not blocked" if row["allowed"] else f"blocked for {row['retry_after_s']:.0f} s"
    left = f"{row['remaining']} of {row['limit']} left"
    if row["allowed"]:
        return left
    again = "never" if row["retry_after_s"] is None else f"in {row['retry_after_s']:.3f} s"
    return f"{left}, the next one {again}"
