"""Regular expressions: what is read, that both engines mean the same, and that neither takes long."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from math import comb

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ratelimit_middleware.rules.char_sets import (
    CharSet,
    char_set,
    complement,
    lower_case,
    lowered,
    overlap,
    union,
)
from ratelimit_middleware.rules.engines import compiled, on_re, on_re2
from ratelimit_middleware.rules.linear import is_linear
from ratelimit_middleware.rules.pattern import (
    Alternatives,
    Chars,
    Edge,
    Pattern,
    Repeat,
    Sequence,
    in_lower_case,
    parse_pattern,
)
from ratelimit_middleware.rules.words import GrammarError

pytestmark = pytest.mark.arithmetic

# fmt: off
LINEAR = [
    r"^/v[0-9]+/items$", r"/v[0-9]+/.*", r"/users/\d+/posts/\w+", r"/(a|b|cd)?x", r"(?:/[a-z]+)*",
    r".*\.(?:jpg|png)", r"/a/.*/items", r"/[^/]+\.json", r"/x{2,3}y", r"/.*?", "/((a)|b)*c", "/a?", "",
    r"(a|ab)*c",  # Python's parser reads a(|b)
]
NOT_LINEAR = [
    r"/a/.*/b/.*", r"(a+)+", r"(a|a)*", r"/.*a.*b", r"(?:(?:a)?)*", r"/(x+x+)+y", r"/a*a*",
    r"/.*" + "a" * 65, r"/(a?){9}a{9}", r"/(.*/x)?.*", "/(|a)*",
]
REFUSED = [
    (r"(a)\1", "back-reference"), (r"(?P<a>a)(?P=a)", "back-reference"), (r"(a)?(?(1)b|c)", "back-reference"),
    (r"(?=a)", "look-around"), (r"(?!a)", "look-around"), (r"(?<=a)b", "look-around"),
    (r"(?!)", "look-around"),
    (r"a\b", "word boundary"), (r"a\B", "word boundary"), ("(?i)a", "case_sensitive"),
    ("(?i:a)", "case_sensitive"), ("(?-i:a)", "case_sensitive|flag"), ("(?x) a", "case_sensitive"),
    ("(", "position 0"), ("[[a]", "position 1"), ("a{1001}", "1000"), ("(?:a{40}){40}", "1000"),
    ("(?:a{1001,})*", "1000"), ("a{99999999999}", "too large"), ("(" * 51 + ")" * 51, "groups"),
    ("\ud800", "surrogate"), (r"\ud800", "surrogate"), (r"[\ud800]", "surrogate"), (r"\pL", "escape"),
    ("a" * 9 + "**", "repeat"), ("[z-a]", "range"),
]
# fmt: on

TAKES_ALL = {r"/.*?", r"/(.*/x)?.*"}

ALPHABET = "aAzZ/19._-^]\\ \n\téÉ\u0130\u0131\u017f\u212aω\u0000"
ATOMS = st.sampled_from(
    [
        *(re.escape(char) for char in ALPHABET),
        *("[a-c]", "[^/]", "[A-Z0-9]", "[^aZ]", r"[\w.-]", r"[^\W9]", r"[\D]", "[é-ω]", r"[\]^\\-]"),
        *(r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", ".", "^", "$", r"\A", r"\Z"),
    ]
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=4).map("".join)
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})")
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "{2}", "{1,3}", "{0,2}?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        )
    ),
    max_leaves=8,
)
TEXTS = st.text(alphabet=ALPHABET, max_size=9)


def is_quick(expression: str, text: str) -> bool:
    """Whether an engine that backtracks is done soon: repetitions of up to three times, each in the other."""
    repeated = 3 ** expression.count("(?:")
    return comb(repeated + len(text), len(text)) < 10**5


@settings(deadline=None, max_examples=400)
@given(EXPRESSIONS, st.lists(TEXTS, min_size=1, max_size=8))
@example(r"\\$", ["\\", ""])
def test_both_engines_mean_what_python_means_by_ascii_classes(expression: str, texts: list[str]) -> None:
    pattern = parse_pattern(expression)
    # Two things are ours: `.` takes a line feed, `$` is the very end.
    oracle = re.compile(expression.replace("$", r"\Z"), re.ASCII | re.DOTALL)  # no atom has an escaped `$`
    one, other = on_re(pattern), on_re2(pattern)
    for text in texts:
        if not is_quick(expression, text):
            continue
        fits = bool(oracle.fullmatch(text))
        assert bool(one(text)) is fits
        assert bool(other(text)) is fits


@settings(deadline=None, max_examples=200)
@given(EXPRESSIONS, st.lists(TEXTS, min_size=1, max_size=8))
def test_in_lower_case_is_what_ignoring_case_means(expression: str, texts: list[str]) -> None:
    if not expression.isascii():
        expression = "".join(char for char in expression if char.isascii())
        try:
            parse_pattern(expression)
        except GrammarError:  # an empty pair of brackets is left
            return
    oracle = re.compile(expression.replace("$", r"\Z"), re.ASCII | re.DOTALL | re.IGNORECASE)
    fits = on_re(in_lower_case(parse_pattern(expression)))
    for text in texts:
        ascii_text = "".join(char for char in text if char.isascii())
        if not is_quick(expression, ascii_text):
            continue
        assert bool(fits(ascii_text.lower())) is bool(oracle.fullmatch(ascii_text))


def test_a_final_line_feed_is_part_of_the_text() -> None:
    for engine in (on_re, on_re2):
        assert not engine(parse_pattern("/a$"))("/a\n")
        assert engine(parse_pattern("/a.*$"))("/a\n")


def test_classes_are_those_of_ascii() -> None:
    for engine in (on_re, on_re2):
        assert not engine(parse_pattern(r"\d"))("\u0661")
        assert not engine(parse_pattern(r"\w"))("é")
        assert not engine(parse_pattern(r"\s"))("\u2003")


@pytest.mark.parametrize(("expression", "reason"), REFUSED)
def test_what_no_linear_engine_does_or_python_cannot_read_is_refused(expression: str, reason: str) -> None:
    with pytest.raises(GrammarError, match=reason):
        parse_pattern(expression)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_pattern_or_a_grammar_error(text: str) -> None:
    try:
        pattern = parse_pattern(text)
    except GrammarError:
        return
    assert compiled(pattern)(text) in (None, False) or compiled(pattern)(text)


# Linear time


def size(pattern: Pattern) -> int:
    if isinstance(pattern, Repeat):
        return 1 + size(pattern.part)
    if isinstance(pattern, (Sequence, Alternatives)):
        return 1 + sum(size(part) for part in pattern.parts)
    return 1


class Backtracking:
    """An engine that backtracks as Python's does, and counts its steps."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.steps = 0

    def fits(self, pattern: Pattern) -> bool:
        return any(end == len(self.text) for end in self._ends(pattern, 0))

    def _ends(self, pattern: Pattern, at: int) -> Iterator[int]:
        """Where the pattern may end, the preferred way first."""
        self.steps += 1
        if isinstance(pattern, Chars):
            if at < len(self.text) and overlap(pattern.allowed, ((ord(self.text[at]),) * 2,)):
                yield at + 1
        elif isinstance(pattern, Edge):
            if at == (len(self.text) if pattern.is_end else 0):
                yield at
        elif isinstance(pattern, Alternatives):
            for part in pattern.parts:
                yield from self._ends(part, at)
        elif isinstance(pattern, Sequence):
            yield from self._rest(pattern.parts, at)
        else:
            yield from self._again(pattern, at, 0)

    def _rest(self, parts: tuple[Pattern, ...], at: int) -> Iterator[int]:
        if not parts:
            yield at
            return
        for end in self._ends(parts[0], at):
            yield from self._rest(parts[1:], end)

    def _again(self, repeat: Repeat, at: int, times: int) -> Iterator[int]:
        if repeat.high is None or times < repeat.high:
            for end in self._ends(repeat.part, at):
                if end > at or times < repeat.low:
                    yield from self._again(repeat, end, times + 1)
        if times >= repeat.low:
            yield at


