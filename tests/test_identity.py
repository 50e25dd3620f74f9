"""Keys: one bucket a client, never one for two."""

from __future__ import annotations

import gc
from ipaddress import IPv4Address
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratelimit_middleware.addresses import Remembered
from ratelimit_middleware.identity import (
    REGISTERED_METHODS,
    KeyKind,
    KeyPart,
    Missing,
    bucket_key,
    client_address,
    key_builder,
    overflow_key,
    part_value,
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
        ("192.0.2.7:4711", "192.0.2.7"),
        ("[2001:db8:1:2::1]:443", "2001:db8:1:2::/64"),
        ("64:ff9b::c000:207", "192.0.2.7"),
        ("2002:c000:207:1:2::3", "192.0.2.7"),
        ("2001:0:cb00:7101:0:ee6e:3fff:fdf8", "192.0.2.7"),
        ("testclient", "=testclient"),
        ("a|b", "=a%7Cb"),
        ("", "unix"),
        (None, "unix"),
        ("unix", "=unix"),
    ],
)
def test_a_client_is_an_ipv4_address_or_an_ipv6_subscriber(peer: str | None, client: str) -> None:
    assert client_address(peer) == client


NEARLY_OCTETS = st.integers(0, 300).map(str) | st.sampled_from(
    ["", "00", "01", "007", "0x7", "1 ", "٣", "\x00", "+1"]
)


@given(st.lists(NEARLY_OCTETS, min_size=1, max_size=6).map(".".join) | st.ip_addresses(v=4).map(str))
def test_an_ipv4_address_has_one_spelling(peer: str) -> None:
    """Else one client would have a bucket for each."""
    try:
        is_canonical = str(IPv4Address(peer)) == peer
    except ValueError:
        is_canonical = False
    assert (client_address(peer) == peer) == is_canonical


def test_a_header_value_never_stands_in_the_key() -> None:
    key = bucket_key("api", [KeyPart("header", "x-api-key")], view(header="s3cret-token"), "")
    assert "s3cret" not in key


def test_a_missing_header_falls_back_to_the_address_apart_from_any_value() -> None:
    parts = [KeyPart("header", "x-api-key")]
    missing = bucket_key("api", parts, view(), "")
    assert missing != bucket_key("api", parts, view(peer="192.0.2.8"), "")
    assert missing != bucket_key("api", parts, view(header=""), "")
    assert missing != bucket_key("api", parts, view(header="192.0.2.7"), "")


def test_what_is_sent_several_times_gives_no_fresh_buckets() -> None:
    lines = [(b"x-api-key", b"a"), (b"x-api-key", b"b")]
    twice = AsgiView({"type": "http", "method": "GET", "path": "/", "client": None, "headers": lines})
    parts = [KeyPart("header", "x-api-key")]
    assert bucket_key("api", parts, twice, "") == "api|!unix"
    assert key_builder("api", parts, "skip")(twice, "") == "api|!unix"
    assert bucket_key("api", parts, view(header="a, b"), "") != "api|!unix"
    for query in ("key=a&key=b", "key=a&key=a", "key=a&k%65y="):
        again = AsgiView({"type": "http", "path": "/", "query_string": query.encode()})
        assert bucket_key("api", [KeyPart("query", "key")], again, "") == "api|!unix"


@pytest.mark.parametrize("spelled", ['"abc"', ' "abc" ', r'"\141bc"', r'"a\b\c"', r'"\141\142\143"'])
def test_a_cookie_is_one_client_however_it_is_quoted(spelled: str) -> None:
    parts = [KeyPart("cookie", "sid")]
    keys = []
    for value in ("abc", spelled):
        line = f"x=1; sid={value}".encode()
        asked = AsgiView({"type": "http", "path": "/", "headers": [(b"cookie", line)]})
        keys.append(bucket_key("api", parts, asked, ""))
    assert keys[0] == keys[1]


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


