"""Whatever stands in a rule file: a rule set or a RuleFileError, never anything else."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from enum import Enum
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ratelimit_middleware.errors import RuleFileError, RuleProblem
from ratelimit_middleware.rules.lint import lint
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.match import Matcher

pytestmark = pytest.mark.arithmetic


class HTTPMethod(str, Enum):
    """Not that of the standard library, which came with Python 3.11."""

    GET = "GET"


# fmt: off
KEYS = [
    "version", "store", "url", "limits", "default", "always", "response", "headers", "limit", "name", "key",
    "behavior", "warm_up", "period", "cold_factor", "mode", "trusted", "queue", "cost", "hosts",
    "status", "detail", "problem", "responder", "headers_on", "expose_cors",
    "lint", "ignore", "since",
    "count", "per", "burst", "algorithm", "timezone", "refill", "capacity", "method", "POST", "include",
    "client", "trusted_proxies", "hops", "header", "ipv6_prefix", "missing", "user",
]
WORDS = st.sampled_from([
    "1", "true", "off", "none", "unlimited", "5/s", "5/minute;9/h", "10/second,burst", "reject", "warm_up",
    "shadow", "draft-11", "legacy", "memory://", "ip", "header:x", "ip+route", "30s", "0s", "${A}",
    "${B:-5/s}", "12:30", "010", "-1", ".nan", "/x", "/x/{id}", "GET,/x", "~x",
    "month", "15m", "100/month", "gcra", "fixed_window", "token_bucket", "Europe/Berlin", "skip", "deny",
    "user", "cookie:a+path", "a.example", "*.example", "POST", "a-*", "~/(a|b)+", "count",
    "RL101", "RL301 api", "2026-01-31",
    "user", "cookie:a+path", "a.example", "*.example", "POST", "a-*",
    "10.0.0.0/8", "unix", "::1", "forwarded", "x_real", "64", "scope",
    "draft-7", "refused", "python:json:dumps", "python:json:x", "python:x",
])
# fmt: on
ODD_TEXTS = st.text(st.characters(), max_size=8)  # control characters and halves of characters, too
SCALARS = (
    WORDS
    | st.text(max_size=20)
    | ODD_TEXTS
    | st.sampled_from([HTTPStatus.TOO_MANY_REQUESTS, HTTPMethod.GET, Decimal(5), object()])
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.none()
    | st.binary(max_size=3)
)
ROUTES = (
    st.sampled_from(
        ["/x", "GET /x/{id}", "GET /x/{name}", "POST,PUT /a/**", "/x/", "/<int:id>", "~/v[0-9]+/.*"]
    )
    | st.text(max_size=15)
    | ODD_TEXTS
)
NETWORKS = st.ip_addresses().map(str) | st.sampled_from(
    ["10.0.0.0/8", "unix", "::/0", "10.0.0.1/8", "fe80::1%1"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5) | ODD_TEXTS, inner)
    ),
    max_leaves=8,
)
LONG_FORMS = st.fixed_dictionaries(
    {"count": st.integers(-1, 99), "per": WORDS},
    optional=dict.fromkeys(
        ("burst", "algorithm", "timezone", "key", "behavior", "warm_up", "refill", "capacity"), WORDS | VALUES
    ),
)
RULES = st.fixed_dictionaries(
    {"limit": WORDS | VALUES | LONG_FORMS | st.lists(WORDS | LONG_FORMS, max_size=3)},
    optional=dict.fromkeys(
        ("name", "key", "behavior", "warm_up", "mode", "trusted", "status", "response", "other"),
        SCALARS | VALUES,
    )
    | {
        "timezone": WORDS | VALUES,
        "missing": WORDS | VALUES,
        "ipv6_prefix": st.integers(0, 130) | VALUES,
        "bucket": WORDS | VALUES,
        "case_sensitive": st.booleans() | VALUES,
        "preflight": WORDS | VALUES,
        "since": WORDS | VALUES,
        "cost": st.integers(-1, 9) | st.fixed_dictionaries({"method": VALUES}) | VALUES,
        "hosts": st.lists(WORDS, max_size=2) | VALUES,
        "methods": st.lists(WORDS, max_size=2) | VALUES,
        "routes": st.lists(WORDS, max_size=2) | VALUES,
        "overrides": st.dictionaries(WORDS, WORDS | LONG_FORMS, max_size=2) | VALUES,
    },
)
CLIENTS = st.fixed_dictionaries(
    {},
    optional={
        "trusted_proxies": st.lists(WORDS | NETWORKS, max_size=3) | NETWORKS | VALUES,
        "hops": st.integers(-1, 200) | VALUES,
        "header": WORDS | VALUES,
        "ipv6_prefix": st.integers(0, 130) | VALUES,
        "missing": WORDS | VALUES,
        "user": st.sampled_from(["scope", "environ", "header:x", "python:json:dumps"]) | WORDS | VALUES,
        "trusted": st.booleans() | VALUES,
    },
)
FILES = st.fixed_dictionaries(
    {},
    optional={
        "version": st.just(1) | VALUES,
        "store": st.just("memory://") | VALUES,
        "limits": st.dictionaries(ROUTES, RULES | VALUES, max_size=4) | VALUES,
        "default": RULES | VALUES,
        "always": st.lists(RULES | VALUES, max_size=3) | RULES | VALUES,
        "response": st.dictionaries(st.sampled_from(KEYS), WORDS | VALUES) | VALUES,
        "include": st.lists(WORDS, max_size=2) | VALUES,
        "timezone": WORDS | VALUES,
        "case_sensitive": st.booleans() | VALUES,
        "preflight": WORDS | VALUES,
        "lint": st.fixed_dictionaries({"ignore": st.lists(WORDS, max_size=2) | VALUES}) | VALUES,
        "client": CLIENTS | VALUES,
        "other": VALUES,
    },
)
ANY_KEY = st.recursive(
    st.text() | ODD_TEXTS | st.integers() | st.floats() | st.none() | st.binary(max_size=3) | st.dates(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=2),
    max_leaves=4,
)
FRAMES = ["default: {}", "limits:\n  {}: 5/s", "default:\n  limit: 5/s\n  name: {}"]
ENV = {"A": "5/s"}


def check(source: Any) -> None:
    """Load, and if it loads, let it match and lint it."""
    problems: tuple[RuleProblem, ...] | None = None
    try:
        ruleset = load_rules(source, env=ENV)
        Matcher(ruleset)
        assert all(str(warning) for warning in lint(ruleset, today=date(2026, 1, 1), workers=2))
    except RuleFileError as error:
        problems = error.problems
    for problem in problems or ():
        assert problem.place
        assert problem.message
        assert all(line.isprintable() for line in str(problem).split("\n"))
        assert str(problem).encode()  # no half of a character, which no log could write
    assert problems != ()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=300)
@given(FILES)
def test_any_mapping_loads_or_is_refused(source: dict[str, Any]) -> None:
    check(source)


@settings(deadline=None)
@given(st.dictionaries(ANY_KEY, VALUES))
def test_any_keys_load_or_are_refused(source: dict[Any, Any]) -> None:
    check(source)


# fmt: off
TOKENS = st.sampled_from([
    "limits:\n", "default: ", "always:\n", "  /x: ", "  GET /y: ", "- ", "5/s", "5/minut", "\n", "  ",
    "    limit: ", "&a ", "*a", "*", "<<: ", "!!str ", "!!python/object:x ", "{", "}", "[", "]", ",", ": ",
    "? ", "|\n", ">\n", "'", '"', "#", "---\n", "...\n", "%YAML 1.2\n", "\t", "\0", "\x85", "\u2028", "é",
    "${A}", "${", "~", "\r",
    '"\\U00110000"', '"\\UFFFFFFFF"', '"\\ud800"', '"\\0\\n"', "%YAML 1." + "9" * 5000 + "\n",
    "%TAG ! x\n", "!!str ", "!<x> ", "\\", "\\x", "\\u",
    "\\UFFFFFFFF", "\\ud800", "\\0", "&", "!", "@", "%", "`",
    "!%ff ", "/a 5/s\n", "/a:5/s\n", "=", "header: ", "'/a' b",
])
# fmt: on


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=400)
@given(st.lists(TOKENS, max_size=25).map("".join) | st.text(max_size=60))
def test_any_text_loads_or_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    check(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=30), st.sampled_from(FRAMES))
def test_any_scalar_in_a_file_loads_or_is_refused(tmp_path: Path, text: str, frame: str) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(frame.format(text).encode("utf-8", "surrogatepass"))
    check(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.sampled_from(list("\\abenrtvxuUNLP_0 \"'/\n89dDF{}")), max_size=12).map("".join),
    st.booleans(),
)
def test_any_escapes_in_key_and_value_load_or_are_refused(tmp_path: Path, text: str, as_key: bool) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(f'limits:\n  "/{text}": 5/s\n' if as_key else f'default: "{text}"\n', "utf-8")
    check(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_load_or_are_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(raw)
    check(path)


SAMPLES = [path.read_bytes() for path in sorted((Path(__file__).parent / "format_examples").glob("*.yaml"))]
MISTAKES = [path.read_bytes() for path in sorted((Path(__file__).parents[1] / "bad_rules").glob("*.yaml"))]
MUTATIONS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 12),
        st.binary(max_size=3) | WORDS.map(str.encode) | TOKENS.map(str.encode),
    ),
    min_size=1,
    max_size=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(st.sampled_from(SAMPLES) | st.sampled_from(MISTAKES), MUTATIONS)
def test_any_mutation_of_a_file_loads_or_is_refused(
    tmp_path: Path, raw: bytes, mutations: list[tuple[float, int, bytes]]
) -> None:
    for where, dropped, inserted in mutations:
        start = int(where * len(raw))
        raw = raw[:start] + inserted + raw[start + dropped :]
    path = tmp_path / "rules.yaml"
    path.write_bytes(raw)
    check(path)


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 50_000, "- " * 50_000, "? " * 50_000, "&a " * 1000])
def test_deep_nesting_is_refused_without_deep_recursion(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    check(path)
