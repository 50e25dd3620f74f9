"""The arguments of the command, each checked before anything is done.

Raises:
    argparse.ArgumentTypeError: from every function here; argparse shows it with the usage.
"""

from __future__ import annotations

import ipaddress
import re
from argparse import ArgumentTypeError

from ratelimit_middleware.rules.words import shown

__all__ = ["header", "ip_address", "method", "path", "place", "times", "user"]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_VALUE = re.compile(r"[\t -~\x80-\xff]*")
_PLACE = re.compile(r"\w+(?:\.\w+)*:\w+(?:\.\w+)*(?:\(\))?")
_MOST_TIMES = 100_000


def method(text: str) -> str:
    """A method, upper case."""
    if not _TOKEN.fullmatch(text):
        raise ArgumentTypeError(f"{shown(text)} is not a method: write GET, POST, … or WS")
    return text.upper()


def path(text: str) -> str:
    """A path as it stands in a request line, percent-encoded where needed."""
    if not text.startswith("/"):
        raise ArgumentTypeError(f"{shown(text)} is not a path: it begins with `/`, such as `/items/7`")
    if not text.isprintable():
        raise ArgumentTypeError(f"{shown(text)} has characters to be percent-encoded, such as `%0A`")
    return text


def ip_address(text: str) -> str:
    """An IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise ArgumentTypeError(
            f"{shown(text)} is not an IP address: write it as `192.0.2.7` or `2001:db8::7`"
        ) from None
    return text


def header(text: str) -> tuple[str, str]:
    """A header line as name and value."""
    name, colon, value = text.partition(":")
    if not colon or not _TOKEN.fullmatch(name):
        raise ArgumentTypeError(f"{shown(text)} is not a header: write it as `X-API-Key: abc`")
    if not _VALUE.fullmatch(value):
        raise ArgumentTypeError(f"the value of the header {shown(name)} is not plain text of latin-1")
    return name, value.strip()


def user(text: str) -> str:
    """Who is logged in."""
    if not text:
        raise ArgumentTypeError(f"{shown(text)} is nobody: leave `--user` out, or write a name")
    return text


def place(text: str) -> str:
    """Where an app is found: `MODULE:NAME`, or `MODULE:NAME()` for a function that makes it."""
    if not _PLACE.fullmatch(text):
        raise ArgumentTypeError(
            f"{shown(text)} is not the place of an app: write MODULE:APP, such as `shop.main:app`, or"
            " `shop.main:create_app()`"
        )
    return text


def times(text: str) -> int:
    """How often."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= _MOST_TIMES):
        raise ArgumentTypeError(f"{shown(text)} is not a whole number from 1 to {_MOST_TIMES}")
    return int(text)
