"""The values of the rule file's keys, one function each, for the models of `schema`.

Raises:
    GrammarError: from every function here, when a value is not what its key takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ratelimit_middleware.rules.behaviors import BEHAVIORS
from ratelimit_middleware.rules.callables import is_async, resolve
from ratelimit_middleware.rules.grammar import (
    AskedText,
    LimitText,
    Unlimited,
    parse_duration,
    parse_limits,
)
from ratelimit_middleware.rules.key_grammar import parse_key
from ratelimit_middleware.rules.model import KeyPart, Responder
from ratelimit_middleware.rules.route import parse_route
from ratelimit_middleware.rules.words import GrammarError, choose, shown

__all__ = [
    "read_behavior",
    "read_cold_factor",
    "read_detail",
    "read_flag",
    "read_headers",
    "read_headers_on",
    "read_key",
    "read_limits",
    "read_mode",
    "read_name",
    "read_period",
    "read_responder",
    "read_route",
    "read_status",
    "read_version",
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEADERS = ("draft-11", "draft-7", "draft-6", "legacy", "legacy-seconds")
# Pairs that write one field in two ways (draft-6 and draft-7 write RateLimit-Policy alike).
_CLASHES = (
    ("draft-11", "draft-7", "RateLimit"),
    ("draft-11", "draft-6", "RateLimit-Policy"),
    ("legacy", "legacy-seconds", "X-RateLimit-Reset"),
)
_LONGEST_DETAIL = 500
_OFF = ("false", "off", "no")
_ON = ("true", "on", "yes")
_BEHAVIOR_HABITS = {
    "0": "reject",
    "1": "warm_up",
    "2": "queue",
    "3": "warm_up_queue",  # Sentinel's
    **dict.fromkeys(("nodelay", "block", "deny", "drop"), "reject"),
    **dict.fromkeys(("delay", "throttle", "wait", "pace", "rate_limiter"), "queue"),
}
_MODE_HABITS = {
    "0": "none",
    "1": "enforce",
    **dict.fromkeys(
        ("dry_run", "dry-run", "dryrun", "dry run", "report", "report_only", "report-only"), "shadow"
    ),
    **dict.fromkeys(
        ("log", "log_only", "monitor", "observe", "audit", "test", "warn", "permissive"), "shadow"
    ),
    **dict.fromkeys(("enforced", "enforcing", "active", "enabled", "block", "live", "normal"), "enforce"),
    **dict.fromkeys(("disabled", "disable", "inactive", "skip"), "none"),
}


def _text(what: str, example: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise GrammarError(f"{shown(value)} is not {what}: write {example}")
        return value

    return check


def read_limits(value: Any) -> tuple[LimitText | AskedText | Unlimited, ...]:
    """The limits of a text."""
    if value is False:
        raise GrammarError("`false` is not a limit: write `unlimited`, or leave the rule out")
    example = "a text such as `100/minute`"
    if isinstance(value, int) and 0 < value < 10**9 and value is not True:
        example = f"how long, too: `{value}/minute`, `{value}/second`, …"
    return parse_limits(_text("a limit", example)(value))


def read_key(value: Any) -> tuple[KeyPart, ...]:
    """The parts of a key."""
    example = "a text such as `ip` or `header:X-API-Key+route`"
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        example = shown("+".join(value))
    return parse_key(_text("a key", example)(value))


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
    return choose("behavior", value, BEHAVIORS, habits=_BEHAVIOR_HABITS)


def read_mode(value: Any) -> str:
    """Whether a rule counts; what YAML 1.1 takes for false means `none`."""
    if _switch(value) in _ON:
        raise GrammarError(f"mode {shown(value)} is no mode: write `enforce`, or leave it out")
    if _switch(value) in _OFF:
        return "none"
    return choose("mode", value, ("enforce", "shadow", "none"), habits=_MODE_HABITS)


def _switch(value: Any) -> Any:
    """What YAML 1.1 takes for true or false, as a word; 1 and 0 stay numbers."""
    return str(value).lower() if isinstance(value, bool) else value


def read_flag(key: str) -> Callable[[Any], bool]:
    """Whether something is so: a function for the key of this name."""

    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            instead = " without quotes" if value in ("true", "false") else f", not {shown(value)}"
            raise GrammarError(f"{key} is `true` or `false`{instead}")
        return value

    return check


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
    route = _text("a route", "`/items` or `GET /items`")(value)
    parse_route(route)
    return route


def read_version(value: Any) -> int:
    """The version of the format."""
    if value == "1":
        raise GrammarError("the version is a number: write `1` without quotes")
    if not isinstance(value, int) or isinstance(value, bool) or value != 1:
        raise GrammarError(f"version {shown(value)} is not known: this is version `1` of the format")
    return 1


def read_headers(value: Any) -> tuple[str, ...]:
    """The generations of header fields; none for `none`."""
    if _switch(value) in (*_OFF, "none"):
        return ()
    if _switch(value) in _ON or value == []:
        raise GrammarError(f"headers {shown(value)} names no generation: write `draft-11`, or `none`")
    if isinstance(value, str) and "," in value:
        raise GrammarError(
            f"headers {shown(value)} is a text: write `[{', '.join(re.split('[, ]+', value))}]`"
        )
    return _without_clashes(
        tuple(_read_header(item) for item in (value if isinstance(value, list) else [value]))
    )


def _read_header(value: Any) -> str:
    if value == "none":
        raise GrammarError("`none` cannot stand in a list of header generations")
    plain = value.lower() if isinstance(value, str) else ""
    habits = {"ratelimit": "draft-11"}
    if plain.startswith(("x-ratelimit", "x_ratelimit")):
        habits[plain] = "legacy"
    return choose("header generation", value, _HEADERS, ("none",), habits)


def _without_clashes(styles: tuple[str, ...]) -> tuple[str, ...]:
    """Each generation once, and each field in one syntax."""
    if len(set(styles)) < len(styles):
        raise GrammarError("a header generation stands twice in the list")
    for one, other, name in _CLASHES:
        if one in styles and other in styles:
            raise GrammarError(
                f"`{one}` and `{other}` write the field {name} in different ways: choose one of them"
            )
    return styles


def read_headers_on(value: Any) -> str:
    """On which responses the fields are sent; `none` is a matter of `headers`."""
    return choose("headers_on", value, ("all", "refused"))


def read_status(value: Any) -> int:
    """The status of a refusal."""
    if isinstance(value, str) and value.isdecimal():
        raise GrammarError(f"the status is a number: write {shown(value)} without quotes")
    if isinstance(value, bool) or not isinstance(value, int) or not 400 <= value <= 599:
        raise GrammarError(
            f"status {shown(value)} is not allowed: it is a number from 400 to 599, usually 429 or 503"
        )
    return value


def read_detail(value: Any) -> str:
    """What the body of a refusal says."""
    detail = _text("a detail", "a text such as `Slow down, or see /docs/limits.`")(value)
    plain = all(char.isprintable() or char == "\n" for char in detail)
    if not detail.strip() or not plain or len(detail) > _LONGEST_DETAIL:
        raise GrammarError(
            f"the detail {shown(detail)} is not a text of 1 to {_LONGEST_DETAIL} printable characters"
        )
    return detail


def read_responder(value: Any) -> Responder:
    """A function that gives the whole answer."""
    responder = resolve(_text("a responder", "`python:MODULE:FUNCTION`")(value))
    if is_async(responder):
        raise GrammarError(f"the responder {shown(value)} is async: a plain function is needed")
    return responder
