"""What an app's own responder may give, and what is refused as nonsense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.request import WsgiView
from ratelimit_middleware.responder import replaced
from ratelimit_middleware.responses import Refusal

pytestmark = pytest.mark.arithmetic

BUILT_IN = Refusal(
    429,
    (
        ("Retry-After", "9"),
        ("RateLimit", '"a";r=0;t=9'),
        ("Cache-Control", "no-store"),
        ("Content-Type", "application/problem+json"),
        ("Content-Length", "2"),
    ),
    b"{}",
)


def request(method: str = "GET") -> WsgiView:
    return WsgiView({"REQUEST_METHOD": method, "PATH_INFO": "/"})


def test_the_built_in_fields_stay_beside_the_responders_own() -> None:
    own = replaced(request(), BUILT_IN, (503, [("Content-Type", "text/html"), ("X-Own", "1")], b"<p>"))

    assert own == Refusal(
        503,
        (
            ("Retry-After", "9"),
            ("RateLimit", '"a";r=0;t=9'),
            ("Cache-Control", "no-store"),
            ("Content-Type", "text/html"),
            ("X-Own", "1"),
            ("Content-Length", "3"),
        ),
        b"<p>",
    )


def test_a_field_that_the_responder_sets_is_not_sent_twice() -> None:
    headers = {"retry-after": "60", "CACHE-CONTROL": "private", "ratelimit": "x"}
    own = replaced(request(), BUILT_IN, (429, headers, b""))

    assert own.headers == (
        ("retry-after", "60"),
        ("CACHE-CONTROL", "private"),
        ("ratelimit", "x"),
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", "0"),
    )


def test_a_text_is_sent_as_utf_8_and_its_bytes_are_counted() -> None:
    own = replaced(request(), BUILT_IN, (429, [("Content-Length", "77")], "später"))

    assert own.body == "später".encode()
    assert [value for name, value in own.headers if name == "Content-Length"] == ["7"]


def test_a_field_may_be_repeated() -> None:
    cookies = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]

    assert [
        field for field in replaced(request(), BUILT_IN, (429, cookies, b"")).headers if field in cookies
    ] == (cookies)


def test_head_has_no_body_but_its_length() -> None:
    own = replaced(request("HEAD"), BUILT_IN, (429, [], b"abc"))

    assert own.body == b""
    assert ("Content-Length", "3") in own.headers


@pytest.mark.parametrize("status", [200, 302, 403, 599])
def test_an_answer_need_not_be_an_error(status: int) -> None:
    assert replaced(request(), BUILT_IN, (status, [], b"")).status == status


NONSENSE: dict[str, Any] = {
    "nothing": None,
    "a number": 429,
    "two parts": (429, []),
    "four parts": (429, [], b"", 1),
    "a list": [429, [], b""],
    "a status as text": ("429", [], b""),
    "a status that is a truth": (True, [], b""),
    "a status too low": (101, [], b""),
    "a status too high": (600, [], b""),
    "a status without body": (204, [], b""),
    "no headers": (429, None, b""),
    "headers as text": (429, "x: y", b""),
    "a header of one part": (429, [("x",)], b""),
    "a header name of bytes": (429, [(b"x", "y")], b""),
    "an empty name": (429, [("", "y")], b""),
    "a name with a colon": (429, [("x:", "y")], b""),
    "a split response": (429, [("x", "y\r\nSet-Cookie: a=1")], b""),
    "a split name": (429, [("x\n", "y")], b""),
    "a NUL": (429, [("x", "\0")], b""),
    "a value beyond latin-1": (429, [("x", "€")], b""),
    "a value of bytes": (429, [("x", b"y")], b""),
    "a number as value": (429, [("x", 1)], b""),
    "a hop-by-hop field": (429, [("Connection", "close")], b""),
    "a chunked body": (429, [("Transfer-Encoding", "chunked")], b""),
    "no body": (429, [], None),
    "a dict as body": (429, [], {}),
    "a text that is no utf-8": (429, [], "\ud800"),
}


@pytest.mark.parametrize("reply", NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_refused(reply: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        replaced(request(), BUILT_IN, reply)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@given(st.tuples(st.integers(100, 600), ANYTHING, ANYTHING) | ANYTHING)
def test_whatever_a_responder_gives_is_an_answer_or_refused(reply: object) -> None:
    try:
        own = replaced(request(), BUILT_IN, reply)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, no other is
    else:
        assert 200 <= own.status <= 599
        assert not any("\n" in name + value or "\r" in name + value for name, value in own.headers)
