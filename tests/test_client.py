"""Whom the limits count: the peer, the client behind trusted proxies, and the user."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.addresses import parse_address
from ratelimit_middleware.client import Client, SeenView, UserSource
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.identity import client_address
from ratelimit_middleware.request import AsgiView, Asked, RequestView, WsgiView

pytestmark = pytest.mark.arithmetic

TEN = Client((ip_network("10.0.0.0/8"),))


def asgi(peer: str | None, *lines: str, header: str = "x-forwarded-for", **scope: Any) -> RequestView:
    headers = [(b"accept", b"*/*"), *((header.encode(), line.encode("latin-1")) for line in lines)]
    client = None if peer is None else (peer, 4711)
    return AsgiView({"type": "http", "path": "/", "client": client, "headers": headers, **scope})


def wsgi(peer: str | None, *lines: str, header: str = "x-forwarded-for", **environ: Any) -> RequestView:
    """As servers hand it over: the lines of a header joined."""
    name = f"HTTP_{header.upper().replace('-', '_')}"
    return WsgiView({"REMOTE_ADDR": peer or "", **({name: ",".join(lines)} if lines else {}), **environ})


both = pytest.mark.parametrize("view", [asgi, wsgi])


@both
@pytest.mark.parametrize(
    ("peer", "lines", "answer"),
    [
        ("198.51.100.9", ["1.2.3.4"], "198.51.100.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["6.6.6.6, 1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["6.6.6.6", "1.2.3.4, 10.0.0.2"], "1.2.3.4"),
        ("10.0.0.1", ["6.6.6.6, junk, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["[2001:db8:1:2:3::9]:443"], "2001:db8:1:2::/64"),
        ("10.0.0.1", ["::ffff:1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1:4711", ["1.2.3.4"], "1.2.3.4"),
        ("::ffff:10.0.0.1", ["1.2.3.4"], "1.2.3.4"),
        ("64:ff9b::a00:1", ["6.6.6.6"], "10.0.0.1"),
        ("10.0.0.1", ["1.2.3.4", ""], "10.0.0.1"),
        ("testclient", ["6.6.6.6"], "=testclient"),
        (None, ["6.6.6.6"], "unix"),
    ],
)
def test_a_header_counts_from_trusted_proxies_only_and_from_the_right(
    view: Callable[..., RequestView], peer: str | None, lines: list[str], answer: str
) -> None:
    assert client_address(SeenView(view(peer, *lines), TEN).peer) == answer


@both
def test_nothing_but_the_configured_header_is_read(view: Callable[..., RequestView]) -> None:
    forwarded = Client(TEN.trusted_proxies, header="forwarded")
    real = Client(TEN.trusted_proxies, header="x-real-ip")
    assert SeenView(view("10.0.0.1", "1.2.3.4"), forwarded).peer == "10.0.0.1"
    assert SeenView(view("10.0.0.1", "for=1.2.3.4", header="forwarded"), forwarded).peer == "1.2.3.4"
    assert SeenView(view("10.0.0.1", "for=1.2.3.4", header="forwarded"), TEN).peer == "10.0.0.1"
    assert SeenView(view("10.0.0.1", "1.2.3.4", header="x-real-ip"), real).peer == "1.2.3.4"
    assert SeenView(view("10.0.0.1", "6.6.6.6", "1.2.3.4", header="x-real-ip"), real).peer == "1.2.3.4"


@both
def test_by_default_no_header_is_read_whoever_sends_it(view: Callable[..., RequestView]) -> None:
    for peer in ("10.0.0.1", "127.0.0.1", "::1"):
        assert SeenView(view(peer, "1.2.3.4"), Client()).peer == peer
    assert SeenView(view(None, "1.2.3.4"), Client()).peer is None


@both
def test_a_unix_socket_is_believed_only_if_the_settings_say_so(view: Callable[..., RequestView]) -> None:
    assert SeenView(view(None, "6.6.6.6, 1.2.3.4"), Client(trusts_unix=True)).peer == "1.2.3.4"
    assert SeenView(view(None), Client(trusts_unix=True)).peer is None
    assert SeenView(view("198.51.100.9", "6.6.6.6"), Client(trusts_unix=True)).peer == "198.51.100.9"


@both
def test_hops_take_the_entry_of_the_outermost_proxy(view: Callable[..., RequestView]) -> None:
    chain = "6.6.6.6, 1.2.3.4, 198.51.100.7"
    assert SeenView(view("198.51.100.9", chain), Client(hops=2)).peer == "1.2.3.4"
    assert SeenView(view("198.51.100.9", "1.2.3.4"), Client(hops=2)).peer == "198.51.100.9"
    guarded = Client(TEN.trusted_proxies, hops=2)
    assert SeenView(view("198.51.100.9", chain), guarded).peer == "198.51.100.9"
    assert SeenView(view("10.0.0.1", chain), guarded).peer == "1.2.3.4"


@given(
    st.none() | st.ip_addresses().map(str) | st.text(max_size=30),
    st.lists(st.text(st.characters(max_codepoint=255), max_size=60), max_size=4),
    st.sampled_from(["x-forwarded-for", "forwarded", "x-real-ip"]),
    st.sampled_from([None, 1, 2]),
)
def test_the_client_is_always_the_peer_or_an_address(
    peer: str | None, lines: list[str], header: str, hops: int | None
) -> None:
    client = Client((ip_network("0.0.0.0/0"), ip_network("::/0")), trusts_unix=True, hops=hops, header=header)
    seen = SeenView(asgi(peer, *lines, header=header), client).peer
    assert seen == (peer or None) or ip_address(str(seen)) == parse_address(str(seen))
    assert SeenView(wsgi(peer, *lines, header=header), client).peer == seen
    if parse_address(peer or "") is None and peer:
        assert seen == peer or hops


def user_of(view: RequestView, **settings: Any) -> str | None:
    return SeenView(view, Client(**settings)).user


def test_the_user_is_that_of_the_server_unless_the_settings_say_otherwise() -> None:
    assert user_of(asgi("192.0.2.7", user="ada")) == "ada"
    assert user_of(wsgi("192.0.2.7", REMOTE_USER="ada")) == "ada"
    assert user_of(asgi("192.0.2.7", user={"id": 7}), user=UserSource("scope")) == "7"
    assert user_of(asgi("192.0.2.7", user="ada"), user=UserSource("environ")) is None
    assert user_of(wsgi("192.0.2.7", REMOTE_USER="ada"), user=UserSource("environ")) == "ada"
    assert user_of(wsgi("192.0.2.7", REMOTE_USER="ada"), user=UserSource("scope")) is None


@both
def test_a_user_header_counts_from_the_same_peers_as_the_address(view: Callable[..., RequestView]) -> None:
    source = UserSource("header", "x-user")
    direct, proxied = (view(peer, "ada", header="x-user") for peer in ("198.51.100.9", "10.0.0.1"))
    assert user_of(direct, user=source) == "ada"
    assert user_of(direct, user=source, trusted_proxies=TEN.trusted_proxies) is None
    assert user_of(proxied, user=source, trusted_proxies=TEN.trusted_proxies) == "ada"
    assert user_of(view("10.0.0.1", "", header="x-user"), user=source) is None
    assert user_of(view("10.0.0.1"), user=source) is None


def test_a_function_tells_the_user_and_sees_the_client() -> None:
    def tell(view: RequestView) -> str:
        return f"{view.user} at {view.peer}"

    source = UserSource("python", "app:tell", Asked("app:tell", tell))
    view = asgi("10.0.0.1", "1.2.3.4", user="ada")
    assert user_of(view, user=source, trusted_proxies=TEN.trusted_proxies) == "ada at 1.2.3.4"


@pytest.mark.parametrize(("said", "user"), [(None, None), ("", None), ("7", "7")])
def test_a_function_may_know_nobody(said: str | None, user: str | None) -> None:
    assert user_of(asgi(None), user=UserSource("python", "app:f", Asked("app:f", lambda _: said))) == user


def test_a_function_that_gives_no_text_is_an_error() -> None:
    with pytest.raises(TypeError, match="app:f gave int for a key: expected a text or None"):
        user_of(asgi(None), user=UserSource("python", "app:f", Asked("app:f", lambda _: 7)))


def test_peer_and_user_are_found_once() -> None:
    calls: list[RequestView] = []

    def tell(view: RequestView) -> str:
        calls.append(view)
        return "ada"

    source = UserSource("python", "app:f", Asked("app:f", tell))
    noted: list[str | None] = []
    view = SeenView(asgi("10.0.0.1", "1.2.3.4"), Client(TEN.trusted_proxies, user=source), noted.append)
    assert [view.peer, view.peer, view.user, view.user] == ["1.2.3.4", "1.2.3.4", "ada", "ada"]
    assert len(calls) == 1
    assert noted == ["ada"]


def test_all_else_of_a_request_stays_what_it_is() -> None:
    scope = {"type": "websocket", "path": "/a", "query_string": b"q=1", "method": "HEAD"}
    plain = AsgiView({**scope, "headers": [(b"host", b"a.example"), (b"cookie", b"sid=7")]})
    seen = SeenView(plain, TEN)
    names = ("kind", "method", "is_head", "path", "host", "raw", "memo", "peer", "user")
    assert [getattr(seen, name) for name in names] == [getattr(plain, name) for name in names]
    assert (seen.header("host"), seen.query("q"), seen.cookie("sid")) == ("a.example", "1", "7")


@pytest.mark.parametrize(
    "nonsense", [{"hops": 0}, {"header": "X-Real-IP"}, {"header": "x_real_ip"}, {"header": ""}]
)
def test_nonsense_is_refused(nonsense: dict[str, Any]) -> None:
    with pytest.raises(InvalidLimitError):
        Client(**nonsense)
