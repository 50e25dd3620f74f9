"""What is guessed is what would be read."""

from __future__ import annotations

import re
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ratelimit_middleware.rules.grammar import LimitText, parse_limits
from ratelimit_middleware.rules.hints import meant_key, meant_limit
from ratelimit_middleware.rules.key_grammar import parse_key
from ratelimit_middleware.rules.route import parse_route
from ratelimit_middleware.rules.route_hints import meant_route
from ratelimit_middleware.rules.words import GrammarError

pytestmark = pytest.mark.arithmetic

WRITTEN = re.compile(r"`.*` is not a limit: write `([^`…]*)`(?:, or leave the rule out)?", re.DOTALL)
PIECES = st.sampled_from(
    [
        *(
            "5",
            "0.5",
            "1,000",
            "10",
            " ",
            "/",
            " per ",
            "r/s",
            "rps",
            "minute",
            "m",
            "s",
            "100ms",
            "1.5h",
            " burst ",
        ),
        *(
            "burst=3",
            "brust 3",
            " nodelay",
            " by ",
            "ip",
            "user",
            "X-API-Key",
            "and",
            ",",
            ";",
            "every ",
            "a ",
            "k",
        ),
        *(
            "once",
            "requests",
            "rate=",
            "GET",
            "POST",
            "ANY",
            " /a",
            "/{x}",
            "*",
            ":",
            "|",
            "[",
            "]",
            ".*",
            "^",
            "+",
        ),
    ]
)
TEXTS = st.lists(PIECES, max_size=7).map("".join)


@given(TEXTS | st.text(max_size=30))
def test_a_limit_that_a_message_tells_to_write_is_a_limit(text: str) -> None:
    try:
        parse_limits(text)
    except GrammarError as error:
        found = WRITTEN.fullmatch(str(error))
        if found:
            assert parse_limits(found[1])


@given(TEXTS | st.text(max_size=30))
@example("5 per ANY")
@example("//per GET POST ANY")
def test_a_guess_of_a_guess_is_the_guess(text: str) -> None:
    """So the advice of a message is never answered with other advice."""
    for meant, parse in ((meant_limit, parse_limits), (meant_key, parse_key), (meant_route, parse_route)):
        with suppress(GrammarError):
            assert parse(meant(text)) == parse(meant(meant(text)))


@pytest.mark.parametrize(
    "text", ["10/second burst 20 per ip+header:X-API-Key", "5/minute", "1_000/15m; 5/s", "5 per day"]
)
def test_a_limit_is_its_own_guess(text: str) -> None:
    assert meant_limit(text) == text


@given(st.decimals(0, 100, places=2).filter(bool), st.sampled_from(["second", "minute", "hour", "s", "m"]))
def test_a_fraction_is_told_as_exactly_the_same_rate(count: object, unit: str) -> None:
    meant = meant_limit(f"{count}/{unit}")
    with suppress(GrammarError):
        (limit,) = parse_limits(meant)
        assert isinstance(limit, LimitText)
        seconds = {"s": 1, "m": 60, "h": 3600}[unit[0]]
        assert Fraction(limit.count, limit.period_s) == Fraction(str(count)) / seconds


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("X-API-Key", "header:X-API-Key"),
        ("X-API-Key header", "header:X-API-Key"),
        ("header X-Tenant", "header:X-Tenant"),
        ("headers['X-Tenant']", "header:X-Tenant"),
        ("remote_addr and user_id", "ip+user"),
        ("$binary_remote_addr", "ip"),
        ("ip, endpoint", "ip+route"),
        ("globl", "globl"),
    ],
)
def test_a_key_is_guessed_from_the_words_of_other_limiters(text: str, key: str) -> None:
    assert meant_key(text) == key


@pytest.mark.parametrize(
    ("text", "route"),
    [
        ("GET POST /a", "GET,POST /a"),
        ("[GET, POST] /a", "GET,POST /a"),
        ("get|post /a", "GET,POST /a"),
        ("* /a", "/a"),
        ("any /a", "/a"),
        ("/a GET", "GET /a"),
        ("GET/a", "GET /a"),
        ("GET:/a", "GET /a"),
        ("GET a", "GET /a"),
        ("^/a/(?P<slug>[-\\w]+)/$", "/a/{slug}/"),
        ("~^/a", "~^/a"),
        ("GET ~/a", "GET ~/a"),
        ("GTE /a", "GTE /a"),
        ("login", "login"),
    ],
)
def test_a_route_is_guessed_from_the_habits_of_frameworks(text: str, route: str) -> None:
    assert meant_route(text) == route


@pytest.mark.parametrize("text", ["5/.s", "0 per.a", "5/0s", "5/0.0s", "5/1.s", "./s", "5/..s"])
def test_half_a_number_is_no_reason_to_fail(text: str) -> None:
    assert isinstance(meant_limit(text), str)
