"""Where a Redis is and how to talk to it, from a URL. Pure: nothing is looked up or reached."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from ratelimit_middleware.errors import StoreError

__all__ = ["REDIS_SCHEMES", "Node", "RedisUrl", "read_redis_url"]

Node: TypeAlias = "tuple[str, int]"
"""Host and port of a server."""

_Kind: TypeAlias = Literal["single"]

REDIS_SCHEMES: dict[str, tuple[str, _Kind]] = {
    "redis": ("redis", "single"),
    "rediss": ("rediss", "single"),
    "unix": ("unix", "single"),
    "valkey": ("redis", "single"),
    "valkeys": ("rediss", "single"),
}
"""Schemes of URLs: what redis-py calls them, and what they lead to."""

_PORT = 6379
_OURS = ("prefix", "timeout")
_TLS = ("ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile")
_VALUES = {
    "ssl_cert_reqs": ("none", "optional", "required"),
    "ssl_check_hostname": ("true", "false", "yes", "no", "1", "0"),
}
_UNSAFE = re.compile(r"[\s\x00-\x1f\x7f#]")
_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\]|[^\[\]:/@,]+")
_PORT_NUMBER = re.compile(r"[0-9]{1,5}")
_DATABASE = re.compile(r"[0-9]{1,5}")


class RedisUrl(NamedTuple):
    """Servers, and how to talk to them.

    Attributes:
        scheme: as redis-py has it: `redis`, `rediss` or `unix`.
        kind: what the URL leads to.
        nodes: the servers it names; none for a Unix socket.
        path: of the Unix socket.
        db: the database.
        login: user and password as the URL has them, with the `@` behind them.
        tls: the settings for TLS.
        options: what the query says to this package: `prefix`, `timeout`.
    """

    scheme: str
    kind: _Kind
    nodes: tuple[Node, ...]
    path: str
    db: int
    login: str
    tls: tuple[tuple[str, str], ...]
    options: dict[str, str]

    @property
    def place(self) -> str:
        """For messages: scheme, hosts and ports or the socket's path, no secrets."""
        return f"{self.scheme}://{self.path or ','.join(map(_written, self.nodes))}"

    def at(self, node: Node | None = None) -> str:
        """The URL of one server, as redis-py reads it; may hold a password.

        Args:
            node: which; None = the only one.
        """
        query = urlencode([("db", str(self.db)), *self.tls])
        place = self.path or _written(node or self.nodes[0])
        return f"{self.scheme}://{self.login}{place}?{query}"


def read_redis_url(url: str) -> RedisUrl:
    """What a URL says.

    Raises:
        StoreError: it makes no sense. Only what is no secret is quoted.
    """
    name, _, rest = url.partition("://")
    if name not in REDIS_SCHEMES:
        raise StoreError(f"{name!r} is no scheme of a Redis URL: expected {', '.join(REDIS_SCHEMES)}")
    if _UNSAFE.search(rest):
        raise StoreError("a Redis URL has no spaces and no `#`: in a password `#` is written %23")
    scheme, kind = REDIS_SCHEMES[name]
    parts = _split(f"{scheme}://{rest}")
    query = _read_query(parts, scheme)
    options = {key: value for key, value in query.items() if key in _OURS}
    tls = tuple((key, value) for key, value in query.items() if key in _TLS)
    login, mark, hosts = parts.netloc.rpartition("@")
    path = _socket(parts, hosts)
    nodes = _read_nodes(hosts, name) if not path else ()
    database = _database(parts, scheme, query.get("db"))
    return RedisUrl(scheme, kind, nodes, path, database, login + mark, tls, options)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:  # its message may quote a password
        raise StoreError("the host in the URL of a Redis store is not understood") from None
    if "@" in parts.path + parts.query:
        raise StoreError(
            "a Redis URL has its `@` before the host: elsewhere it is written %40, and in a password `/` is"
            " %2F and `?` is %3F"
        )
    return parts


def _read_query(parts: SplitResult, scheme: str) -> dict[str, str]:
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    known = (*_OURS, "db", *(_TLS if scheme == "rediss" else ()))
    for key, value in pairs:
        if key in _TLS and key not in known:
            raise StoreError(f"{key!r} is for TLS: write rediss:// or leave it out")
        if key not in known:
            raise StoreError(f"{key!r} is not known in the URL of a Redis store: expected {', '.join(known)}")
        if not value:
            raise StoreError(f"{key!r} in the URL of a Redis store has no value: write {key}=VALUE")
        if value.lower() not in _VALUES.get(key, (value.lower(),)):
            raise StoreError(f"{key}={value} is not understood: expected {', '.join(_VALUES[key])}")
    if len(dict(pairs)) < len(pairs):
        raise StoreError("the URL of a Redis store says something twice behind the `?`: once is enough")
    query = dict(pairs)
    if "timeout" in query:
        _check_timeout(query["timeout"])
    return query


def _check_timeout(text: str) -> None:
    try:
        is_sound = 0 < float(text) < float("inf")
    except ValueError:
        is_sound = False
    if not is_sound:
        raise StoreError(f"timeout={text} is not understood: expected a number of seconds above 0")


def _socket(parts: SplitResult, hosts: str) -> str:
    """The path of the Unix socket; empty for other URLs."""
    if parts.scheme != "unix":
        return ""
    if hosts or parts.path in ("", "/"):
        raise StoreError("the URL of a Unix socket has three slashes: unix:///run/redis.sock")
    return parts.path


def _read_nodes(hosts: str, scheme: str) -> tuple[Node, ...]:
    texts = hosts.split(",")
    if len(texts) > 1:
        raise StoreError(f"{scheme}:// leads to one server: name one host, not {len(texts)}")
    return tuple(_read_node(text or "localhost", scheme) for text in texts)


def _read_node(text: str, scheme: str) -> Node:
    found = _HOST.match(text)
    rest = text[found.end() :] if found else text
    port = rest.removeprefix(":") if rest else str(_PORT)
    if not found or not _PORT_NUMBER.fullmatch(port) or not 0 < int(port) < 65536:
        # It is not quoted: where the `@` was forgotten it is a password.
        raise StoreError(f"expected {scheme}://HOST:PORT with a port from 1 to 65535")
    return unquote(found[0].strip("[]")), int(port)


def _database(parts: SplitResult, scheme: str, said: str | None) -> int:
    path = "" if scheme == "unix" else parts.path.strip("/")
    if path and said is not None:
        raise StoreError("the database stands in the URL twice: write it behind the `/` or as `db`, not both")
    text = path or said or "0"
    if not _DATABASE.fullmatch(text):
        raise StoreError(f"the database {text!r} is no number: expected one such as redis://HOST/0")
    return int(text)


def _written(node: Node) -> str:
    host, port = node
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
