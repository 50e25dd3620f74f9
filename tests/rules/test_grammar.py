"""Limit strings, keys and spans of time."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.rules.grammar import (
    UNLIMITED,
    LimitText,
    parse_duration,
    parse_limit,
    parse_limits,
    parse_number,
)
from ratelimit_middleware.rules.key_grammar import key_text, parse_key
from ratelimit_middleware.rules.model import KeyPart
from ratelimit_middleware.rules.words import GrammarError

pytestmark = pytest.mark.arithmetic

SIMPLE_KEYS = st.sampled_from([KeyPart("ip"), KeyPart("global"), KeyPart("route"), KeyPart("method")])
HEADER_KEYS = st.from_regex(r"[a-z0-9._-]{1,12}", fullmatch=True).map(lambda name: KeyPart("header", name))
KEYS = st.lists(SIMPLE_KEYS | HEADER_KEYS, min_size=1, max_size=4, unique=True).map(tuple)
LIMITS = st.builds(
    LimitText,
    count=st.integers(1, 10**9),
    amount=st.integers(1, 500),
    unit=st.sampled_from(["second", "minute", "hour", "day", "week"]),
    burst=st.none() | st.integers(1, 10**9),
    key=st.none() | KEYS,
)


@pytest.mark.parametrize(
    ("text", "count", "period_s"),
    [
        ("100/minute", 100, 60),
        ("100/15m", 100, 900),
        ("5/s", 5, 1),
        ("5 / sec", 5, 1),
        ("10 per minute", 10, 60),
        ("100 per 5 minutes", 100, 300),
        ("7/2 HOURS", 7, 7200),
        ("7 PER Day", 7, 86_400),
        ("7/w", 7, 604_800),
        ("7/2weeks", 7, 1_209_600),
        ("3/30secs", 3, 30),
        ("3/10mins", 3, 600),
        ("1_000/s", 1000, 1),
        ("1/1_0s", 1, 10),
        ("  9/d  ", 9, 86_400),
    ],
)
def test_a_limit_is_read_as_it_is_said(text: str, count: int, period_s: int) -> None:
    limit = parse_limit(text)
    assert isinstance(limit, LimitText)
    assert (limit.count, limit.period_s, limit.burst, limit.key) == (count, period_s, None, None)


def test_burst_and_key_follow_the_period() -> None:
    expected = LimitText(10, 1, "second", 20, (KeyPart("ip"), KeyPart("header", "x-api-key")))
    assert parse_limit("10/second burst 20 per ip+header:X-API-Key") == expected
    assert parse_limit("10 per second BURST 20 Per IP + header:x-api-key") == expected


@pytest.mark.parametrize("text", ["unlimited", " Unlimited ", "UNLIMITED"])
def test_unlimited_is_a_limit_of_its_own(text: str) -> None:
    assert parse_limit(text) == UNLIMITED


@pytest.mark.parametrize("text", ["5/s;100/m", "5/s, 100/m", "5 per s ; 100 per 1m"])
def test_a_text_may_hold_several_limits(text: str) -> None:
    assert parse_limits(text) == (LimitText(5, 1, "second"), LimitText(100, 1, "minute"))


@given(LIMITS)
def test_a_printed_limit_parses_back(limit: LimitText) -> None:
    assert parse_limit(str(limit)) == limit
    assert parse_limits(str(limit)) == (limit,)


@given(KEYS)
def test_a_printed_key_parses_back(key: tuple[KeyPart, ...]) -> None:
    assert parse_key(key_text(key)) == key


@given(
    st.text() | st.from_regex(r"[0-9_]{1,5} ?(/|per) ?[0-9]{0,3}[a-zµ]{1,8}( burst .{1,4})?( per .{1,9})?")
)
def test_any_other_text_is_refused_with_a_grammar_error(text: str) -> None:
    with suppress(GrammarError):
        assert all(limit == UNLIMITED or isinstance(limit, LimitText) for limit in parse_limits(text))


@pytest.mark.parametrize("text", ["500ms", "5/ms", "5/ss"])
def test_milliseconds_are_not_taken_for_minutes(text: str) -> None:
    with pytest.raises(GrammarError):
        parse_duration(text)
    with pytest.raises(GrammarError):
        parse_limit(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5 minutes", 300), ("1_0S", 10), ("1w", 604_800)]
)
def test_a_span_of_time_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "30", "-5s", "1.5s", "0s", "12:30", "5/s", "9" * 5000 + "s", "11 years"]
)
def test_anything_else_is_no_span_of_time(text: str) -> None:
    with pytest.raises(GrammarError):
        parse_duration(text)


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "+1", "1.0", "1e3", "nan", "010", "1__0", "_1", "1_", "٣", "9" * 5000]
)
def test_a_number_is_plain_digits(text: str) -> None:
    with pytest.raises(GrammarError):
        parse_number(text, "the number")


def test_a_very_long_text_is_refused_at_once() -> None:
    with pytest.raises(GrammarError, match="too long"):
        parse_limits("5" * 100_000)
