"""What fuzzing feeds: parsers of what clients and proxies send. Any exception is a finding.

The bytes that a fuzzer makes up are cut at NULs into the texts of a request.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

from ratelimit_middleware.addresses import parse_address
from ratelimit_middleware.client import Client
from ratelimit_middleware.forwarded import addresses_in, nth_from_the_right, rightmost_untrusted
from ratelimit_middleware.identity import KeyKind, KeyPart, key_builder
from ratelimit_middleware.request import AsgiView, RequestView, WsgiView
from ratelimit_middleware.request_texts import cookie_of, fold, host_of, parameter_of, readings
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.match import Matcher

KINDS: tuple[KeyKind, ...] = ("ip", "user", "path", "method", "host", "header", "cookie", "query")
RULES: dict[str, Any] = {
    "limits": {
        "/items/{id:int}": "1/s",
        "/f/{x:float}/{y:uuid}": "1/s",
        "/free/**": "unlimited",
        "~/v[0-9]+/.*": "1/s",
        "~/.*\\.png": {"limit": "1/s", "name": "images", "case_sensitive": False},
        "/case/{rest:path}": {"limit": "1/s", "case_sensitive": False},
        "/hosted": {"limit": "1/s", "hosts": ["a.example", "*.b.example", "[::1]"]},
    },
    "default": "1/s",
}
MATCHER = Matcher(load_rules(RULES, env={}))
LONGEST_KEY = 512


def identity(data: bytes) -> None:
    """Who the client is, and the keys of the buckets, under ASGI and WSGI."""
    path, root, method, peer, user, query, host, line = _cut(data, 8)
    names = (b"host", b"cookie", b"a", b"x-forwarded-for", b"forwarded")
    headers = list(zip(names, (host, line, line, line, line), strict=True))
    asgi = AsgiView(
        {
            "type": "http",
            "path": _text(path),
            "root_path": _text(root),
            "method": _text(method),
            "client": (_text(peer), 1),
            "user": _text(user),
            "query_string": query,
            "headers": headers,
        }
    )
    wsgi = WsgiView(
        {
            f"HTTP_{name.decode().upper().replace('-', '_')}": value.decode("latin-1")
            for name, value in headers
        }
        | {"PATH_INFO": path.decode("latin-1"), "REQUEST_METHOD": method.decode("latin-1")}
        | {"REMOTE_ADDR": peer.decode("latin-1"), "QUERY_STRING": query.decode("latin-1")}
    )
    for view in (asgi, wsgi):
        _check(view)


def paths(data: bytes) -> None:
    """Paths and hosts, folded and matched."""
    path, root, host = _cut(data, 3)
    text = _text(path)
    plain = fold(text)
    assert plain.startswith("/")
    assert plain.endswith("\n") or fold(plain) == plain
    assert all(name == name.lower() for name in readings(host_of(host.decode("latin-1"))))
    headers = [(b"host", host)]
    view = AsgiView({"type": "http", "path": text, "root_path": _text(root), "headers": headers})
    assert MATCHER.match(view) == MATCHER.match(view)


def headers(data: bytes) -> None:
    """What proxies and clients write into headers; what stands in front of the last entry changes nothing."""
    text = data.decode("latin-1")
    for name, entry in (("forwarded", "for=192.0.2.7"), ("x-forwarded-for", "192.0.2.7")):
        rightmost_untrusted(addresses_in(name, text), lambda address: address.is_private)
        nth_from_the_right(addresses_in(name, text), 3)
        last = rightmost_untrusted(addresses_in(name, f"{text},{entry}"), lambda _: False)
        assert last == ip_address("192.0.2.7"), (name, last)
    parse_address(text)
    cookie_of(text, "a")
    parameter_of(text, "a")


HARNESSES: dict[str, Callable[[bytes], None]] = {"identity": identity, "paths": paths, "headers": headers}


def _check(view: RequestView) -> None:
    for kind in KINDS:
        key = key_builder("limit", [KeyPart(kind, "a")])(view, view.path)
        assert key, kind
        assert key.isascii(), key
        assert key.isprintable(), key
        assert len(key) < LONGEST_KEY, key
    for header in ("x-forwarded-for", "forwarded"):
        Client(hops=2, header=header).peer_of(view)
    MATCHER.match(view)


def _cut(data: bytes, number: int) -> list[bytes]:
    """So many parts; those that are not there are empty."""
    parts = data.split(b"\0", number - 1)
    return parts + [b""] * (number - len(parts))


def _text(data: bytes) -> str:
    """As servers decode a path; a few let half surrogate pairs through."""
    return data.decode("utf-8", "replace" if data[:1] != b"\x01" else "surrogateescape")
