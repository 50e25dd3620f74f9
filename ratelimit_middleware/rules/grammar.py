"""What a limit, a key and a duration look like as text.

    limit  = "unlimited" | number ("/" | "per") [number] unit [ "burst" number ] [ "per" key ]
    list   = limit *( (";" | ",") limit )
    key    = part *( "+" part )
    part   = "ip" | "global" | "route" | "method" | "header:" NAME

Nothing here knows where the text stood; who reads a file adds the place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ratelimit_middleware.rules.model import KeyKind, KeyPart
from ratelimit_middleware.rules.words import GrammarError, not_yet, shown, unknown

__all__ = [
    "UNLIMITED",
    "LimitText",
    "Unlimited",
    "key_text",
    "parse_duration",
    "parse_key",
    "parse_limit",
    "parse_limits",
    "parse_number",
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
_CALENDAR_UNITS = ("month", "year")
_SIMPLE_PARTS: tuple[KeyKind, ...] = ("ip", "global", "route", "method")
_PARTS_NOT_YET = ("user", "path", "host", "cookie:NAME", "query:NAME", "python:MODULE:FUNCTION")

_MAX_TEXT = 500
_MAX_NUMBER = 10**9
_MAX_PERIOD_S = 10 * 366 * 86_400
_EXAMPLES = "write `100/minute`, `100/15m`, `10/second burst 20` or `100/minute per ip`"
_LIMIT = re.compile(
    r"(?P<count>[^\s/]+)\s*(?:/|(?<=\s)per\s)\s*(?P<amount>[0-9_]*)\s*(?P<unit>[^\W\d_]+)"
    r"(?:\s+burst\s+(?P<burst>\S+))?(?:\s+per\s+(?P<key>\S.*))?",
    re.IGNORECASE,
)
_DURATION = re.compile(r"(?P<amount>[0-9_]+)\s*(?P<unit>[^\W\d_]+)")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*.^_`|~-]+")


@dataclass(frozen=True, slots=True)
class LimitText:
    """A limit as it was written.

    Attributes:
        count: permits per period.
        amount: how many units the period has.
        unit: `second`, `minute`, `hour`, `day` or `week`.
        burst: permits at once, for a steady rate; None = a window.
        key: what splits the traffic; None = what the rule says.
    """

    count: int
    amount: int
    unit: str
    burst: int | None = None
    key: tuple[KeyPart, ...] | None = None

    @property
    def period_s(self) -> int:
        """The period in seconds."""
        return self.amount * _SECONDS[self.unit]

    @property
    def rate(self) -> str:
        """The limit without its key, as clients are shown it: `100/15m burst 20`."""
        period = self.unit if self.amount == 1 else f"{self.amount}{self.unit[0]}"
        return f"{self.count}/{period}" + ("" if self.burst is None else f" burst {self.burst}")

    def __str__(self) -> str:
        """A spelling that `parse_limit` reads back to the same value."""
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


def parse_limits(text: str) -> tuple[LimitText | Unlimited, ...]:
    """The limits of a `;` or `,` list.

    Raises:
        GrammarError: one of them does not follow the grammar.
    """
    if len(text) > _MAX_TEXT:
        raise GrammarError(f"a limit text of {len(text)} characters is too long: {_EXAMPLES}")
    return tuple(parse_limit(part) for part in re.split("[;,]", text))


def parse_limit(text: str) -> LimitText | Unlimited:
    """One limit.

    Raises:
        GrammarError: it does not follow the grammar.
    """
    text = text.strip()
    if text.lower() == UNLIMITED:
        return UNLIMITED
    if text.lower().startswith("python:"):
        raise GrammarError(not_yet("a limit from Python code"))
    found = _LIMIT.fullmatch(text)
    if not found or len(text) > _MAX_TEXT:
        raise GrammarError(f"{shown(text)} is not a limit: {_EXAMPLES}")
    count, amount, unit, burst, key = found.group("count", "amount", "unit", "burst", "key")
    length, name = _period(amount, unit)
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
    found = _DURATION.fullmatch(text.strip()) if len(text) <= _MAX_TEXT else None
    if not found:
        raise GrammarError(f"{shown(text)} is not a span of time: write `30s` or `5m`")
    length, name = _period(found["amount"], found["unit"])
    return length * _SECONDS[name]


def _period(amount: str, unit: str) -> tuple[int, str]:
    """How many of which unit; one, when no number is written."""
    name = _unit(unit)
    length = parse_number(amount, "the number of units") if amount else 1
    if length * _SECONDS[name] > _MAX_PERIOD_S:
        raise GrammarError(f"a span of {length} {name}s is too long: the longest is 10 years")
    return length, name


def _unit(text: str) -> str:
    word = text.lower()
    unit = _SHORT_UNITS.get(word) or word.removesuffix("s")  # `ms` must not become minutes
    if unit in _CALENDAR_UNITS:
        raise GrammarError(not_yet(f"the calendar unit `{unit}`", "the longest unit is `week`"))
    if unit in _SIMPLE_PARTS or unit == "user":
        raise GrammarError(f"{shown(text)} is a key, not a unit of time: write `5/minute per {unit}`")
    if unit not in _SECONDS:
        raise GrammarError(unknown("unit of time", text, [*_SECONDS, "s", "m", "h", "d", "w"]))
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
    kind, colon, name = text.partition(":")
    kind = kind.lower()
    if not colon:
        for simple in _SIMPLE_PARTS:
            if kind == simple:
                return KeyPart(simple)
    if kind == "header" and _HEADER_NAME.fullmatch(name):
        return KeyPart("header", name.lower())
    if any(kind == part.partition(":")[0] for part in _PARTS_NOT_YET):
        raise GrammarError(not_yet(f"the key part {shown(text)}"))
    if kind == "header":
        raise GrammarError(f"{shown(text)} names no header: write `header:X-API-Key`")
    if re.search(r"\sburst\s", text, re.IGNORECASE):
        raise GrammarError("`burst` stands before the key: write `10/second burst 20 per ip`")
    raise GrammarError(unknown("key part", text, [*_SIMPLE_PARTS, "header:NAME"], _PARTS_NOT_YET))


def key_text(key: tuple[KeyPart, ...]) -> str:
    """A key as `parse_key` reads it."""
    return "+".join(f"{part.kind}:{part.name}" if part.name else part.kind for part in key)
