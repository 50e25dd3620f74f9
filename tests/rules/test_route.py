"""Routes, templates and the folding of paths."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.rules.route import fold, parse_route, segments
from ratelimit_middleware.rules.words import GrammarError

pytestmark = pytest.mark.arithmetic


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("/items", "/items"),
        ("/", "/"),
        ("  GET   /items/{id} ", "GET /items/{id}"),
        ("POST,GET /items", "GET,POST /items"),
        ("GET, POST,GET /items", "GET,POST /items"),
        ("WS /live/{room}", "WS /live/{room}"),
        ("VERSION-CONTROL /x", "VERSION-CONTROL /x"),
        ("/api/**", "/api/**"),
        ("/files/{rest:path}", "/files/{rest:path}"),
        ("/items/{id:str}", "/items/{id}"),
        ("/items/<id>", "/items/{id}"),
        ("/items/<int:id>", "/items/{id:int}"),
        ("/items/<string:id>", "/items/{id}"),
        ("/items/<default:id>", "/items/{id}"),
        ("/items/<float:x>/<uuid:u>", "/items/{x:float}/{u:uuid}"),
        ("/files/<path:rest>", "/files/{rest:path}"),
        ("/a b/café", "/a b/café"),
        ("/items/", "/items/"),
    ],
)
def test_a_route_is_brought_to_its_canonical_spelling(text: str, pattern: str) -> None:
    assert parse_route(text).pattern == pattern
    assert parse_route(pattern).pattern == pattern


def test_a_route_without_methods_is_about_all_of_them() -> None:
    assert parse_route("/items").methods is None
    assert parse_route("GET,WS /items").methods == frozenset({"GET", "WS"})


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("/items/1", "/items/1"),
        ("//items//1", "/items/1"),
        ("/items/1/", "/items/1"),
        ("/items/1//", "/items/1"),
        ("/./items/./1", "/items/1"),
        ("/items/../items/1", "/items/1"),
        ("/../../items/1", "/items/1"),
        ("/items/1/..", "/items"),
        ("/items/1\n", "/items/1"),
        ("/items/1/\n", "/items/1"),
        ("items/1", "/items/1"),
        ("/", "/"),
        ("//", "/"),
        ("/..", "/"),
        ("", "/"),
        ("*", "/*"),
        ("/...", "/..."),
    ],
)
def test_folding_gives_the_plain_spelling(path: str, plain: str) -> None:
    assert fold(path) == plain


@given(st.lists(st.sampled_from(["", ".", "..", "a", "b", "{x}"])).map("/".join))
def test_folding_twice_changes_nothing_more(path: str) -> None:
    plain = fold(path)
    assert fold(plain) == plain
    assert not {"", ".", ".."} & set(segments(plain))


@given(st.text(max_size=600))
def test_any_text_is_a_route_or_a_grammar_error(text: str) -> None:
    with suppress(GrammarError):
        assert parse_route(text).path.startswith(("/", "~"))
