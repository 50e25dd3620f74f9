"""NetworkSet: many addresses and networks, searched in microseconds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from socket import AF_INET, AF_INET6, inet_pton
from typing import NamedTuple, TypeAlias

from ratelimit_middleware.addresses import Address, folded, parse_address

__all__ = ["NetworkSet", "Range", "parse_range"]

_MAPPED = int(IPv6Address("::ffff:0:0"))
_LARGEST_IPV4 = (1 << 32) - 1


class Range(NamedTuple):
    """All addresses from `first` to `last`, as numbers; IPv4 and IPv6 do not mix.

    Attributes:
        bits: of an address: 32 or 128.
        first: the lowest.
        last: the highest.
    """

    bits: int
    first: int
    last: int


def parse_range(text: str) -> Range:
    """An address or a network: `192.0.2.7`, `192.0.2.0/28`, `2001:db8::/32`.

    Mapped networks (`::ffff:192.0.2.0/124`) are those of IPv4.

    Raises:
        ValueError: it is none, or has bits beyond its prefix; the message says what is meant.
    """
    address, slash, prefix = text.partition("/")
    family = AF_INET6 if ":" in address else AF_INET
    try:
        number = int.from_bytes(inet_pton(family, address), "big")
    except (OSError, ValueError):
        return _of(_network(text))
    bits = 128 if family == AF_INET6 else 32
    free = bits - int(prefix) if prefix.isdecimal() and prefix.isascii() else 0 if not slash else -1
    if not 0 <= free <= bits or number & (1 << free) - 1:
        return _of(_network(text))
    return _unmapped(bits, number, number | (1 << free) - 1)


def _network(text: str) -> IPv4Network | IPv6Network:
    """The slow way, for other spellings and for what is none."""
    try:
        return ip_network(text.replace("%", "/%"))  # no zones: they differ from host to host
    except ValueError:
        pass
    try:
        meant = ip_network(text.replace("%", "/%"), strict=False)
    except ValueError:
        raise ValueError("is no address and no network: write `192.0.2.7` or `192.0.2.0/28`") from None
    raise ValueError(f"has bits beyond its prefix: write `{meant}` for the network")


def _of(network: IPv4Network | IPv6Network) -> Range:
    return _unmapped(network.max_prefixlen, int(network.network_address), int(network.broadcast_address))


def _unmapped(bits: int, first: int, last: int) -> Range:
    if bits == 128 and first >= _MAPPED and last <= _MAPPED + _LARGEST_IPV4:
        return Range(32, first - _MAPPED, last - _MAPPED)
    return Range(bits, first, last)


_Sorted: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""The ends of ranges that neither overlap nor touch: all the lowest addresses, and all the highest."""


@dataclass(frozen=True, slots=True)
class NetworkSet:
    """Addresses and networks, as sorted ranges: a search is a bisection, however many there are.

    Args:
        ranges: in any order; they may overlap.
    """

    ranges: tuple[Range, ...] = field(default=(), repr=False)  # there may be a great many
    _ipv4: _Sorted = field(init=False, repr=False, compare=False)
    _ipv6: _Sorted = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sort and merge."""
        merged = _merged(self.ranges)
        object.__setattr__(self, "ranges", merged)
        for name, bits in (("_ipv4", 32), ("_ipv6", 128)):
            ends = [(one.first, one.last) for one in merged if one.bits == bits]
            object.__setattr__(self, name, tuple(zip(*ends, strict=True)) or ((), ()))

    @classmethod
    def of(cls, *texts: str) -> NetworkSet:
        """From texts such as `192.0.2.0/28`.

        Raises:
            ValueError: one of them is no address and no network.
        """
        return cls(tuple(parse_range(text) for text in texts))

    def __bool__(self) -> bool:
        """Whether any address is in it."""
        return bool(self.ranges)

    def __contains__(self, address: Address) -> bool:
        """Whether an address is in one of the networks."""
        firsts, lasts = self._ipv4 if isinstance(address, IPv4Address) else self._ipv6
        number = int(address)
        place = bisect_right(firsts, number)
        return place > 0 and number <= lasts[place - 1]

    def has(self, peer: str | None, *, folding: bool) -> bool:
        """Whether a peer is in one of the networks; one without an address is in none.

        Args:
            peer: an address as servers write it.
            folding: an IPv6 address that was made of an IPv4 address (NAT64, 6to4, Teredo) is in it also if
                that IPv4 address is.
        """
        address = parse_address(peer) if peer else None
        if address is None:
            return False
        return address in self or (folding and folded(address) in self)


def _merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The ranges in order; those that overlap or touch as one."""
    merged: list[Range] = []
    for one in sorted(ranges):
        bits, first, last = one
        before = merged[-1] if merged else None
        if before and before.bits == bits and first <= before.last + 1:
            merged[-1] = Range(bits, before.first, max(last, before.last))
        else:
            merged.append(one)
    return tuple(merged)
