"""The values of the rule file's keys, one function each, for the models of `schema`.

Raises:
    GrammarError: from every function here, when a value is not what its key takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ratelimit_middleware.rules.grammar import LimitText, Unlimited, parse_duration, parse_key, parse_limits
from ratelimit_middleware.rules.model import KeyPart
from ratelimit_middleware.rules.route import parse_route
from ratelimit_middleware.rules.words import GrammarError, choose, not_yet, shown, unknown

__all__ = [
    "read_behavior",
    "read_cold_factor",
    "read_headers",
    "read_key",
    "read_limits",
    "read_mode",
    "read_name",
    "read_period",
    "read_route",
    "read_store_url",
    "read_trusted",
    "read_version",
    "refuse_twice",
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_STORES_NOT_YET = ("redis", "rediss", "valkey", "valkeys", "unix", "shared", "lmdb")
_HEADERS_NOT_YET = ("draft-7", "draft-6", "legacy-seconds")
_OFF = (False, "off", "no")
_ON = (True, "on", "yes")


def _text(what: str, example: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise GrammarError(f"{shown(value)} is not {what}: write {example}")
        return value

    return check


def read_limits(value: Any) -> tuple[LimitText | Unlimited, ...]:
    """The limits of a text."""
    if isinstance(value, dict):
        raise GrammarError(not_yet("the long form of a limit", "write a text such as `100/minute burst 20`"))
    return parse_limits(_text("a limit", "a text such as `100/minute`")(value))


def read_key(value: Any) -> tuple[KeyPart, ...]:
    """The parts of a key."""
    return parse_key(_text("a key", "a text such as `ip` or `header:X-API-Key+route`")(value))


def read_period(value: Any) -> int:
    """A span of time, in seconds."""
    return parse_duration(_text("a span of time", "a number and a unit, such as `30s`")(value))


def read_cold_factor(value: Any) -> float:
    """How much slower a cold route is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 < value < 1e9:
        raise GrammarError(f"cold_factor {shown(value)} is not allowed: it is a number above 1, usually 3")
    return value


def read_behavior(value: Any) -> str:
    """What happens to requests over the limit."""
    return choose("behavior", value, ("reject", "warm_up"), ("queue", "warm_up_queue"))


def read_mode(value: Any) -> str:
    """Whether a rule counts; what YAML 1.1 takes for false means `none`."""
    if value in _ON:
        raise GrammarError(f"mode {shown(value)} is no mode: write `enforce`, or leave it out")
    return "none" if value in _OFF else choose("mode", value, ("enforce", "shadow", "none"))


def read_trusted(value: Any) -> bool:
    """Whether a value that clients could write is set by a proxy."""
    if not isinstance(value, bool):
        raise GrammarError(f"trusted is `true` or `false`, not {shown(value)}")
    return value


def read_name(value: Any) -> str:
    """A name that may go on the wire."""
    name = _text("a name", "a text such as `login`")(value)
    if not _NAME.fullmatch(name):
        raise GrammarError(
            f"the name {shown(name)} goes on the wire: up to 64 of the letters a-z, digits, `.`, `_` and `-`"
        )
    return name


def read_route(value: Any) -> str:
    """The text of a route, once it is known to be one."""
    parse_route(value)
    return str(value)


def read_version(value: Any) -> int:
    """The version of the format."""
    if value == "1":
        raise GrammarError("the version is a number: write `1` without quotes")
    if isinstance(value, bool) or value != 1:
        raise GrammarError(f"version {shown(value)} is not known: this is version `1` of the format")
    return 1


def read_store_url(value: Any) -> str:
    """Where the counts live."""
    url = _text("a store", "a URL such as `memory://`")(value)
    scheme, mark, rest = url.partition("://")
    # Only the scheme is ever quoted: what follows may hold a password from the environment.
    if mark and scheme in _STORES_NOT_YET:
        raise GrammarError(not_yet(f"the store `{scheme}://`", "this version knows `memory://`"))
    if not mark or scheme != "memory":
        what = unknown("store", scheme, ("memory",), _STORES_NOT_YET) if mark else "the store is not a URL"
        raise GrammarError(f"{what}; write `memory://`")
    if rest:
        raise GrammarError("`memory://` takes nothing after it")
    return url


def read_headers(value: Any) -> tuple[str, ...]:
    """The generations of header fields; none for `none`."""
    if value in (*_OFF, "none"):
        return ()
    return tuple(_read_header(item) for item in (value if isinstance(value, list) else [value]))


def _read_header(value: Any) -> str:
    if value == "none":
        raise GrammarError("`none` cannot stand in a list of header generations")
    return choose("header generation", value, ("draft-11", "legacy"), (*_HEADERS_NOT_YET, "none"))


def refuse_twice(styles: tuple[str, ...]) -> tuple[str, ...]:
    """Each generation once."""
    if len(set(styles)) < len(styles):
        raise GrammarError("a header generation stands twice in the list")
    return styles
