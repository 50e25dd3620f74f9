"""What a bandwidth looks like as text, and what the rule file says with it.

    bandwidth = number bytes ("/" | "per") [number] time [ "burst" number bytes ] [ "per" key ]
    bytes     = "B" | "kB" | "MB" | "GB" | "KiB" | "MiB" | "GiB"

Raises:
    GrammarError: from every function here, when a value is not what its key takes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator

from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.rules.grammar import parse_number, parse_period
from ratelimit_middleware.rules.key_grammar import parse_key
from ratelimit_middleware.rules.model import KeyPart
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.values import BANDWIDTH, Json, plain
from ratelimit_middleware.rules.words import GrammarError, shown, unknown

__all__ = ["Bandwidth", "BandwidthSpec", "BandwidthText", "parse_bandwidth"]

_BYTES = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_BYTES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_BITS = re.compile(r"[kKMG]?i?b(?:its?)?|(?i:[kmg]?i?bits?|[kmg]?bps)")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600}
_MOST = 10**9
_EXAMPLE = "write `1MB/s` or `500kB/s burst 2MB per ip`"
_TEXT = re.compile(
    r"(?P<count>[0-9][0-9_.,]*)\s*(?P<unit>[A-Za-z]*)\s*(?:/|(?<=\s)per\s)\s*"
    r"(?P<amount>[0-9_]*)\s*(?P<time>[^\W\d_]+)"
    r"(?:\s+burst\s+(?P<burst>[0-9][0-9_.,]*)\s*(?P<burst_unit>[A-Za-z]*))?(?:\s+per\s+(?P<key>\S.*))?",
    re.IGNORECASE,
)
_LONGEST = 500
_PIECES_A_SECOND = 20
_SMALLEST_PIECE, _LARGEST_PIECE = 256, 2**20


@dataclass(frozen=True, slots=True)
class BandwidthText:
    """A bandwidth as it was written.

    Attributes:
        text: without its key.
        count: bytes per period.
        period_s: the period in seconds.
        burst: bytes that may pass at once; None = what passes in a tenth of a second.
        key: what splits the traffic; None = what the rule says.
    """

    text: str
    count: int
    period_s: int
    burst: int | None = None
    key: tuple[KeyPart, ...] | None = None

    @property
    def piece(self) -> int:
        """How many bytes are booked at a time: what passes in 50 ms, 256 B to 1 MiB."""
        piece = max(_SMALLEST_PIECE, min(self.count // (_PIECES_A_SECOND * self.period_s), _LARGEST_PIECE))
        return min(piece, self.burst or piece)

    @property
    def algorithm(self) -> GCRA:
        """The arithmetic; a permit is a byte."""
        count, period_s = self.count, self.period_s
        if count > _MOST:
            count, period_s = count // period_s, 1
        return GCRA(count, period_s, self.burst or 2 * self.piece)


def parse_bandwidth(text: str) -> BandwidthText:
    """One bandwidth."""
    found = _TEXT.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if not found:
        raise GrammarError(f"{shown(text)} is not a bandwidth: {_EXAMPLE}")
    count, unit, amount, time, burst, burst_unit, key = found.group(
        "count", "unit", "amount", "time", "burst", "burst_unit", "key"
    )
    length, name = parse_period(f"{amount} {time}".strip())
    if name not in _SECONDS:
        raise GrammarError(f"a bandwidth per {name} is none: write it per second, minute or hour")
    period_s = length * _SECONDS[name]
    total = _bytes(count, unit)
    if not period_s <= total <= _MOST * period_s:
        raise GrammarError(f"the bandwidth {shown(text)} is not from 1B/s to 1GB/s")
    period = name if length == 1 else f"{length}{name[0]}"
    at_once = None if burst is None else _bytes(burst, burst_unit)
    if at_once is not None and at_once > _MOST:
        raise GrammarError(f"the burst of {shown(text)} is more than 1GB")
    shape = f"{count}{unit}/{period}" + (f" burst {burst}{burst_unit}" if burst else "")
    return BandwidthText(shape, total, period_s, at_once, None if key is None else parse_key(key))


def _bytes(count: str, unit: str) -> int:
    """A number of bytes."""
    if not unit:
        raise GrammarError(f"{shown(count)} has no unit of bytes: write {shown(count + 'B')}")
    if unit not in _BYTES:
        if _BITS.fullmatch(unit):
            raise GrammarError(f"{shown(unit)} counts bits: write bytes, `1MB/s` for 8 Mbit/s")
        raise GrammarError(unknown("unit of bytes", unit, _BYTES))
    if re.fullmatch(r"[0-9]+\.[0-9]+", count):
        raise GrammarError(
            f"the number of bytes {shown(count)} is a fraction: write a smaller unit, `1500kB`"
        )
    return parse_number(count, "the number of bytes") * _BYTES[unit]


def _read(value: Any) -> tuple[BandwidthText, ...]:
    """A bandwidth, or a list of them."""
    if isinstance(value, tuple):
        return value  # read already
    items = value if isinstance(value, list) else [value]
    if not items:
        raise GrammarError(f"an empty list limits nothing: {_EXAMPLE}")
    for item in items:
        if not isinstance(item, str):
            raise GrammarError(f"{shown(item)} is not a bandwidth: {_EXAMPLE}")
    return tuple(parse_bandwidth(item) for item in items)


_Texts: TypeAlias = Annotated[tuple[BandwidthText, ...], plain(_read, BANDWIDTH)]


class BandwidthSpec(Spec):
    """`1MB/s`, or with its own number for each direction."""

    response: _Texts = ()
    request: _Texts = ()

    @model_validator(mode="after")
    def _says_something(self) -> BandwidthSpec:
        """Refuse an empty map."""
        if not self.response and not self.request:
            raise GrammarError("an empty map limits nothing: write `{response: 1MB/s, request: 100kB/s}`")
        return self


class _BothWays:
    """Annotates the map: a text or a list stands for both directions, each with that bandwidth."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """Read the short form first, so that a mistake in it is told once."""
        return BeforeValidator(self._long_form).__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Json:
        """Either form."""
        return {"anyOf": [BANDWIDTH, handler(core)]}

    def _long_form(self, value: Any) -> Any:
        if isinstance(value, dict):
            return value
        texts = _read(value)
        return {"response": texts, "request": texts}


Bandwidth: TypeAlias = Annotated[BandwidthSpec, _BothWays()]
