"""Who is the client: the values of a limit's key, and the bucket's key built from them.

A key is `limit|part|part`. Every part is tagged or escaped so that no two limits, kinds or clients ever
share a key by accident; parts are bounded in length, and what may be secret is hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from ipaddress import IPv6Address, IPv6Network
from socket import AF_INET, inet_pton
from typing import Literal, TypeAlias
from urllib.parse import quote

from ratelimit_middleware.addresses import LONGEST_ADDRESS, Remembered, folded, parse_address
from ratelimit_middleware.asking import note, said
from ratelimit_middleware.request import Asked, RequestView
from ratelimit_middleware.request_texts import Doubtful, fold, unquoted

__all__ = [
    "CLIENT_WRITTEN",
    "REGISTERED_METHODS",
    "SAID_BY_APP",
    "KeyBuilder",
    "KeyKind",
    "KeyPart",
    "Missing",
    "bucket_key",
    "client_address",
    "client_forms",
    "key_builder",
    "overflow_key",
    "part_value",
    "subscriber_of",
    "value_or_failure",
]

KeyKind: TypeAlias = Literal[
    "ip", "user", "global", "route", "path", "method", "host", "header", "cookie", "query", "python"
]
Missing: TypeAlias = Literal["ip", "skip", "deny"]
KeyBuilder: TypeAlias = Callable[[RequestView, str], "str | None"]
"""From a request and its route to the key of a bucket; None when a part is missing."""

CLIENT_WRITTEN: frozenset[KeyKind] = frozenset({"header", "cookie", "query", "host"})
"""Parts that a client may change at will to get a fresh bucket."""

SAID_BY_APP: frozenset[KeyKind] = frozenset({"user", "python"})
"""Parts whose values come from code of the app, which may fail."""

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
        name: of the header (lower case), cookie or query parameter, or `MODULE:FUNCTION`; else empty.
        asked: the function, for `python`.
        any_case: paths that differ in case only are one, for `path`.
        ipv6_prefix: bits of an IPv6 address that tell clients apart, for `ip` and for the address that takes
            the place of what is missing.
    """

    kind: KeyKind
    name: str = ""
    asked: Asked | None = field(default=None, compare=False, repr=False)
    any_case: bool = field(default=False, repr=False)
    ipv6_prefix: int = field(default=_IPV6_PREFIX, repr=False)


def key_builder(limit_id: str, parts: Sequence[KeyPart], missing: Missing = "ip") -> KeyBuilder:
    """What gives the key of the bucket that a request falls into, made once for a limit.

    Args:
        limit_id: unique id of the limit.
        parts: the limit's key.
        missing: `ip` puts the address in the place of a value that a request does not have. Where a
            function of the app fails, the address takes its place in any case.
    """
    prefix = f"{_escaped(limit_id)}|"
    address_of = subscriber_of(parts[0].ipv6_prefix)

    def of_address(view: RequestView, route: str) -> str:  # noqa: ARG001 - one shape for all keys
        return prefix + address_of(view.peer)

    def of_parts(view: RequestView, route: str) -> str | None:
        texts = []
        for part in parts:
            value, failed = value_or_failure(part, view, route)
            if value is not None:
                texts.append(_WRITTEN[part.kind](value))
            elif missing == "ip" or failed:
                texts.append(f"!{address_of(view.peer)}")
            else:
                return None
        return prefix + "|".join(texts)

    return of_address if [part.kind for part in parts] == ["ip"] else of_parts


def bucket_key(limit_id: str, parts: Sequence[KeyPart], view: RequestView, route: str) -> str:
    """The key of one request's bucket; see `key_builder`."""
    key = key_builder(limit_id, parts)(view, route)
    assert key is not None  # noqa: S101 - the address takes the place of what is missing
    return key


def part_value(part: KeyPart, view: RequestView, route: str) -> str | None:
    """The plain value of a part; None when the request does not have it.

    Args:
        part: which part.
        view: the request.
        route: pattern of the route that matched, empty where none did.

    Raises:
        TypeError: a function of the app gave neither a text nor None.
    """
    if part.kind == "route":
        return route
    if part.kind == "python":
        return _said(part, view)
    if part.kind == "path":
        return _path(part, view)
    if part.kind == "ip":
        return subscriber_of(part.ipv6_prefix)(view.peer)
    named = _NAMED.get(part.kind)
    return named(view, part.name) if named else _PLAIN[part.kind](view)


