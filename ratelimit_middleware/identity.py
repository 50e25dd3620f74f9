"""Who is the client: the values of a limit's key, and the bucket's key built from them.

A key is `limit|part|part`. Every part is tagged or escaped so that no two limits, kinds or clients ever
share a key by accident; parts are bounded in length, and what may be secret is hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Literal, TypeAlias
from urllib.parse import quote

from ratelimit_middleware.request import RequestView

__all__ = ["REGISTERED_METHODS", "KeyKind", "KeyPart", "bucket_key", "client_address", "overflow_key"]

KeyKind: TypeAlias = Literal["ip", "global", "route", "method", "header"]

REGISTERED_METHODS = frozenset(
    "GET HEAD POST PUT PATCH DELETE OPTIONS TRACE CONNECT QUERY ACL BASELINE-CONTROL BIND CHECKIN"
    " CHECKOUT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE"
    " ORDERPATCH PROPFIND PROPPATCH REBIND REPORT SEARCH UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE"
    " UPDATEREDIRECTREF VERSION-CONTROL".split()
)
"""The HTTP method registry of IANA."""

_IPV6_PREFIX = 64
_LONGEST_PART = 128
_NO_ADDRESS = "unix"


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One part of a limit's key: what splits its traffic into buckets.

    Attributes:
        kind: where the value comes from.
        name: the header's lower-case name for `header`, else empty.
    """

    kind: KeyKind
    name: str = ""


def bucket_key(limit_id: str, parts: Sequence[KeyPart], view: RequestView, route: str) -> str:
    """The key of the bucket that a request falls into.

    Args:
        limit_id: unique id of the limit.
        parts: the limit's key.
        view: the request.
        route: pattern of the route that matched, empty where none did.
    """
    values = [_VALUES[part.kind](part, view, route) for part in parts]
    return "|".join((_escaped(limit_id), *values))


def overflow_key(limit_id: str) -> str:
    """The key of the bucket that new clients of a limit share when a store is full."""
    return f"{_escaped(limit_id)}|*"


@lru_cache(maxsize=8192)
def client_address(peer: str | None) -> str:
    """The address that counts as one client: IPv4 whole (mapped ones folded), IPv6 by /64, no zone.

    A peer that is no address (a Unix socket, a test client's name) counts as itself.
    """
    if not peer:
        return _NO_ADDRESS
    try:
        address: IPv4Address | IPv6Address = ip_address(peer.partition("%")[0])
    except ValueError:
        return f"={_escaped(peer)}"
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped else str(IPv6Network((address, _IPV6_PREFIX), strict=False))
    return str(address)


def _ip(part: KeyPart, view: RequestView, route: str) -> str:  # noqa: ARG001 - one shape for all parts
    return client_address(view.peer)


def _global(part: KeyPart, view: RequestView, route: str) -> str:  # noqa: ARG001
    return "*global"


def _route(part: KeyPart, view: RequestView, route: str) -> str:  # noqa: ARG001
    return _escaped(route)


def _method(part: KeyPart, view: RequestView, route: str) -> str:  # noqa: ARG001
    """The method; made-up ones share a value, or a client could make buckets of them."""
    if view.kind == "websocket":
        return "WS"
    return view.method if view.method in REGISTERED_METHODS else "*other"


def _header(part: KeyPart, view: RequestView, route: str) -> str:
    """The hashed value; a client that leaves the header out counts by its address."""
    value = view.header(part.name)
    return f"!{_ip(part, view, route)}" if value is None else f"#{_digest(value)}"


_VALUES: dict[KeyKind, Callable[[KeyPart, RequestView, str], str]] = {
    "ip": _ip,
    "global": _global,
    "route": _route,
    "method": _method,
    "header": _header,
}


@lru_cache(maxsize=8192)
def _escaped(text: str) -> str:
    """`text` as printable ASCII without separators; a long one is replaced by its hash."""
    plain = quote(text, safe="/{}:,<> =", errors="surrogatepass")
    return plain if len(plain) <= _LONGEST_PART else f"#{_digest(text)}"


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
