"""Keys: one bucket a client, never one for two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.identity import (
    REGISTERED_METHODS,
    KeyKind,
    KeyPart,
    bucket_key,
    client_address,
    overflow_key,
)
from ratelimit_middleware.request import AsgiView, Kind

pytestmark = pytest.mark.arithmetic

KINDS: tuple[KeyKind, ...] = ("ip", "global", "route", "method", "header")


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


texts = st.text(max_size=300)
methods = st.one_of(st.sampled_from(sorted(REGISTERED_METHODS)), texts)
header_texts = st.one_of(st.none(), st.text(st.characters(max_codepoint=255), max_size=300))
peers = st.one_of(st.none(), st.ip_addresses().map(str), texts)


@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=4, unique=True),
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
    parts = [KeyPart(kind, "x-api-key" if kind == "header" else "") for kind in KINDS]
    key = bucket_key(limit, parts, view(peer, method, header), route)
    assert len(key) <= 6 * 130
    assert key.isascii()
    assert key.isprintable()
    assert key != overflow_key(limit)
