"""What was meant by a text that is no limit or no key: habits from other limiters, and slips.

A guess is only a guess: whoever asks reads it as the grammar does before it is shown.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from fractions import Fraction
from math import lcm

__all__ = ["meant_key", "meant_limit"]

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LARGEST_SCALE = 1000
_AROUND = " \t\n'\"\u201c\u201d\u2018\u2019;,()[]{}!/~"  # also the quotes of text processors
_NUMBER_WORDS = {"once": "1", "one": "1", "twice": "2", "two": "2", "three": "3", "five": "5", "ten": "10"}
_PER_UNIT = {"rps": "second", "tps": "second", "qps": "second", "rpm": "minute", "rph": "hour", "rpd": "day"}
# fmt: off
_UNLIMITED = frozenset({
    "none", "off", "no", "false", "null", "infinite", "infinity", "inf", ".inf", "-1", "exempt", "skip",
    "no limit", "no-limit", "nolimit", "disabled", "∞", "unlimited per ip",
})
_KEY_WORDS = {
    "ip": ("address", "addr", "client", "client_ip", "ip_address", "ip address", "remote_addr",
           "remote_address", "remote_ip", "get_remote_address", "get_ipaddr", "binary_remote_addr",
           "client.ip", "client.host", "ip"),
    "user": ("user_id", "userid", "username", "account", "login", "current_user", "member", "user.id",
             "jwt", "sub"),
    "global": ("all", "everyone", "server", "site", "app", "total", "service"),
    "route": ("endpoint", "view", "view_name", "resource", "handler"),
    "path": ("url", "uri", "request_uri"),
    "host": ("domain", "hostname", "server_name", "http_host"),
    "method": ("verb", "request_method", "http_method"),
    "cookie:session": ("session", "session_id", "sessionid"),
    "header:X-API-Key": ("api_key", "apikey", "api key", "token", "api_token", "key"),
    "header:Authorization": ("authorization", "bearer"),
}
# fmt: on
_KEYS = {word: key for key, words in _KEY_WORDS.items() for word in words}
_KINDS = {"param": "query", "arg": "query"}
_NAMED = re.compile(
    r"(header|cookie|query|param|arg)s?[\s=:.\[(]+['\"]?([^\s'\"\])]+)['\"]?[\])]?", re.IGNORECASE
)
_TURNED = re.compile(r"([\w-]+)\s+(header|cookie)", re.IGNORECASE)
_HEADER = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+", re.IGNORECASE)
_KEY_SEPARATOR = re.compile(r"\s*(?:[+,&/]|\sand\s|\sper\s)\s*", re.IGNORECASE)
_LIMIT_SEPARATOR = re.compile(r"\s*(?:[;,|&\n]|\band\b)\s*(?=[0-9])", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_UNIT = r"(?:s|sec|m|min|h|d|w|ms|second|minute|hour|day|week|month|year)s?\b"
_KEY_TAIL = re.compile(
    rf"(?P<limit>.*[0-9].*?)(?:\s+(?:per|by|for each|for)\s+|\s*/\s*)(?!{_UNIT})(?P<key>[a-z$_'\"].*)",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"(?P<count>[0-9]*\.?[0-9]+)\s*(?:/|\bper\b)\s*(?P<amount>(?:[0-9]*\.?[0-9]+)?)\s*(?P<unit>[a-z]+)"
)


def _per_unit(found: re.Match[str]) -> str:
    return f"{found[1]}/{_PER_UNIT[found[2]]}"


def _nginx_burst(found: re.Match[str]) -> str:
    """Nginx admits one more than its burst at once."""
    return f"burst {int(found[1]) + 1}"


def _thousands(found: re.Match[str]) -> str:
    count = Fraction(found[1]) * (1000 if found[2] == "k" else 10**6)
    return str(count) if count.denominator == 1 else found[0]


def _whole(found: re.Match[str]) -> str:
    """The same rate in whole numbers."""
    if re.search(r"\.[0-9]{3}$", found["count"]):  # a thousand, in some countries
        return found[0]
    count, amount, unit = Fraction(found["count"]), Fraction(found["amount"] or 1), found["unit"]
    if (
        unit.startswith("mo")
        or unit[0] not in _SECONDS
        or count.denominator * amount.denominator > _LARGEST_SCALE
    ):
        return found[0]
    if unit in ("ms", "millisecond", "milliseconds"):
        amount, unit = amount / 1000, "second"
    elif amount.denominator > 1:
        amount, unit = amount * _SECONDS[unit[0]], "second"
    scale = lcm(count.denominator, amount.denominator)
    count, amount = count * scale, amount * scale
    return f"{count}/{unit}" if amount == 1 else f"{count}/{amount}{unit[0]}"


_STEPS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"^(?:rate\s*=|limit\s*[=:]|max|up to|at most|<=?)\s*", ""),
    (rf"^(?:{'|'.join(_NUMBER_WORDS)})\b", lambda found: _NUMBER_WORDS[found[0]]),
    (r"([0-9])\s*(rps|tps|qps|rpm|rph|rpd)\b", _per_unit),
    (r"(?<=[0-9\s])\s*(?:requests?|reqs?|r|hits?|calls?|times)\s*(?=/|per\b|an?\b|every\b|each\b|in\b)", " "),
    (r"\s+(?:an?|every|each|in|within)\s+(?=[0-9a-z])", "/"),
    (r"^([0-9.]+)([km])(?=\s*/|\s+per\b)", _thousands),
    (rf"^([0-9]+)\s*[-:\\\s]\s*(?={_UNIT})", r"\1/"),
    (rf"^(?:per\s+)?({_UNIT})\s*[:/\s]\s*([0-9]+)$", r"\2/\1"),
    (r"(/\s*[0-9]+)$", r"\1s"),
    (r"[()]", ""),
    (r"\s*/[\s/]*", "/"),
    (r"\s+", " "),
    (r"\.$", ""),
    (r"\bburst\s*[=:]?\s*([0-9]{1,9})\s+nodelay$", _nginx_burst),
    (r"[\s,;+]*\bb[urst]{3,6}\b\s*(?:of\b|[=:(])?\s*([0-9]+)\)?", r" burst \1"),
    (r"\s*\+\s*([0-9]+)$", r" burst \1"),
)
"""Rewritten one after the other, in lower case."""


def meant_limit(text: str) -> str:
    """What the author of the text may have meant, or the text as it is."""
    plain = _THOUSANDS.sub("_", text.strip(_AROUND))
    return "; ".join(_meant_one(part) for part in _LIMIT_SEPARATOR.split(plain))


def _meant_one(text: str) -> str:
    if text.lower() in _UNLIMITED or difflib.get_close_matches(text.lower(), ["unlimited"], cutoff=0.8):
        return "unlimited"
    found = _KEY_TAIL.fullmatch(text)
    limit, key = found.group("limit", "key") if found else (text, "")
    limit = limit.lower().rstrip(" ,;")
    for pattern, instead in _STEPS:
        limit = re.sub(pattern, instead, limit)
    if "." in limit or "ms" in limit or "milli" in limit:
        limit = _RATE.sub(_whole, limit)
    return f"{limit} per {meant_key(key)}" if key else limit


def meant_key(text: str) -> str:
    """What the author of the text may have meant, or the text as it is."""
    return "+".join(_meant_part(part) for part in _KEY_SEPARATOR.split(text.strip()))


def _meant_part(text: str) -> str:
    word = text.strip("'\"$ ").lower().replace("-", "_").removeprefix("request.")
    if word in _KEYS:
        return _KEYS[word]
    named = _NAMED.fullmatch(text)
    if named:
        kind = named[1].lower()
        return f"{_KINDS.get(kind, kind)}:{named[2]}"
    turned = _TURNED.fullmatch(text)
    if turned:
        return f"{turned[2].lower()}:{turned[1]}"
    return f"header:{text}" if _HEADER.fullmatch(text) else text.strip("'\"")