def steps(pattern: Pattern, text: str) -> int:
    engine = Backtracking(text)
    engine.fits(pattern)
    return engine.steps


def grows_linearly(pattern: Pattern, begin: str, pump: str, end: str) -> bool:
    """Twice the length costs about twice the steps, and not four times."""
    none, once, twice = (steps(pattern, begin + pump * times + end) for times in (0, 50, 100))
    return twice - once <= 2 * (once - none) + 20 * size(pattern)


SMALL = st.text(alphabet="aAz/1.", min_size=1, max_size=3)


@settings(deadline=None, max_examples=300)
@given(EXPRESSIONS, SMALL, SMALL, SMALL)
def test_a_proven_pattern_takes_linear_time_where_an_engine_backtracks(
    expression: str, begin: str, pump: str, end: str
) -> None:
    pattern = parse_pattern(expression)
    if is_linear(pattern):
        assert grows_linearly(pattern, begin, pump, end)


@pytest.mark.parametrize("expression", LINEAR)
def test_usual_patterns_are_proven(expression: str) -> None:
    pattern = parse_pattern(expression)
    assert is_linear(pattern)
    for pump in ("a", "/", "/a", "/items", ".json", "0", "x"):
        for begin in ("", "/", "/a/", "/v", "/v1/"):
            assert grows_linearly(pattern, begin, pump, "\n!")


