"""Addresses as servers and proxies write them, and the one client that each stands for."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias, TypeVar

__all__ = ["LONGEST_ADDRESS", "Address", "Remembered", "folded", "parse_address"]

Address: TypeAlias = IPv4Address | IPv6Address
_K = TypeVar("_K", bound="Hashable | None")
_V = TypeVar("_V")

LONGEST_ADDRESS = 100
"""Characters of an IPv6 address with zone, brackets and port; what is longer is none."""

_MOST_REMEMBERED = 8192
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052, 2.1
# `192.0.2.7:4711`, `[2001:db8::7]:4711`; the port may be made up, as in RFC 7239, 6.2.
_WITH_PORT = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<v4>[0-9.]+))(?::(?:[0-9]{1,5}|_[A-Za-z0-9._-]+))?")


class Remembered(dict[_K, _V]):
    """The answers of a function by its argument: a bounded number of them, and those of short texts only.

    Looked up as a dict, so that what is known costs no call of Python.

    Args:
        function: what is asked for an argument that is not known.
        longest: texts above this length are answered anew each time, or a client could fill the memory.
    """

    __slots__ = ("_function", "_longest")

    def __init__(self, function: Callable[[_K], _V], longest: int = LONGEST_ADDRESS) -> None:
        super().__init__()
        self._function = function
        self._longest = longest

    def __missing__(self, asked: _K) -> _V:
        """Ask the function."""
        answer = self._function(asked)
        if not isinstance(asked, str) or len(asked) <= self._longest:
            if len(self) >= _MOST_REMEMBERED:  # dropping all is rare, and what is in use comes back at once
                self.clear()
            self[asked] = answer
        return answer


def parse_address(text: str) -> Address | None:
    """The address in a text: with or without port, brackets, zone and a pair of quotes; None if it is none.

    Mapped IPv4 addresses (`::ffff:192.0.2.7`) are IPv4 addresses, for so a socket that serves both writes
    them.
    """
    return _parsed(text) if len(text) <= LONGEST_ADDRESS else None


@lru_cache(maxsize=_MOST_REMEMBERED)
def _parsed(text: str) -> Address | None:
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    parts = _WITH_PORT.fullmatch(text)
    plain = (parts["v6"] or parts["v4"] or "") if parts else text
    try:
        address = ip_address(plain.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def folded(address: Address) -> Address:
    """The IPv4 address that an IPv6 address was made of, where the answer of a server finds the way by it.

    That is so for NAT64 (RFC 6052), 6to4 (RFC 3056, where one IPv4 address has 65,536 networks of 64 bits)
    and Teredo (RFC 4380, where thousands share one such network).
    """
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    teredo = address.teredo
    return address.sixtofour or (teredo[1] if teredo else address)
