"""What a key looks like as text.

key    = part *( "+" part )
part   = "ip" | "user" | "route" | "path" | "method" | "host" | "global"
       | "header:" NAME | "cookie:" NAME | "query:" NAME | "python:" MODULE ":" FUNCTION
"""

from __future__ import annotations

import re

from ratelimit_middleware.rules.callables import asked
from ratelimit_middleware.rules.hints import meant_key
from ratelimit_middleware.rules.model import KeyKind, KeyPart
from ratelimit_middleware.rules.words import GrammarError, reads, shown, unknown

__all__ = ["SIMPLE_PARTS", "key_text", "parse_key"]

SIMPLE_PARTS: tuple[KeyKind, ...] = ("ip", "user", "global", "route", "path", "method", "host")
"""The parts that are a word."""

_NAMED_PARTS: tuple[KeyKind, ...] = ("header", "cookie", "query")
_PARTS = (*SIMPLE_PARTS, "header:NAME", "cookie:NAME", "query:NAME", "python:MODULE:FUNCTION")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*.^_`|~-]+")
_QUERY_NAME = re.compile(r"[^\s+&=#;,]+")
_LONGEST = 500


def parse_key(text: str) -> tuple[KeyPart, ...]:
    """The parts of a key such as `ip+route`.

    Raises:
        GrammarError: a part is not known, not supported yet or stands twice.
    """
    if len(text) > _LONGEST:
        raise GrammarError(f"a key of {len(text)} characters is too long: {_LONGEST} are allowed")
    try:
        parts = _parts(text)
    except GrammarError:
        meant = meant_key(text)
        if meant == text or not reads(_parts, meant):
            raise
        raise GrammarError(f"{shown(text)} is no key: write {shown(meant)}") from None
    if len(set(parts)) < len(parts):
        raise GrammarError(f"the key {shown(text)} has a part twice")
    return parts


def _parts(text: str) -> tuple[KeyPart, ...]:
    return tuple(_key_part(part.strip()) for part in text.split("+"))


def _key_part(text: str) -> KeyPart:
    word, colon, name = text.partition(":")
    kind = word.lower()
    if not colon:
        for simple in SIMPLE_PARTS:
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
