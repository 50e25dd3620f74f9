"""Where a Redis is and how to talk to it, from a URL."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from ratelimit_middleware.errors import StoreError

__all__ = ["REDIS_SCHEMES", "Address", "read_address"]

REDIS_SCHEMES = {
    "redis": "redis",
    "rediss": "rediss",
    "unix": "unix",
    "valkey": "redis",
    "valkeys": "rediss",
}
"""Schemes of URLs, and what redis-py calls them."""

_OURS = ("prefix", "timeout")
_THEIRS = ("db", "ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile")


class Address(NamedTuple):
    """A server.

    Attributes:
        url: as redis-py reads it; may hold a password.
        place: for messages: scheme, host and port or the socket's path, no secrets.
        options: what the query says to this package: `prefix`, `timeout`.
    """

    url: str
    place: str
    options: dict[str, str]


def read_address(url: str) -> Address:
    """The server that a URL names.

    Raises:
        StoreError: the URL names none, or holds a key that is not known. Only what is no secret is quoted.
    """
    parts = urlsplit(url)
    scheme = REDIS_SCHEMES.get(parts.scheme)
    if scheme is None:
        raise StoreError(f"{parts.scheme!r} is no scheme of a Redis URL: expected {', '.join(REDIS_SCHEMES)}")
    query = parse_qsl(parts.query, keep_blank_values=True)
    for key, _ in query:
        if key not in _OURS + _THEIRS:
            known = ", ".join(_OURS + _THEIRS)
            raise StoreError(f"{key!r} is not known in the URL of a Redis store: expected {known}")
    host = parts.netloc.rpartition("@")[2]
    place = parts.path if scheme == "unix" else host or "localhost"
    if scheme == "unix" and (host or not place.startswith("/")):
        raise StoreError("the URL of a Unix socket has three slashes: unix:///run/redis.sock")
    theirs = urlencode([(key, value) for key, value in query if key in _THEIRS])
    cleaned = f"{scheme}://{parts.netloc}{parts.path}?{theirs}"
    return Address(cleaned, f"{scheme}://{place}", {key: value for key, value in query if key in _OURS})
