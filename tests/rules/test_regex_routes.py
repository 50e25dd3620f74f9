"""Routes that are regular expressions: `~/v[0-9]+/.*`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.match import Matcher
from tests.rules.test_docs import EXAMPLES
from tests.rules.test_match import View, counted, matcher

pytestmark = pytest.mark.arithmetic


def test_a_regular_expression_is_compared_with_the_whole_path() -> None:
    rules = matcher({"~/v[0-9]+/items": "5/s"}, default="2/s")
    assert counted(rules, "/v12/items") == ["v-0-9-items"]
    for path in ("/v/items", "/v1/items/7", "/x/v1/items", "/v1/item"):
        assert counted(rules, path) == ["default"]


def test_anchors_may_stand_there_and_change_nothing() -> None:
    rules = matcher({"~^/a$": "5/s", "~/a": "6/s", r"~\A/a\Z": "7/s"})
    assert len(counted(rules, "/a")) == 3
    assert counted(rules, "/a/b") == counted(rules, "/b/a") == []


def test_methods_stand_in_front_or_in_a_list() -> None:
    rules = matcher(
        {
            "GET,WS ~/a.*": {"limit": "5/s", "name": "front"},
            "~/b.*": {"limit": "5/s", "methods": "PUT", "name": "list"},
        }
    )
    assert counted(rules, "/ax") == counted(rules, "/ax", "HEAD") == ["front"]
    assert counted(rules, "/ax", kind="websocket") == ["front"]
    assert counted(rules, "/ax", "PUT") == []
    assert counted(rules, "/bx", "PUT") == ["list"]
    assert counted(rules, "/bx") == []


def test_it_may_be_one_of_several_routes() -> None:
    rules = matcher({"shop": {"limit": "5/s", "routes": ["/cart/**", "~/v[0-9]+/cart"]}})
    assert counted(rules, "/cart/x") == counted(rules, "/v1/cart") == ["shop"]


def test_it_needs_no_slash() -> None:
    assert counted(matcher({"~.+": {"limit": "5/s", "name": "any"}}), "/x") == ["any"]


def test_it_counts_together_with_paths_in_the_order_of_the_file() -> None:
    rules = matcher({"/a/**": "9/s", "~/a/[0-9]": {"limit": "5/s", "name": "digit"}, "/a/{x}": "3/s"})
    assert counted(rules, "/a/1") == ["a", "digit", "a-x"]


def test_the_key_part_route_is_its_pattern() -> None:
    ((_, route),) = matcher({"GET ~/v[0-9]+/.*": "5/s per ip+route"}).match(View("/v1/x"))
    assert route == "GET ~/v[0-9]+/.*"


@pytest.mark.parametrize(
    "path",
    ["/v1/items", "//v1//items", "/v1/items/", "/x/../v1/items", "/v1/./items", "/v1/items\n", "v1/items"],
)
@pytest.mark.parametrize("expression", ["~/v[0-9]/items", "~/v[0-9]/items/", "~^/v[0-9]/items/?$"])
def test_no_spelling_of_a_path_escapes_it(expression: str, path: str) -> None:
    assert len(counted(matcher({expression: "5/s"}), path)) == 1


SEGMENTS = st.sampled_from(["items", "a", "1", "", ".", "..", "a\n"])
PATHS = st.lists(SEGMENTS, min_size=1, max_size=6).map(lambda parts: "/" + "/".join(parts))


@settings(deadline=None)
@given(PATHS, st.booleans())
def test_it_meets_the_same_paths_as_the_template_it_stands_for(path: str, free: bool) -> None:
    limit: Any = "unlimited" if free else {"limit": "5/s", "name": "hit"}
    template = matcher({"/items/{id}": limit}, default="2/s")
    expression = matcher({"~/items/[^/]+": limit}, default="2/s")
    assert counted(expression, path) == counted(template, path)


def test_unlimited_holds_only_if_both_spellings_are() -> None:
    rules = matcher({"~/static/.*": "unlimited"}, default="2/s")
    assert counted(rules, "/static/site.css") == counted(rules, "/static/css/") == []
    assert counted(rules, "/static/../login") == ["default"]
    assert counted(rules, "//static/x") == ["default"]


@pytest.mark.parametrize("setting", ["file", "rule"])
def test_in_any_case_it_meets_other_spellings(setting: str) -> None:
    own = {} if setting == "file" else {"case_sensitive": False}
    rule = {"limit": "5/s", "name": "hit", **own}
    rules = matcher({"~/Items/[A-C]+": rule}, case_sensitive=setting != "file")
    for path in ("/Items/AB", "/items/ab", "/ITEMS/aB", "//iTEMS/Ab/"):
        assert counted(rules, path) == ["hit"]
    assert counted(rules, "/items/d") == []


def test_otherwise_case_tells_paths_apart() -> None:
    assert counted(matcher({"~/Items": "5/s"}), "/items") == []


def test_a_dot_takes_a_line_feed_so_that_none_gets_a_path_out_of_its_rule() -> None:
    assert len(counted(matcher({"~/a/.*": "5/s"}), "/a/b\nc")) == 1


def test_half_a_surrogate_pair_in_a_path_is_compared_as_some_character() -> None:
    for expression in ("~/a.", "~/(a|a)."):  # on either engine
        assert len(counted(matcher({expression: "5/s"}), "/a\ud800")) == 1


@pytest.mark.timeout(20)
def test_a_hundred_expressions_and_a_path_of_64_kib_take_no_long_time() -> None:
    rules = matcher({f"~/a{number}/.*/b[0-9]*/.*": "5/s" for number in range(100)})
    assert counted(rules, "/a7/" + "b/" * 32_768) == ["a7-b-0-9"]


def test_more_than_a_hundred_are_refused_over_all_routes_of_a_file() -> None:
    many = [f"~/a{number}" for number in range(60)]
    limits = {
        "one": {"limit": "5/s", "routes": many},
        "two": {"limit": "5/s", "routes": [f"{m}x" for m in many]},
    }
    with pytest.raises(RuleFileError, match="regular expression 101") as refusal:
        load_rules({"limits": limits}, env={})
    assert [problem.place for problem in refusal.value.problems] == ["limits.two"]


def test_one_that_may_backtrack_is_refused_without_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = {"limits": {"~/(a|b|ab)*c": "5/s"}}
    assert counted(Matcher(load_rules(rules, env={})), "/abc") == ["a-b-ab-c"]
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(RuleFileError, match=r"ratelimit-middleware\[regex\]"):
        load_rules(rules, env={})


def test_one_that_backtracks_in_lower_case_only_is_refused_without_re2(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = {"~/[A-Z]+[a-z]+": "5/s"}
    monkeypatch.setitem(sys.modules, "re2", None)
    assert counted(matcher(rules), "/Aa") == ["a-z-a-z"]
    with pytest.raises(RuleFileError, match=r"with `case_sensitive: false` .*ratelimit-middleware\[regex\]"):
        matcher(rules, case_sensitive=False)


def test_re2_is_imported_only_for_what_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "re2", raising=False)
    matcher({"~/v[0-9]+/.*": "5/s"})
    assert "re2" not in sys.modules
    matcher({"~/.*/v[0-9]+/.*": "5/s"})
    assert "re2" in sys.modules


def test_the_example_of_the_page_does_what_the_page_says(tmp_path: Path) -> None:
    (text,) = [example for example in EXAMPLES if "~/" in example]
    file = tmp_path / "rules.yaml"
    file.write_text(text, "utf-8")
    rules = Matcher(load_rules(file, env={}))
    names = [rule.name for rule in load_rules(file, env={}).limits]
    assert names == ["api-version", "images", "GET ~/[a-z]{2}/docs/.*"]
    assert counted(rules, "/v2/items") == counted(rules, "/V2/items/") == ["api-version"]
    assert counted(rules, "/x/y.png") == ["images"]
    assert counted(rules, "/de/docs/start") == ["get-a-z-2-docs"]
    assert counted(rules, "/v2/items", "POST") == counted(rules, "/other") == ["default"]
