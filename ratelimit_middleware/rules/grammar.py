"""What a limit, a key and a duration look like as text.

    limit  = "unlimited" | number ("/" | "per") [number] unit [ "burst" number ] [ "per" key ]
           | "python:" MODULE ":" FUNCTION [ "per" key ]
    list   = limit *( (";" | ",") limit )
    key    = part *( "+" part )
    part   = "ip" | "user" | "route" | "path" | "method" | "host" | "global"
           | "header:" NAME | "cookie:" NAME | "query:" NAME | "python:" MODULE ":" FUNCTION

Nothing here knows where the text stood; who reads a file adds the place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ratelimit_middleware.request import Asked
from ratelimit_middleware.rules.callables import asked
from ratelimit_middleware.rules.model import KeyKind, KeyPart
from ratelimit_middleware.rules.words import GrammarError, shown, unknown

__all__ = [
    "UNLIMITED",
    "AskedText",
    "LimitText",
    "Unlimited",
    "key_text",
    "parse_duration",
    "parse_key",
    "parse_limit",
    "parse_limits",
    "parse_number",
    "parse_period",
]

Unlimited: TypeAlias = Literal["unlimited"]
UNLIMITED: Unlimited = "unlimited"

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_SHORT_UNITS = {
    "s": "second",
    "sec": "second",
    "secs": "second",
    "m": "minute",
    "min": "minute",
    "mins": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
}
_TOO_SHORT = ("ms", "msec", "millisecond", "milliseconds", "us", "ns")
_CALENDAR_UNITS = ("month", "year")
_SIMPLE_PARTS: tuple[KeyKind, ...] = ("ip", "user", "global", "route", "path", "method", "host")
_NAMED_PARTS: tuple[KeyKind, ...] = ("header", "cookie", "query")
_PARTS = (*_SIMPLE_PARTS, "header:NAME", "cookie:NAME", "query:NAME", "python:MODULE:FUNCTION")

_MAX_TEXT = 500
_MAX_NUMBER = 10**9
_MAX_PERIOD_S = 10 * 366 * 86_400
_EXAMPLES = "write `100/minute`, `100/15m`, `10/second burst 20` or `100/minute per ip`"
_LIMIT = re.compile(
    r"(?P<count>[^\s/]+)\s*(?:/|(?<=\s)per\s)\s*(?P<amount>[0-9_]*)\s*(?P<unit>[^\W\d_]+)"
    r"(?:\s+burst\s+(?P<burst>\S+))?(?:\s+per\s+(?P<key>\S.*))?",
    re.IGNORECASE,
)
_ASKED = re.compile(r"(?P<function>python:\S+)(?:\s+per\s+(?P<key>\S.*))?", re.IGNORECASE)
_PERIOD = re.compile(r"(?P<amount>[0-9_]*)\s*(?P<unit>[^\W\d_]+)")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*.^_`|~-]+")
_QUERY_NAME = re.compile(r"[^\s+&=#;,]+")


@dataclass(frozen=True, slots=True)
class LimitText:
    """A limit as it was written.

    Attributes:
        count: permits per period.
        amount: how many units the period has.
        unit: `second`, `minute`, `hour`, `day`, `week`, `month` or `year`.
        burst: permits at once, for a steady rate; None = a window.
        key: what splits the traffic; None = what the rule says.
    """

    count: int
    amount: int
    unit: str
    burst: int | None = None
    key: tuple[KeyPart, ...] | None = None

    @property
    def by_calendar(self) -> bool:
        """Whether the period is a month or year, whose length varies."""
        return self.unit in _CALENDAR_UNITS

    @property
    def period_s(self) -> int:
        """The period in seconds; not for months and years."""
        return self.amount * _SECONDS[self.unit]

    @property
    def rate(self) -> str:
        """The limit without its key, as clients are shown it: `100/15m burst 20`."""
        period = self.unit if self.amount == 1 else f"{self.amount}{self.unit[0]}"
        return f"{self.count}/{period}" + ("" if self.burst is None else f" burst {self.burst}")

    def __str__(self) -> str:
        """A spelling that `parse_limit` reads back to the same value."""
        return self.rate + ("" if self.key is None else f" per {key_text(self.key)}")


@dataclass(frozen=True, slots=True)
class AskedText:
    """A limit that a function of the app tells for each request."""

    asked: Asked
    key: tuple[KeyPart, ...] | None = None

    @property
    def rate(self) -> str:
        """What stands for the numbers."""
        return f"python:{self.asked.name}"

    def __str__(self) -> str:
        """As `parse_limit` reads it."""
        return self.rate + ("" if self.key is None else f" per {key_text(self.key)}")


def parse_number(text: str, what: str) -> int:
    """A whole number from 1 to 10^9; `1_000` is read, `010` is not.

    Raises:
        GrammarError: anything else.
    """
    if not re.fullmatch(r"[0-9]+(_[0-9]+)*", text):
        raise GrammarError(f"{what} {shown(text)} is not a whole number above 0")
    if text[0] == "0" and len(text) > 1:
        plain = text.lstrip("0_") or "0"
        raise GrammarError(f"{what} {shown(text)} looks octal: write {shown(plain)}")
    if len(text) > 2 * len(str(_MAX_NUMBER)) or not 1 <= int(text) <= _MAX_NUMBER:
        raise GrammarError(f"{what} {shown(text)} is not a whole number from 1 to {_MAX_NUMBER}")
    return int(text)


def parse_limits(text: str) -> tuple[LimitText | AskedText | Unlimited, ...]:
    """The limits of a `;` or `,` list.

    Raises:
        GrammarError: one of them does not follow the grammar.
    """
    if len(text) > _MAX_TEXT:
        raise GrammarError(f"a limit text of {len(text)} characters is too long: {_EXAMPLES}")
    return tuple(parse_limit(part) for part in re.split("[;,]", text))


def parse_limit(text: str) -> LimitText | AskedText | Unlimited:
    """One limit.

    Raises:
        GrammarError: it does not follow the grammar, or names a function that cannot be had.
    """
    text = text.strip()
    if text.lower() == UNLIMITED:
        return UNLIMITED
    by_function = _ASKED.fullmatch(text)
    if by_function:
        key = by_function["key"]
        return AskedText(asked(by_function["function"]), None if key is None else parse_key(key))
    found = _LIMIT.fullmatch(text)
    if not found or len(text) > _MAX_TEXT:
        raise GrammarError(f"{shown(text)} is not a limit: {_EXAMPLES}")
    count, amount, unit, burst, key = found.group("count", "amount", "unit", "burst", "key")
    length, name = _period(amount, unit)
    if burst is not None and name in _CALENDAR_UNITS:
        raise GrammarError(f"`burst` is for spans of time, and a {name} is a window of the calendar")
    return LimitText(
        parse_number(count, "the number of permits"),
        length,
        name,
        None if burst is None else parse_number(burst, "the burst"),
        None if key is None else parse_key(key),
    )


def parse_duration(text: str) -> int:
    """A span of time such as `30s` or `5 minutes`, in seconds.

    Raises:
        GrammarError: not a whole number and a unit, or longer than 10 years.
    """
    found = _PERIOD.fullmatch(text.strip()) if len(text) <= _MAX_TEXT else None
    if not found or not found["amount"]:
        raise GrammarError(f"{shown(text)} is not a span of time: write `30s` or `5m`")
    length, name = _period(found["amount"], found["unit"])
    if name in _CALENDAR_UNITS:
        raise GrammarError(f"a {name} is not a span of time, for its length varies: write days")
    return length * _SECONDS[name]


def parse_period(text: str) -> tuple[int, str]:
    """The period of a limit, such as `hour`, `15m` or `month`: how many of which unit.

    Raises:
        GrammarError: not a unit of time, with or without a whole number before it.
    """
    found = _PERIOD.fullmatch(text.strip()) if len(text) <= _MAX_TEXT else None
    if not found:
        raise GrammarError(f"{shown(text)} is not the period of a limit: write `minute`, `15m` or `month`")
    return _period(found["amount"], found["unit"])


def _period(amount: str, unit: str) -> tuple[int, str]:
    """How many of which unit; one, when no number is written."""
    name = _unit(unit)
    length = parse_number(amount, "the number of units") if amount else 1
    if name in _CALENDAR_UNITS and length > 1:
        raise GrammarError(
            f"a window of {length} {name}s is not known: calendar windows are one month or one year"
        )
    if length * _SECONDS.get(name, 1) > _MAX_PERIOD_S:
        raise GrammarError(f"a span of {length} {name}s is too long: the longest is 10 years")
    return length, name


def _unit(text: str) -> str:
    word = text.lower()
    unit = _SHORT_UNITS.get(word) or word.removesuffix("s")  # `ms` must not become minutes
    if unit in _SIMPLE_PARTS:
        raise GrammarError(f"{shown(text)} is a key, not a unit of time: write `5/minute per {unit}`")
    if word in _TOO_SHORT:
        raise GrammarError(f"{shown(text)} is too short a unit: write the limit per second, `50/second`")
    if unit not in _SECONDS and unit not in _CALENDAR_UNITS:
        known = [*_SECONDS, *_CALENDAR_UNITS, "s", "m", "h", "d", "w"]
        raise GrammarError(unknown("unit of time", text, known))
    return unit


def parse_key(text: str) -> tuple[KeyPart, ...]:
    """The parts of a key such as `ip+route`.

    Raises:
        GrammarError: a part is not known, not supported yet or stands twice.
    """
    parts = tuple(_key_part(part.strip()) for part in text.split("+"))
    if len(set(parts)) < len(parts):
        raise GrammarError(f"the key {shown(text)} has a part twice")
    return parts


def _key_part(text: str) -> KeyPart:
    word, colon, name = text.partition(":")
    kind = word.lower()
    if not colon:
        for simple in _SIMPLE_PARTS:
            if kind == simple:
                return KeyPart(simple)
    if kind == "python":
        function = asked(text)
        return KeyPart("python", function.name, function)
    for named in _NAMED_PARTS:
        if kind == named:
            return KeyPart(named, _part_name(named, name, text))
    if re.search(r"\sburst\s", text, re.IGNORECASE):
        raise GrammarError("`burst` stands before the key: write `10/second burst 20 per ip`")
    if re.fullmatch(r"\w+(\.\w+)*:\w+", text):
        raise GrammarError(f"{shown(text)} is no part of a key: for a function write `python:{text}`")
    raise GrammarError(unknown("key part", text, _PARTS))


def _part_name(kind: KeyKind, name: str, text: str) -> str:
    """The name of a header (lower case), cookie or query parameter."""
    if not (_QUERY_NAME if kind == "query" else _TOKEN).fullmatch(name):
        example = {"header": "header:X-API-Key", "cookie": "cookie:session"}.get(kind, "query:token")
        raise GrammarError(f"{shown(text)} names no {kind}: write `{example}`")
    return name.lower() if kind == "header" else name


def key_text(key: tuple[KeyPart, ...]) -> str:
    """A key as `parse_key` reads it."""
    return "+".join(f"{part.kind}:{part.name}" if part.name else part.kind for part in key)
