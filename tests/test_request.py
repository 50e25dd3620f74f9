"""What a rule may look at, the same under ASGI and WSGI."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.request import AsgiView, Asked, RequestView, WsgiView
from ratelimit_middleware.request_texts import readings

pytestmark = pytest.mark.arithmetic


def asgi(*, query: str = "", user: Any = None, **headers: str) -> AsgiView:
    lines = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": lines, "query_string": query.encode()}
    return AsgiView(scope | ({"user": user} if user is not None else {}))


def wsgi(*, query: str = "", **headers: str) -> WsgiView:
    lines = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    return WsgiView({"REQUEST_METHOD": "GET", "PATH_INFO": "/", "QUERY_STRING": query, **lines})


def both(**request: str) -> list[RequestView]:
    return [asgi(**request), wsgi(**request)]


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("example.com", "example.com"),
        ("API.Example.COM:8080", "api.example.com"),
        ("example.com.", "example.com"),
        ("example.com.:443", "example.com"),
        ("example.com:", "example.com"),
        (" example.com ", "example.com"),
        ("[2001:DB8::1]:8080", "[2001:db8::1]"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("2001:db8::1", "2001"),
        ("192.0.2.1:80", "192.0.2.1"),
        ("a:b", "a"),
        ("", ""),
    ],
)
def test_a_host_has_no_case_no_port_and_no_final_dot(header: str, host: str) -> None:
    assert [view.host for view in both(host=header)] == [host, host]


@pytest.mark.parametrize(
    ("header", "meanings"),
    [
        ("a.example", ("a.example",)),
        ("a_b.example:80", ("a_b.example",)),
        ("[::1]:80", ("[::1]",)),
        *((header, ("a.example", "")) for header in ("a.example.", "a.example:80a", "a.example:+80")),
        *((header, ("a.example", "")) for header in ("a.example:80:80", "a.example:", "a.example :80")),
        ("a.example, b.example", ("a.example", "a.example, b.example", "")),
        ("x@a.example", ("a.example", "x@a.example", "")),
        ("a.example/x@b", ("a.example", "a.example/x@b", "")),
        ("[::1]x", ("[::1]", "")),
        ("[::1", ("",)),
        ("t\xe9st", ("t\xe9st", "")),
    ],
)
def test_an_odd_host_means_what_some_framework_reads_or_none(header: str, meanings: tuple[str, ...]) -> None:
    assert [readings(view.host) for view in both(host=header)] == [meanings, meanings]


def test_without_a_host_header_the_servers_address_may_take_its_place() -> None:
    assert AsgiView({"type": "http", "path": "/"}).host == ""
    served = AsgiView({"type": "http", "path": "/", "server": ("Shop.Example", 80)})
    for view in (served, WsgiView({"SERVER_NAME": "Shop.Example"})):
        assert readings(view.host) == ("shop.example", "")


@pytest.mark.parametrize(
    ("path", "meanings"),
    [
        ("/shop/items", ("/items",)),
        ("/shop", ("/",)),
        ("/other", ("/other",)),
        ("/shopitems", ("/shopitems", "/items")),
        ("/shopshop/items", ("/shopshop/items", "/shop/items")),
    ],
)
def test_a_root_without_a_slash_behind_it_is_taken_off_by_some(path: str, meanings: tuple[str, ...]) -> None:
    view = AsgiView({"type": "http", "path": path, "root_path": "/shop"})
    assert readings(view.path) == meanings


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("token=a", "a"),
        ("x=1&token=a%20b&y", "a b"),
        ("token=a&token=b", "a, b"),
        ("token=", ""),
        ("token", ""),
        ("tokens=a", None),
        ("", None),
        ("token=%ff", "\ufffd"),
    ],
)
def test_a_query_parameter_is_decoded_and_all_its_values_count(query: str, value: str | None) -> None:
    assert [view.query("token") for view in both(query=query)] == [value, value]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("sid=a", "a"),
        ("x=1; sid=a=b; y=2", "a=b"),
        ("sid=a; sid=b", "a, b"),
        ('sid="a"', '"a"'),
        ("sid=", ""),
        ("sid", None),
        ("xsid=a", None),
    ],
)
def test_a_cookie_is_taken_as_it_was_sent(header: str, value: str | None) -> None:
    assert [view.cookie("sid") for view in both(cookie=header)] == [value, value]


def test_cookies_may_come_in_several_lines() -> None:
    """HTTP/2 lets a client split them (RFC 9113, 8.2.3)."""
    lines = [(b"cookie", b"x=1"), (b"cookie", b"sid=a")]
    assert AsgiView({"type": "http", "path": "/", "headers": lines}).cookie("sid") == "a"
    assert AsgiView({"type": "http", "path": "/"}).cookie("sid") is None


class SimpleUser:
    """As Starlette's: its identity is not there."""

    is_authenticated = True
    display_name = "ada"

    @property
    def identity(self) -> str:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("user", "name"),
    [
        ("ada", "ada"),
        ("", None),
        (None, None),
        (SimpleUser(), "ada"),
        (SimpleNamespace(is_authenticated=True, identity="7", display_name="ada"), "7"),
        (SimpleNamespace(is_authenticated=False, identity="7"), None),
        (SimpleNamespace(id=7), "7"),
        (SimpleNamespace(id=True), None),
        (SimpleNamespace(), None),
        ({"sub": "ada"}, "ada"),
        ({"id": 0}, "0"),
        ({"id": ""}, None),
        ({}, None),
    ],
)
def test_the_user_of_a_scope_may_be_a_text_an_object_or_a_dict(user: Any, name: str | None) -> None:
    assert asgi(user=user).user == name


