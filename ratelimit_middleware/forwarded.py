"""What proxies say of the client: X-Forwarded-For and its like, and Forwarded (RFC 7239).

Each proxy adds an entry at the right end, so only that end can be believed; all here reads from the right
and no further than it must. The time is linear in the length of the header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from ratelimit_middleware.addresses import Address, parse_address

__all__ = ["MOST_ENTRIES", "addresses_in", "nth_from_the_right", "rightmost_untrusted"]

MOST_ENTRIES = 10_000
"""How many entries of a header are looked at."""

_BLANK = " \t"
# In the header read backwards: an odd number of backslashes escapes the quote that they follow.
_QUOTE = r'"(?=(?:\\\\)*(?!\\))'
_ESCAPED_QUOTE = r'"(?=\\(?:\\\\)*(?!\\))'
_BACKWARDS_ELEMENT = re.compile(rf'[^",]*(?:{_QUOTE}[^"]*(?:{_ESCAPED_QUOTE}[^"]*)*{_QUOTE}[^",]*)*')
_PAIR = re.compile(
    r"[ \t]*(?:(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+)="
    r'(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s";,]*))[ \t]*)?(?:;|\Z)'
)


def addresses_in(header: str, text: str) -> Iterator[Address | None]:
    """The addresses that a header names, from the right to the left.

    An entry that is no address is None: `unknown`, a made-up `_name`, a path of a socket, garbage, nothing.

    Args:
        header: its lower-case name; `forwarded` is read as RFC 7239 has it, all others as a list of
            addresses with commas between them.
        text: all lines of it, joined with commas in their order.
    """
    if header == "forwarded":
        return (parse_address(_node(element)) for element in _elements(text))
    return (parse_address(entry.strip(_BLANK)) for entry in _entries(text))


def rightmost_untrusted(
    addresses: Iterable[Address | None], is_trusted: Callable[[Address], bool]
) -> Address | None:
    """The first address from the right that is not of a trusted proxy.

    What stands left of it may be written by the client. An entry that is no address ends the search too:
    then the proxy that reported it is the last one known. Where all are trusted it is the leftmost.

    Returns:
        None when the rightmost entry is no address already.
    """
    last = None
    for address in islice(addresses, MOST_ENTRIES):
        if address is None:
            break
        last = address
        if not is_trusted(address):
            break
    return last


def nth_from_the_right(addresses: Iterable[Address | None], number: int) -> Address | None:
    """The entry that the outermost of `number` proxies has added.

    Returns:
        None when there are fewer entries. An entry that is no address ends the search as in
        `rightmost_untrusted`.
    """
    last, seen = None, 0
    for address in islice(addresses, min(number, MOST_ENTRIES)):
        if address is None:
            return last
        last, seen = address, seen + 1
    return last if seen == number else None


def _entries(text: str) -> Iterator[str]:
    """What stands between the commas, from the right."""
    end = len(text)
    while True:
        comma = text.rfind(",", 0, end)
        yield text[comma + 1 : end]
        if comma < 0:
            return
        end = comma


def _elements(text: str) -> Iterator[str]:
    """What stands between the commas outside of quotes, from the right.

    From the left, a quote that a client never closes would swallow what the proxies added.
    """
    backwards = text[::-1]
    at = 0
    while True:
        end = _BACKWARDS_ELEMENT.match(backwards, at).end()  # type: ignore[union-attr]  # matches nothing too
        if end < len(backwards) and backwards[end] != ",":
            yield ""  # a quote without its other half
            return
        yield backwards[at:end][::-1]
        if end == len(backwards):
            return
        at = end + 1


def _node(element: str) -> str:
    """The `for` of an element; empty when there is none, or two, or the element is malformed."""
    node, at = "", 0
    while at < len(element):
        pair = _PAIR.match(element, at)
        if not pair:
            return ""
        if (pair["name"] or "").lower() == "for":
            if node:
                return ""
            node = pair["quoted"] or pair["plain"] or ""
        at = pair.end()
    return node
