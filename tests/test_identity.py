"""Keys: one bucket a client, never one for two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.identity import (
    REGISTERED_METHODS,
    KeyKind,
    KeyPart,
    Missing,
    bucket_key,
    client_address,
    key_builder,
    overflow_key,
)
from ratelimit_middleware.request import AsgiView, Asked, Kind

pytestmark = pytest.mark.arithmetic

KINDS: tuple[KeyKind, ...] = (
    *("ip", "user", "global", "route", "path", "method", "host", "header", "cookie", "query", "python"),
)
NAMES = {"header": "x-api-key", "cookie": "sid", "query": "q", "python": "app:tenant"}


def view(
    peer: str | None = "192.0.2.7", method: str = "GET", header: str | None = None, kind: Kind = "http"
) -> AsgiView:
    headers = [] if header is None else [(b"x-api-key", header.encode("latin-1"))]
    client = None if peer is None else (peer, 1234)
    return AsgiView({"type": kind, "method": method, "path": "/", "client": client, "headers": headers})


@pytest.mark.parametrize(
    ("peer", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "=testclient"),
        ("a|b", "=a%7Cb"),
        ("", "unix"),
        (None, "unix"),
        ("unix", "=unix"),
    ],
)
def test_a_client_is_an_ipv4_address_or_an_ipv6_subscriber(peer: str | None, client: str) -> None:
    assert client_address(peer) == client


def test_a_header_value_never_stands_in_the_key() -> None:
    key = bucket_key("api", [KeyPart("header", "x-api-key")], view(header="s3cret-token"), "")
    assert "s3cret" not in key


def test_a_missing_header_falls_back_to_the_address_apart_from_any_value() -> None:
    parts = [KeyPart("header", "x-api-key")]
    missing = bucket_key("api", parts, view(), "")
    assert missing != bucket_key("api", parts, view(peer="192.0.2.8"), "")
    assert missing != bucket_key("api", parts, view(header=""), "")
    assert missing != bucket_key("api", parts, view(header="192.0.2.7"), "")


def test_repeated_headers_count_as_one_value_of_all_lines() -> None:
    lines = [(b"x-api-key", b"a"), (b"x-api-key", b"b")]
    twice = AsgiView({"type": "http", "method": "GET", "path": "/", "client": None, "headers": lines})
    parts = [KeyPart("header", "x-api-key")]
    assert bucket_key("api", parts, twice, "") == bucket_key("api", parts, view(header="a, b"), "")


def test_a_handshake_is_not_counted_with_the_get_requests_of_a_method_key() -> None:
    parts = [KeyPart("method")]
    assert bucket_key("api", parts, view(), "") != bucket_key("api", parts, view(kind="websocket"), "")


def test_made_up_methods_share_a_bucket() -> None:
    parts = [KeyPart("method")]
    one, other = (bucket_key("api", parts, view(method=method), "") for method in ("FOO", "BAR"))
    assert one == other
    assert one != bucket_key("api", parts, view(method="POST"), "")


@pytest.mark.parametrize(
    ("kind", "value"), [("header", "s3cret"), ("cookie", "s3cret"), ("query", "s3cret"), ("python", "s3cret")]
)
def test_what_may_be_secret_is_hashed(kind: KeyKind, value: str) -> None:
    part = KeyPart(kind, NAMES[kind], Asked("app:tenant", lambda view: value))
    key = bucket_key("api", [part], full_view(header=value, cookie=value, query=value), "")
    assert "s3cret" not in key
    assert key != bucket_key("api", [part], full_view(), "") or kind == "python"


def test_spellings_of_a_path_share_a_bucket() -> None:
    def key(path: str, *, any_case: bool = False) -> str:
        part = KeyPart("path", any_case=any_case)
        return bucket_key("api", [part], AsgiView({"type": "http", "path": path}), "")

    assert key("/items/1") == key("//items/./1/") != key("/items/2")
    assert key("/items/1") != key("/Items/1")
    assert key("/items/1", any_case=True) == key("/Items/1", any_case=True)


def test_a_user_is_told_apart_from_an_address_and_from_nobody() -> None:
    parts = [KeyPart("user")]
    keys = {bucket_key("api", parts, full_view(user=user), "") for user in (None, "192.0.2.7", "!192.0.2.7")}
    assert len(keys) == 3


@pytest.mark.parametrize("missing", ["skip", "deny"])
def test_no_key_is_made_of_a_request_that_lacks_a_part(missing: Missing) -> None:
    build = key_builder("api", [KeyPart("ip"), KeyPart("user")], missing)
    assert build(full_view(), "") is None
    assert build(full_view(user="ada"), "") is not None


def full_view(
    *, user: str | None = None, header: str | None = None, cookie: str | None = None, query: str | None = None
) -> AsgiView:
    given_headers = (b"x-api-key", header), (b"cookie", cookie and f"sid={cookie}")
    headers = [(name, value.encode()) for name, value in given_headers if value is not None]
    scope = {"type": "http", "path": "/", "client": ("192.0.2.7", 1), "user": user, "headers": headers}
    return AsgiView({**scope, "query_string": b"" if query is None else f"q={query}".encode()})


texts = st.text(max_size=300)
methods = st.one_of(st.sampled_from(sorted(REGISTERED_METHODS)), texts)
header_texts = st.one_of(st.none(), st.text(st.characters(max_codepoint=255), max_size=300))
peers = st.one_of(st.none(), st.ip_addresses().map(str), texts)


@given(
    st.lists(
        st.sampled_from(["ip", "global", "route", "method", "header"]), min_size=1, max_size=4, unique=True
    ),
    st.tuples(texts, peers, methods, header_texts, texts),
    st.tuples(texts, peers, methods, header_texts, texts),
)
def test_two_buckets_share_a_key_only_if_limit_and_all_parts_agree(
    kinds: list[KeyKind],
    one: tuple[str, str | None, str, str | None, str],
    other: tuple[str, str | None, str, str | None, str],
) -> None:
    def key(limit: str, peer: str | None, method: str, header: str | None, route: str) -> str:
        parts = [KeyPart(kind, "x-api-key" if kind == "header" else "") for kind in kinds]
        return bucket_key(limit, parts, view(peer, method, header), route)

    def identity(limit: str, peer: str | None, method: str, header: str | None, route: str) -> list[object]:
        values: dict[KeyKind, object] = {
            "ip": client_address(peer),
            "global": "",
            "route": route,
            "method": method.upper() if method.upper() in REGISTERED_METHODS else "",
            "header": client_address(peer) if header is None else (header,),
        }
        return [limit, *(values[kind] for kind in kinds)]

    assert (key(*one) == key(*other)) == (identity(*one) == identity(*other))


@given(texts, peers, methods, header_texts, texts)
def test_keys_are_bounded_printable_ascii(
    limit: str, peer: str | None, method: str, header: str | None, route: str
) -> None:
    parts = [KeyPart(kind, NAMES.get(kind, ""), Asked("app:tenant", lambda view: route)) for kind in KINDS]
    key = bucket_key(limit, parts, view(peer, method, header), route)
    assert len(key) <= (1 + len(KINDS)) * 130
    assert key.isascii()
    assert key.isprintable()
    assert key != overflow_key(limit)