@pytest.mark.parametrize(("prefix", "client"), [(48, "2001:db8:1::/48"), (128, "2001:db8:1:2::7/128")])
def test_a_limit_may_take_more_or_less_of_an_ipv6_address(prefix: int, client: str) -> None:
    assert client_address("2001:db8:1:2::7", prefix) == client
    ip = [KeyPart("ip", ipv6_prefix=prefix)]
    user = [KeyPart("user", ipv6_prefix=prefix)]
    assert bucket_key("api", ip, view("2001:db8:1:2::7"), "") == f"api|{client}"
    assert bucket_key("api", user, view("2001:db8:1:2::7"), "") == f"api|!{client}"
    assert part_value(ip[0], view("2001:db8:1:2::7"), "") == client


def test_long_texts_are_not_remembered() -> None:
    """Peers may be written by the client (a WSGI middleware that copies a header), paths always are."""
    parts = [KeyPart("ip"), KeyPart("path"), KeyPart("user")]
    gc.collect()
    long = "x" * 100_000
    before = held_by_memories()
    for number in range(20):
        scope = {"type": "http", "path": f"/{number}{long}", "client": (f"{number}{long}", 1), "user": long}
        bucket_key("api", parts, AsgiView(scope), "")
    assert held_by_memories() - before < 100_000


def held_by_memories() -> int:
    memories = [one for one in gc.get_objects() if isinstance(one, Remembered)]
    assert len(memories) >= 2
    return sum(len(str(key)) + len(text) for memory in memories for key, text in memory.items())


texts = st.text(max_size=300)
methods = st.one_of(st.sampled_from(sorted(REGISTERED_METHODS)), texts)
header_texts = st.one_of(st.none(), st.text(st.characters(max_codepoint=255), max_size=300))
peers = st.one_of(st.none(), st.ip_addresses().map(str), texts)
# Few and alike, so that two of them often agree, or nearly do.
sly = st.sampled_from(["", "a", "b", "a|b", "!a", "#a", "=a", "%7C", "a%7Cb", "*global", "unix", "192.0.2.7"])
values = sly | texts
requests = st.fixed_dictionaries(
    {
        "limit": values,
        "route": values,
        "peer": st.none() | sly | peers,
        "user": st.none() | values,
        "method": st.sampled_from(["GET", "POST", "FOO", "BAR"]),
        "path": values,
        "host": st.none() | sly,
        "header": st.none() | sly | header_texts,
        "cookie": st.none() | st.sampled_from(["", "a", "b", "!a"]),
        "query": st.none() | values,
        "python": st.none() | values,
    }
)


def scope_of(request: dict[str, str | None]) -> dict[str, Any]:
    host, header, cookie, query = (request[name] for name in ("host", "header", "cookie", "query"))
    lines = [
        (b"host", host),
        (b"x-api-key", header),
        (b"cookie", None if cookie is None else f"sid={cookie}"),
    ]
    return {
        "type": "http",
        "method": request["method"],
        "path": f"/{request['path']}",
        "client": (request["peer"], 1),
        "user": request["user"],
        "headers": [(name, value.encode("latin-1")) for name, value in lines if value is not None],
        "query_string": b"" if query is None else b"q=" + quote(query, errors="surrogatepass").encode(),
    }


def key_of(kinds: list[KeyKind], request: dict[str, str | None]) -> tuple[str, list[object]]:
    """The key of a request's bucket, and what ought to decide it: the plain values."""
    said = Asked("app:tenant", lambda _: request["python"])
    parts = [KeyPart(kind, NAMES.get(kind, ""), said) for kind in kinds]
    seen, route = AsgiView(scope_of(request)), str(request["route"])
    plain: list[object] = [request["limit"]]
    for part in parts:
        value = part_value(part, seen, route)
        plain.append(("missing", client_address(seen.peer)) if value is None else value)
    return bucket_key(str(request["limit"]), parts, seen, route), plain


@settings(max_examples=300)
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4, unique=True), requests, requests, st.data())
def test_two_buckets_share_a_key_only_if_limit_and_all_parts_agree(
    kinds: list[KeyKind],
    one: dict[str, str | None],
    other: dict[str, str | None],
    data: st.DataObject,
) -> None:
    shared = data.draw(st.sets(st.sampled_from(sorted(one))))
    near = {name: (one if name in shared else other)[name] for name in one}
    (key, plain), (other_key, other_plain) = key_of(kinds, one), key_of(kinds, near)
    assert (key == other_key) == (plain == other_plain)


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