def test_the_user_of_wsgi_is_the_remote_user() -> None:
    assert WsgiView({"REMOTE_USER": "ada"}).user == "ada"
    assert WsgiView({"REMOTE_USER": ""}).user is None
    assert WsgiView({}).user is None


def test_functions_see_the_scope_or_environ_itself() -> None:
    scope, environ = {"type": "http", "path": "/"}, {"PATH_INFO": "/"}
    assert AsgiView(scope).raw is scope
    assert WsgiView(environ).raw is environ


@pytest.mark.parametrize("view", both(), ids=["asgi", "wsgi"])
def test_a_function_is_asked_once_a_request(view: RequestView) -> None:
    answers = iter(["first", "second"])
    asked = Asked("app:next", lambda view: next(answers))
    assert [asked(view), asked(view)] == ["first", "first"]


@pytest.mark.anyio
async def test_an_async_function_is_awaited_once_and_then_asked() -> None:
    calls = []

    async def answer(view: RequestView) -> str:
        calls.append(view)
        return "answer"

    asked, view = Asked("app:answer", answer, awaited=True), asgi()
    with pytest.raises(RuntimeError, match="app:answer cannot be asked here"):
        asked(view)
    await asked.ask(view)
    await asked.ask(view)
    assert asked(view) == "answer"
    assert len(calls) == 1


@given(st.text(st.characters(max_codepoint=255)), st.binary(max_size=40))
def test_no_header_and_no_query_is_too_strange(header: str, query: bytes) -> None:
    lines = [(b"host", header.encode("latin-1")), (b"cookie", header.encode("latin-1"))]
    view = AsgiView({"type": "http", "path": "/", "headers": lines, "query_string": query})
    assert view.host == view.host.lower()
    assert isinstance(view.cookie("a"), (str, type(None)))
    assert isinstance(view.query("a"), (str, type(None)))


@pytest.mark.parametrize(
    ("path", "root", "seen"),
    [
        ("http://test/items/1", "", "/items/1"),
        ("HTTP://user@test:80/items/1#more", "", "/items/1"),
        ("http://test/proxy/items/1", "/proxy", "/items/1"),
        ("http://test", "", "/"),
        ("http://[test/items", "", "http://[test/items"),
        ("//test/items/1", "", "//test/items/1"),
    ],
)
def test_the_absolute_form_of_a_request_is_its_path(path: str, root: str, seen: str) -> None:
    """Quart finds its routes by it; h11 hands it over as it came."""
    assert AsgiView({"type": "http", "path": path, "root_path": root}).path == seen
