"""Where a Redis is and how to talk to it, from a URL. Pure: nothing is looked up or reached."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from ratelimit_middleware.errors import StoreError

__all__ = ["REDIS_SCHEMES", "Node", "RedisUrl", "read_redis_url"]

Node: TypeAlias = "tuple[str, int]"
"""Host and port of a server."""

_Kind: TypeAlias = Literal["single", "cluster", "sentinel"]

REDIS_SCHEMES: dict[str, tuple[str, _Kind]] = {
    "redis": ("redis", "single"),
    "rediss": ("rediss", "single"),
    "unix": ("unix", "single"),
    "valkey": ("redis", "single"),
    "valkeys": ("rediss", "single"),
    "redis+cluster": ("redis", "cluster"),
    "rediss+cluster": ("rediss", "cluster"),
    "valkey+cluster": ("redis", "cluster"),
    "valkeys+cluster": ("rediss", "cluster"),
    "redis+sentinel": ("redis", "sentinel"),
    "rediss+sentinel": ("rediss", "sentinel"),
    "valkey+sentinel": ("redis", "sentinel"),
    "valkeys+sentinel": ("rediss", "sentinel"),
}
"""Schemes of URLs: what redis-py calls them, and what they lead to."""

_PORT, _SENTINEL_PORT = 6379, 26379
_OURS = ("prefix", "timeout")
_SENTINEL = ("sentinel_username", "sentinel_password")
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
        nodes: the servers it names, which are sentinels for `sentinel`; none for a Unix socket.
        service: what the sentinels call the primary and its replicas.
        path: of the Unix socket.
        db: the database.
        login: user and password as the URL has them, with the `@` behind them.
        sentinel_login: the same for the sentinels.
        tls: the settings for TLS.
        options: what the query says to this package: `prefix`, `timeout`.
    """

    scheme: str
    kind: _Kind
    nodes: tuple[Node, ...]
    service: str
    path: str
    db: int
    login: str
    sentinel_login: str
    tls: tuple[tuple[str, str], ...]
    options: dict[str, str]

    @property
    def place(self) -> str:
        """For messages: scheme, hosts and ports or the socket's path, no secrets."""
        service = f"/{self.service}" if self.service else ""
        return f"{self.scheme}://{self.path or ','.join(map(_written, self.nodes))}{service}"

    def at(self, node: Node | None = None) -> str:
        """The URL of one server, as redis-py reads it; may hold a password.

        Args:
            node: which; None = the first one.
        """
        query = urlencode([("db", str(self.db)), *self.tls])
        place = self.path or _written(node or self.nodes[0])
        return f"{self.scheme}://{self.login}{place}?{query}"

    def only(self, node: Node) -> RedisUrl:
        """The same for one of the servers, or for one of the sentinels."""
        one = self._replace(kind="single", nodes=(node,), service="")
        is_sentinel = self.kind == "sentinel" and node in self.nodes
        return one._replace(login=self.sentinel_login, db=0) if is_sentinel else one


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
    parts, place = _split(f"{scheme}://{rest}")
    query = _read_query(parts, scheme, kind)
    options = {key: value for key, value in query.items() if key in _OURS}
    tls = tuple((key, value) for key, value in query.items() if key in _TLS)
    login, mark, hosts = place.rpartition("@")
    path = _socket(parts, hosts)
    nodes = _read_nodes(hosts, name, kind) if not path else ()
    service, path_of_db = _service(parts.path, name, kind)
    database = _database("" if path else path_of_db, query.get("db"))
    if kind == "cluster" and database:
        raise StoreError(f"a cluster has the database 0 alone: write {name}://HOST without a database")
    user, password = (quote(query.get(key, ""), safe="") for key in _SENTINEL)
    sentinel_login = f"{user}:{password}@" if user or password else ""
    return RedisUrl(scheme, kind, nodes, service, path, database, login + mark, sentinel_login, tls, options)


def _split(url: str) -> tuple[SplitResult, str]:
    """The parts of a URL, and login and hosts apart: `urlsplit` may refuse brackets in a list of hosts."""
    scheme, _, rest = url.partition("://")
    hosts = re.split("[/?]", rest, maxsplit=1)[0]
    parts = urlsplit(f"{scheme}://{rest[len(hosts) :]}")
    login, mark, _ = hosts.rpartition("@")
    try:
        urlsplit(f"{scheme}://{login}{mark}host")  # as redis-py will read it
    except ValueError:  # its message may quote a password
        raise StoreError(
            "the login in the URL of a Redis store is not understood: what is no letter or digit"
            " of ASCII in a password is percent-encoded, such as %5B for `[`"
        ) from None
    if "@" in parts.path + parts.query:
        raise StoreError(
            "a Redis URL has its `@` before the host: elsewhere it is written %40, and in a password `/` is"
            " %2F and `?` is %3F"
        )
    return parts, hosts


def _read_query(parts: SplitResult, scheme: str, kind: _Kind) -> dict[str, str]:
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    known = (*_OURS, "db", *(_TLS if scheme == "rediss" else ()), *(_SENTINEL if kind == "sentinel" else ()))
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


def _read_nodes(hosts: str, scheme: str, kind: _Kind) -> tuple[Node, ...]:
    texts = (hosts or "localhost").split(",")
    if kind == "single" and len(texts) > 1:
        raise StoreError(
            f"{scheme}:// leads to one server: name one host, not {len(texts)}, or write {scheme}+cluster://"
            f" or {scheme}+sentinel://"
        )
    usual = _SENTINEL_PORT if kind == "sentinel" else _PORT
    nodes = tuple(_read_node(text, scheme, usual) for text in texts)
    if len(set(nodes)) < len(nodes):
        raise StoreError(f"{scheme}:// names a host twice: once is enough")
    return nodes


def _service(path: str, scheme: str, kind: _Kind) -> tuple[str, str]:
    """The name of the service, and what is left for the database."""
    if kind != "sentinel":
        return "", path
    service, _, rest = path.removeprefix("/").partition("/")
    if not service:
        raise StoreError(
            f"the sentinels are not told what to look for: expected {scheme}://HOST:PORT/SERVICE"
        )
    return unquote(service), rest


def _read_node(text: str, scheme: str, usual: int) -> Node:
    found = _HOST.match(text)
    rest = text[found.end() :] if found else text
    port = rest[1:] if rest.startswith(":") else str(usual) if found and not rest else ""
    if text.startswith(":") and _PORT_NUMBER.fullmatch(text[1:]):
        raise StoreError(f"expected {scheme}://HOST:PORT: no host stands before the `:`; here is `localhost`")
    if not found or not _PORT_NUMBER.fullmatch(port) or not 0 < int(port) < 65536:
        # It is not quoted: where the `@` was forgotten it is a password.
        raise StoreError(f"expected {scheme}://HOST:PORT with a port from 1 to 65535")
    return unquote(found[0].strip("[]")), int(port)


def _database(path: str, said: str | None) -> int:
    path = path.strip("/")
    if path and said is not None:
        raise StoreError("the database stands in the URL twice: write it behind the `/` or as `db`, not both")
    text = path or said or "0"
    if not _DATABASE.fullmatch(text):
        raise StoreError(f"the database {text!r} is no number: expected one such as redis://HOST/0")
    return int(text)


def _written(node: Node) -> str:
    host, port = node
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