@pytest.mark.parametrize("expression", NOT_LINEAR)
def test_what_may_backtrack_is_not_proven(expression: str) -> None:
    assert not is_linear(parse_pattern(expression))


def test_the_count_of_steps_sees_quadratic_time() -> None:
    assert not grows_linearly(parse_pattern(r"/.*a.*b"), "/", "a", "!")
    assert not grows_linearly(parse_pattern(r"/a*a*"), "/", "a", "!")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("expression", [*LINEAR, *NOT_LINEAR])
def test_a_path_of_64_kib_is_soon_compared(expression: str) -> None:
    fits = compiled(parse_pattern(expression))
    for pump in ("a", "/", "/a", "x", ".jpg", "/a/b"):
        text = "/" + pump * (65_536 // len(pump)) + "\n!"
        assert bool(fits(text)) is (expression in TAKES_ALL)


def test_a_pattern_that_may_backtrack_is_refused_without_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(GrammarError, match=r'pip install "ratelimit-middleware\[regex\]"'):
        compiled(parse_pattern("(a+)+"))
    assert compiled(parse_pattern("/v[0-9]+"))("/v1")


def test_what_re2_refuses_is_refused_in_its_words() -> None:
    with pytest.raises(GrammarError, match="RE2 refuses it: pattern too large"):
        compiled(parse_pattern("[\u0100-\uffff]{1000}" * 20 + "(a|a)*"))


# Sets of characters

SETS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 20)), max_size=5).map(
    lambda pairs: char_set(*((low, low + more) for low, more in pairs))
)


def members(one: CharSet) -> set[int]:
    return {code for low, high in one for code in range(low, min(high, 400) + 1)}


@settings(deadline=None)
@given(SETS, SETS)
def test_sets_of_ranges_are_sets(one: CharSet, other: CharSet) -> None:
    assert members(union((one, other))) == members(one) | members(other)
    assert members(complement(one)) == set(range(401)) - members(one)
    assert overlap(one, other) is bool(members(one) & members(other))
    assert complement(complement(one)) == one


@settings(deadline=None)
@given(SETS)
def test_a_set_in_lower_case_is_that_of_its_characters(one: CharSet) -> None:
    assert members(lowered(one)) == members(one) | {ord(lower_case(chr(code))) for code in members(one)}


def test_lower_case_keeps_the_length() -> None:
    assert lower_case("İX") == "ix"
    assert all(len(lower_case(chr(code))) == 1 for code in range(0x20000))
    assert not any(lower_case(chr(code)) != chr(code) for code in range(0x20000, sys.maxunicode + 1))
