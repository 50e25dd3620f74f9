"""What a limit and a duration look like as text.

    limit  = "unlimited" | number ("/" | "per") [number] unit [ "burst" number ] [ "per" key ]
           | "python:" MODULE ":" FUNCTION [ "per" key ]
    list   = limit *( (";" | ",") limit )
    key    = (see key_grammar)

Nothing here knows where the text stood; who reads a file adds the place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ratelimit_middleware.request import Asked
from ratelimit_middleware.rules.callables import asked
from ratelimit_middleware.rules.hints import meant_limit
from ratelimit_middleware.rules.key_grammar import SIMPLE_PARTS, key_text, parse_key
from ratelimit_middleware.rules.model import KeyPart
from ratelimit_middleware.rules.words import GrammarError, reads, shown, unknown

__all__ = [
    "UNLIMITED",
    "AskedText",
    "LimitText",
    "Unlimited",
    "parse_duration",
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
_UNIT_HABITS = {
    "mo": "month",
    "mon": "month",
    "mn": "minute",
    "hr": "hour",
    "hrs": "hour",
    "yr": "year",
    "wk": "week",
}
_TOO_SHORT = ("ms", "msec", "millisecond", "milliseconds", "us", "ns")
_CALENDAR_UNITS = ("month", "year")

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
    if re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+", text):
        raise GrammarError(f"{what} {shown(text)} has commas: write {shown(text.replace(',', '_'))}")
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
    try:
        return _limits(text)
    except GrammarError:
        meant = meant_limit(text)
        if meant == text or not reads(_limits, meant):
            raise
        more = "" if meant != UNLIMITED or text.lower().startswith("un") else ", or leave the rule out"
        raise GrammarError(f"{shown(text)} is not a limit: write {shown(meant)}{more}") from None


def _limits(text: str) -> tuple[LimitText | AskedText | Unlimited, ...]:
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
        raise GrammarError(f"{shown(text)} is not a limit: {_instead(text)}")
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


def _instead(text: str) -> str:
    """What to write where no limit can be made out."""
    if re.fullmatch(r"\$\w+", text):
        return f"write `${{{text[1:]}}}` for the environment"
    if re.fullmatch(r"-\S+(\s+-\S+)+", text):
        return f"a space is missing after each dash, {shown(f'- {text.split()[0][1:]}')}"
    if text in ("shadow", "enforce"):
        return f"write `{{limit: 100/minute, mode: {text}}}`"
    return _EXAMPLES


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
    if unit in SIMPLE_PARTS:
        raise GrammarError(f"{shown(text)} is a key, not a unit of time: write `5/minute per {unit}`")
    if word in _TOO_SHORT:
        raise GrammarError(f"{shown(text)} is too short a unit: write the limit per second, `50/second`")
    if unit not in _SECONDS and unit not in _CALENDAR_UNITS:
        known = [*_SECONDS, *_CALENDAR_UNITS, "s", "m", "h", "d", "w"]
        raise GrammarError(unknown("unit of time", text, known, habits=_UNIT_HABITS))
    return unit
