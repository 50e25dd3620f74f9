"""Whatever a client sends, the parsers of requests read it without an exception."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.identity import KeyKind, KeyPart, key_builder
from ratelimit_middleware.request import AsgiView, WsgiView
from ratelimit_middleware.request_texts import fold

pytestmark = pytest.mark.arithmetic

LATIN_1 = st.characters(max_codepoint=255)
ODD = st.sampled_from(list('/.;,:=&?#%[]@\\"\0\r\n\t \xff'))
WIRE = st.text(st.one_of(ODD, LATIN_1))
TEXT = st.text(st.one_of(ODD, st.characters()))  # half surrogate pairs included
KINDS: tuple[KeyKind, ...] = ("ip", "user", "path", "method", "host", "header", "cookie", "query", "global")


def all_of(view: AsgiView | WsgiView) -> list[str | None]:
    """Everything that a rule may look at."""
    plain = [view.kind, view.method, view.path, fold(view.path), view.host, view.peer, view.user]
    named = [read(name) for read in (view.header, view.query, view.cookie) for name in ("a", "x-b")]
    keys = [key_builder("limit", [KeyPart(kind, "a")])(view, view.path) for kind in KINDS]
    assert all(key and key.isascii() and key.isprintable() and len(key) < 512 for key in keys)
    return [*plain, *named, *keys]


@given(path=TEXT, root=TEXT, method=TEXT, query=WIRE, host=WIRE, cookie=WIRE, peer=TEXT, user=TEXT)
def test_an_asgi_scope_is_read_whatever_it_holds(
    path: str, root: str, method: str, query: str, host: str, cookie: str, peer: str, user: str
) -> None:
    headers = [(b"host", host), (b"cookie", cookie), (b"a", cookie), (b"a", host), (b"x-b", query)]
    view = AsgiView(
        {
            "type": "http",
            "path": path,
            "root_path": root,
            "method": method,
            "query_string": query.encode("latin-1"),
            "headers": [(name, value.encode("latin-1")) for name, value in headers],
            "client": (peer, 1),
            "user": user,
        }
    )
    assert all_of(view) == all_of(view)


@given(path=WIRE, method=WIRE, query=WIRE, host=WIRE, cookie=WIRE, peer=WIRE)
def test_an_environ_is_read_whatever_it_holds(
    path: str, method: str, query: str, host: str, cookie: str, peer: str
) -> None:
    view = WsgiView(
        {
            "PATH_INFO": path,
            "REQUEST_METHOD": method,
            "QUERY_STRING": query,
            "HTTP_HOST": host,
            "HTTP_COOKIE": cookie,
            "HTTP_A": cookie,
            "REMOTE_ADDR": peer,
            "REMOTE_USER": host,
        }
    )
    assert all_of(view) == all_of(view)


@given(TEXT)
def test_a_plain_spelling_is_its_own_plain_spelling(path: str) -> None:
    assert fold(fold(path)) == fold(path) or path.endswith("\n")
    assert fold(path).startswith("/")
