"""The types of the rule file's keys: how each value is read, and what an editor is told of it.

The JSON Schema fragments are truthful where they can be: they accept all that loads, and refuse what they
can know to be wrong. A `${NAME}` may stand for any scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, PlainValidator

__all__ = [
    "BANDWIDTH",
    "CONCURRENCY",
    "CPU",
    "DETAIL",
    "DURATION",
    "ENV",
    "FLAG",
    "FUNCTION",
    "HEADER",
    "HEADERS",
    "HOPS",
    "HOST",
    "IN_FLIGHT",
    "IPV6_PREFIX",
    "KEY",
    "LIMIT",
    "LIMITS",
    "LOAD",
    "MESSAGES",
    "METHOD",
    "MODE",
    "NAME",
    "NETWORK",
    "ON_ERROR",
    "PERIOD",
    "PLACE",
    "POSITIVE",
    "PREFIX",
    "RESPONDER",
    "ROUTE",
    "STATUS",
    "STORE",
    "TIMEOUT",
    "TIMEZONE",
    "USER",
    "VERSION",
    "WAIT",
    "Json",
    "ShortForm",
    "as_list",
    "choice",
    "plain",
    "text",
]

Json: TypeAlias = dict[str, Any]

ENV = r"\$\{"
_ENV: Json = {"type": "string", "pattern": ENV}


def _any_case(*words: str) -> str:
    """A pattern for any of the words, whatever their case (JSON Schema has no flag for it)."""
    spelled = ("".join(f"[{c.upper()}{c}]" if c.isalpha() else c for c in word) for word in words)
    return f"(?:{'|'.join(spelled)})"


def _or_env(schema: Json) -> Json:
    """The schema of a scalar, which the environment may give too."""
    return {"anyOf": [schema, _ENV]}


def text(pattern: str, description: str, *examples: str) -> Json:
    """The schema of a text."""
    schema = {"type": "string", "pattern": rf"^\s*(?:{pattern})\s*$|{ENV}", "description": description}
    return {**schema, "examples": list(examples)} if examples else schema


def choice(words: Iterable[str], description: str) -> Json:
    """The schema of a word out of a few."""
    return {**_or_env({"enum": sorted(words)}), "description": description}


_NUMBER = "[1-9][0-9]*(?:_[0-9]+)*"
_SPANS = ("s", "secs?", "seconds?", "m", "mins?", "minutes?", "h", "hours?", "d", "days?", "w", "weeks?")
_SPAN, _UNIT = _any_case(*_SPANS), _any_case(*_SPANS, "months?", "years?")
FUNCTION = r"python:[\w.]+:[\w.]+"
_PART = "|".join(
    [
        _any_case("ip", "user", "global", "route", "path", "method", "host"),
        rf"{_any_case('header', 'cookie', 'query')}:[^\s+]+",
        FUNCTION,
    ]
)
_KEY = rf"(?:{_PART})(?:\s*\+\s*(?:{_PART}))*"
_PER = _any_case("per")
_BURST = rf"(?:\s+{_any_case('burst')}\s+{_NUMBER})?"
_LIMIT = "|".join(
    [
        _any_case("unlimited"),
        rf"{FUNCTION}(?:\s+{_PER}\s+{_KEY})?",
        rf"{_NUMBER}\s*(?:/|\s{_PER}\s)\s*(?:{_NUMBER})?\s*{_UNIT}{_BURST}(?:\s+{_PER}\s+{_KEY})?",
    ]
)

LIMIT = text(
    rf"(?:{_LIMIT})(?:\s*[;,]\s*(?:{_LIMIT}))*",
    "At most so many requests in such a time, with an optional burst and key.",
    "100/minute",
    "10/second burst 20",
    "5/15m per user",
    "5/minute; 100/hour",
    "unlimited",
)
_STEADY = rf"{_NUMBER}\s*(?:/|\s{_PER}\s)\s*(?:{_NUMBER})?\s*{_SPAN}{_BURST}(?:\s+{_PER}\s+{_KEY})?"
MESSAGES = text(
    rf"{_STEADY}(?:\s*[;,]\s*{_STEADY})*",
    "Messages that a client may send: over each connection, or those of a key together.",
    "20/second burst 40",
    "100/minute per ip",
)
_BYTES = rf"{_NUMBER}\s*(?:B|[kKMG]B|[KMG]iB)"
_RATE = text(
    rf"{_BYTES}\s*(?:/|\s{_PER}\s)\s*(?:{_NUMBER})?\s*{_any_case(*_SPANS[:9])}"
    rf"(?:\s+{_any_case('burst')}\s+{_BYTES})?(?:\s+{_PER}\s+{_KEY})?",
    "Bytes of bodies.",
    "1MB/s per ip",
    "500kB/s burst 2MB",
)
BANDWIDTH: Json = {"anyOf": [_RATE, {"type": "array", "minItems": 1, "items": _RATE}]}
LIMITS: Json = {"anyOf": [LIMIT, {"type": "array", "minItems": 1}]}
KEY = text(_KEY, "What splits the traffic into buckets; `+` joins.", "ip", "user+route", "header:X-API-Key")
DURATION = text(rf"{_NUMBER}\s*{_UNIT}", "A span of time.", "30s", "5 minutes")
_MS = _any_case("ms", "msecs?", "milliseconds?")
WAIT = text(rf"{_NUMBER}\s*(?:{_UNIT}|{_MS})", "At most an hour.", "500ms", "2s")
_AT_ONCE = text(rf"{_NUMBER}(?:\s+{_PER}\s+{_KEY})?", "Requests in progress.", "4 per user")
IN_FLIGHT: Json = {
    **_or_env(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": rf"^\s*(?:{_any_case('bbr')}|{_NUMBER})\s*$"},
            ]
        }
    ),
    "description": "Requests in progress: a number, or `bbr`: as many as are served without a queue.",
}
CPU: Json = {
    **_or_env({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
    "description": "Use of the processors above which the server is loaded.",
}
LOAD: Json = {
    **_or_env({"type": "number", "exclusiveMinimum": 0, "maximum": 1000}),
    "description": "Load average of a minute, for each processor, above which the server is loaded.",
}
PERIOD = text(rf"(?:{_NUMBER})?\s*{_UNIT}", "The period of the limit.", "hour", "15m", "month")
NAME = text("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "Goes on the wire; unique in the file.", "login")
ROUTE = text(
    r"(?:[A-Z-]+(?:\s*,\s*[A-Z-]+)*\s+)?[/~].*",
    "`[METHOD[,METHOD]] /path`, as your framework writes it, or `~` and a regular expression.",
    "/api/**",
    "GET /items/{id}",
)
PLACE = text(
    r"(?:[A-Z-]+(?:\s*,\s*[A-Z-]+)*\s+)?[/~].*|[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
    "A route, or the name of a rule that has `routes`.",
    "/api/**",
    "GET /items/{id}",
)
METHOD = text("[A-Z-]+", "A method, or `WS` for handshakes.", "GET", "WS")
HOST = text(r"[^\s/:]+|\[.*\]", "A host.", "api.example.com", "*.example.com")
RESPONDER = text(
    FUNCTION, "A function (view, verdict) -> (status, headers, body).", "python:shop.limits:refuse"
)
DETAIL: Json = {"type": "string", "minLength": 1, "description": "What the body of a refusal says."}
STORE = text(
    r"memory://|shared://(?:/.*)?|(?:unix|(?:rediss?|valkeys?)(?:\+cluster|\+sentinel)?)://.*",
    "Where the counts live.",
    "memory://",
    "shared://",
    "redis://localhost:6379/0",
)
TIMEOUT = text(
    rf"[1-9][0-9]*\s*ms|{_NUMBER}\s*{_UNIT}", "How long a call to the store may take.", "50ms", "1s"
)
ON_ERROR = choice(("allow", "deny", "fallback"), "What is done when the store does not answer.")
PREFIX = text("[A-Za-z0-9._:-]{1,64}", "First part of every key in a remote store.", "shop")
VERSION: Json = {"const": 1, "description": "The version of the format."}
_STYLES = ("draft-11", "draft-6", "draft-7", "legacy", "legacy-seconds")
HEADERS: Json = {
    "anyOf": [
        {"enum": [*_STYLES, "none", False, "off", "no"]},
        {"type": "array", "items": {"enum": list(_STYLES)}, "uniqueItems": True, "minItems": 1},
        _ENV,
    ],
    "description": "Which generations of the RateLimit fields are sent.",
}
MODE: Json = {
    **_or_env({"enum": ["enforce", "shadow", "none", False, "off", "no"]}),
    "description": "`shadow`: counted and reported, never refused. `none`: not counted.",
}
POSITIVE: Json = _or_env({"type": "integer", "minimum": 1, "maximum": 10**9})
POSITIVE["anyOf"].insert(1, {"type": "string", "pattern": f"^{_NUMBER}$"})
CONCURRENCY: Json = {**_or_env({"anyOf": [POSITIVE, _AT_ONCE]}), "description": "Requests in progress."}
FLAG: Json = _or_env({"type": "boolean"})
STATUS: Json = {**_or_env({"type": "integer", "minimum": 400, "maximum": 599}), "description": "Usually 429."}
TIMEZONE: Json = {"type": "string", "description": "A time zone.", "examples": ["Europe/Berlin", "UTC"]}
HEADER = text("[A-Za-z0-9!#$%&'*+.^`|~-]+", "The header in which proxies name the client.", "x-forwarded-for")
HOPS: Json = {
    **_or_env({"type": "integer", "minimum": 1, "maximum": 100}),
    "description": "Proxies before the app.",
}
IPV6_PREFIX: Json = {
    **_or_env({"type": "integer", "minimum": 32, "maximum": 128}),
    "description": "Bits of an IPv6 address that tell clients apart.",
}
NETWORK = text(r"unix|[0-9A-Fa-f.:]+(?:/[0-9.]+)?", "Proxies that are believed.", "10.0.0.0/8", "unix")
USER = text(rf"scope|environ|header:\S+|{FUNCTION}", "Where the name of the user comes from.", "scope")


def plain(read: Callable[[Any], Any], schema: Json) -> Any:
    """The annotation of a value that `read` reads whole."""
    return _Plain(read, schema)


@dataclass(frozen=True, eq=False)
class _Plain:
    """Both halves of a value: how it is read, and its schema."""

    read: Callable[[Any], Any]
    schema: Json

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """Only `read` validates."""
        return PlainValidator(self.read).__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Json:
        """What an editor is told."""
        return dict(self.schema)


@dataclass(frozen=True, eq=False)
class ShortForm:
    """Annotates a map whose main value may stand for it.

    Attributes:
        key: the key of the main value.
        schema: what may stand there.
    """

    key: str
    schema: Json

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """Turn the short form into the long one first."""
        return BeforeValidator(self._long_form).__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Json:
        """Either form."""
        return {"anyOf": [self.schema, handler(core)]}

    def _long_form(self, value: Any) -> Any:
        return {self.key: value} if isinstance(value, (str, int, float, bool, list)) else value


class _AsList:
    """Annotates a list of which a single item may stand for the whole."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """Wrap a single item first."""
        return BeforeValidator(self._listed).__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Json:
        """The list or an item."""
        items = handler(core)
        return {"anyOf": [items["items"], items]}

    def _listed(self, value: Any) -> Any:
        return value if isinstance(value, list) else [value]


as_list = _AsList()
