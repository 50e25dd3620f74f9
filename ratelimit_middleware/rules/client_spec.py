"""The shape of `client`: who the client of a request is.

Raises:
    GrammarError: while a file is checked, when a value is not what its key takes.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Network, ip_network
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from ratelimit_middleware.client import Client, Network, UserSource
from ratelimit_middleware.rules.callables import asked
from ratelimit_middleware.rules.fields import read_flag
from ratelimit_middleware.rules.rule_fields import read_missing
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.values import (
    FLAG,
    HEADER,
    HOPS,
    IPV6_PREFIX,
    NETWORK,
    USER,
    as_list,
    choice,
    plain,
)
from ratelimit_middleware.rules.words import GrammarError, shown, unknown

__all__ = ["ClientSpec", "HeaderName", "Ipv6Prefix", "MissingWord", "read_header"]

_HEADER = re.compile(r"[!#$%&'*+.^`|~0-9a-z-]+")
_MAPPED = IPv6Network("::ffff:0:0/96")
_MOST_HOPS = 100
_SHORTEST_PREFIX = 32  # what a provider gets, at least


def _network(value: Any) -> Network | Literal["unix"]:
    """Proxies that are believed: a network, an address, or `unix` for all peers without an address."""
    if value == "unix":
        return "unix"
    if value == "*":
        raise GrammarError(
            "`*` would believe everybody, so a client could write any address into the header: name the"
            " networks of your proxies, such as `10.0.0.0/8`"
        )
    if not isinstance(value, str):
        raise GrammarError(f"{shown(value)} is not a network: write `10.0.0.0/8`, an address, or `unix`")
    try:
        network = ip_network(value.strip().replace("%", "/%"))  # no zones: they differ from host to host
    except ValueError:
        raise GrammarError(_no_network(value)) from None
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        address = network.network_address.ipv4_mapped
        return ip_network(f"{address}/{network.prefixlen - 96}")
    return network


def _no_network(value: str) -> str:
    try:
        meant = ip_network(value.strip(), strict=False)
    except ValueError:
        return f"{shown(value)} is not a network: write `10.0.0.0/8`, an address (not a name), or `unix`"
    return f"{shown(value)} has bits beyond its prefix: write `{meant}` for the network"


def _hops(value: Any) -> int:
    """The number of proxies before the app."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_HOPS:
        raise GrammarError(
            f"hops {shown(value)} is not allowed: it is a number of proxies, from 1 to {_MOST_HOPS}"
        )
    return value


def read_header(value: Any) -> str:
    """The name of a header, in lower case."""
    name = value.strip().lower() if isinstance(value, str) else ""
    if "_" in name and _HEADER.fullmatch(name.replace("_", "-")):
        raise GrammarError(f"{shown(value)} is not the name of a header: write `{name.replace('_', '-')}`")
    if not _HEADER.fullmatch(name):
        raise GrammarError(
            f"{shown(value)} is not the name of a header: write `x-forwarded-for`, `forwarded`, `x-real-ip`"
            " or the one that your proxy sets"
        )
    return name


def _ipv6_prefix(value: Any) -> int:
    """How many bits of an IPv6 address tell clients apart."""
    if isinstance(value, bool) or not isinstance(value, int) or not _SHORTEST_PREFIX <= value <= 128:
        raise GrammarError(
            f"ipv6_prefix {shown(value)} is not allowed: it is a number of bits from {_SHORTEST_PREFIX} to"
            " 128, usually 64"
        )
    return value


def _user(value: Any) -> UserSource:
    """Where the name of the user comes from."""
    text = value.strip() if isinstance(value, str) else ""
    if text == "scope":
        return UserSource("scope")
    if text == "environ":
        return UserSource("environ")
    if text.startswith("python:"):
        function = asked(text)
        return UserSource("python", function.name, function)
    kind, colon, name = text.partition(":")
    if kind == "header" and colon:
        return UserSource("header", read_header(name))
    known = ("environ", "header:NAME", "python:MODULE:FUNCTION", "scope")
    raise GrammarError(unknown("source of the user", value, known))


MissingWord: TypeAlias = Annotated[
    Literal["ip", "skip", "deny"],
    plain(read_missing, choice(("ip", "skip", "deny"), "When a part of the key is not there.")),
]
Ipv6Prefix: TypeAlias = Annotated[int, plain(_ipv6_prefix, IPV6_PREFIX)]
HeaderName: TypeAlias = Annotated[str, plain(read_header, HEADER)]


class ClientSpec(Spec):
    """Who the client is."""

    trusted_proxies: Annotated[
        list[Annotated[Network | Literal["unix"], plain(_network, NETWORK)]], Field(min_length=1), as_list
    ] = Field(default_factory=list)
    hops: Annotated[int, plain(_hops, HOPS)] | None = None
    header: HeaderName = "x-forwarded-for"
    ipv6_prefix: Ipv6Prefix = 64
    missing: MissingWord = "ip"
    user: Annotated[UserSource, plain(_user, USER)] | None = None
    trusted: Annotated[bool, plain(read_flag("trusted"), FLAG)] = False

    @model_validator(mode="after")
    def _fits_together(self) -> ClientSpec:
        """Refuse a header that anybody could write, and keys without effect."""
        if "header" in self.model_fields_set and not self.trusted_proxies and not self.hops:
            raise GrammarError(
                "`header` alone would let every client write its own address: say whose word counts, with"
                " `trusted_proxies: [10.0.0.0/8]` or with `hops: 1`",
                "header",
            )
        from_header = self.user is not None and self.user.kind == "header"
        if self.user and from_header and not self.trusted:
            raise GrammarError(
                f"`header:{self.user.name}` is written by the client, who could be any user: write"
                " `trusted: true` beside it if a proxy sets it",
                "user",
            )
        if self.trusted and not from_header:
            raise GrammarError("`trusted` has no effect here: it is for `user: header:NAME`", "trusted")
        return self

    @property
    def settings(self) -> Client:
        """What the middlewares need of it."""
        networks = tuple(one for one in self.trusted_proxies if one != "unix")
        return Client(networks, "unix" in self.trusted_proxies, self.hops, self.header, self.user)