def value_or_failure(part: KeyPart, view: RequestView, route: str) -> tuple[str | None, bool]:
    """The value of a part, and whether it cannot be told, so that `missing` does not matter.

    That is so where the app's code has failed, which the log is told, and where a client sends a header,
    cookie or parameter several times: the app takes one of them, and the others would be fresh buckets.
    """
    try:
        value = part_value(part, view, route)
    except Exception as error:
        if part.kind not in SAID_BY_APP:
            raise
        note(view, part.name or part.kind, error)
        return None, True
    if part.kind in _NAMED and isinstance(value, Doubtful):
        return None, True
    return value, False


def overflow_key(limit_id: str) -> str:
    """The key of the bucket that new clients of a limit share when a store is full."""
    return f"{_escaped(limit_id)}|*"


def client_forms(client: str, ipv6_prefix: int = _IPV6_PREFIX) -> frozenset[str]:
    """All the ways in which a client may stand in a key: an address, a name, or a value that is hashed."""
    address = client_address(client, ipv6_prefix)
    return frozenset({client, _escaped(client), _hashed(client), address, f"!{address}"})


def client_address(peer: str | None, ipv6_prefix: int = _IPV6_PREFIX) -> str:
    """The address that counts as one client.

    IPv4 whole, IPv6 by a prefix. IPv6 addresses that were made of an IPv4 address (mapped, NAT64, 6to4,
    Teredo) are that address. Ports, brackets and zones do not count. A peer that is no address (a test
    client's name) counts as itself; all that have none (a Unix socket) count as one, named `unix`.
    """
    return subscriber_of(ipv6_prefix)(peer)


@lru_cache(maxsize=128)
def subscriber_of(ipv6_prefix: int) -> Callable[[str | None], str]:
    """`client_address` for one prefix, as a look-up that is as fast as a dict."""

    def written(peer: str | None) -> str:
        address = parse_address(peer) if peer else None
        if address is None:
            return f"={_escaped(peer)}" if peer else _NO_ADDRESS
        address = folded(address)
        if isinstance(address, IPv6Address):
            return str(IPv6Network((address, ipv6_prefix), strict=False))
        return str(address)

    remembered = Remembered(written, LONGEST_ADDRESS)

    def subscriber(peer: str | None) -> str:
        if not peer or ":" in peer:
            return remembered[peer]
        try:
            inet_pton(AF_INET, peer)  # takes an address as `ipaddress` writes it, and in no other way
        except (OSError, ValueError):
            return remembered[peer]
        return peer

    return subscriber


def _method(view: RequestView) -> str:
    """The method; made-up ones share a value, or a client could make buckets of them."""
    if view.kind == "websocket":
        return "WS"
    return view.method if view.method in REGISTERED_METHODS else "*other"


def _path(part: KeyPart, view: RequestView) -> str:
    """The plain path, or a client could make buckets of its spellings."""
    path = fold(view.path)
    return path.lower() if part.any_case else path


def _said(part: KeyPart, view: RequestView) -> str | None:
    """What a function of the app says."""
    value = said(part.asked, view) if part.asked else None
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{part.name} gave {type(value).__name__} for a key: expected a text or None")
    return value


def _cookie(view: RequestView, name: str) -> str | None:
    """The cookie as the app reads it, or a client could make buckets of its spellings."""
    value = view.cookie(name)
    return value if value is None or isinstance(value, Doubtful) else unquoted(value)


def _everyone(view: RequestView) -> str:  # noqa: ARG001 - one shape for all parts
    return "*global"


_PLAIN: dict[KeyKind, Callable[[RequestView], str | None]] = {
    "user": lambda view: view.user,
    "global": _everyone,
    "method": _method,
    "host": lambda view: view.host,
}
_NAMED: dict[KeyKind, Callable[[RequestView, str], str | None]] = {
    "header": lambda view, name: view.header(name),
    "cookie": lambda view, name: _cookie(view, name),
    "query": lambda view, name: view.query(name),
}


def _escape(text: str) -> str:
    """`text` as printable ASCII without separators; a long one is replaced by its hash."""
    plain = quote(text, safe="/{}:,<> =", errors="surrogatepass")
    return plain if len(plain) <= _LONGEST_PART else f"#{_digest(text)}"


_escaped = Remembered(_escape, _LONGEST_PART).__getitem__


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _hashed(value: str) -> str:
    return f"#{_digest(value)}"


_WRITTEN: dict[KeyKind, Callable[[str], str]] = {
    "ip": str,
    "global": str,
    "method": str,
    "user": _escaped,
    "route": _escaped,
    "path": _escaped,
    "host": _escaped,
    "header": _hashed,
    "cookie": _hashed,
    "query": _hashed,
    "python": _hashed,
}
"""How a value stands in a key: as it is, escaped, or hashed where it may be a secret."""
