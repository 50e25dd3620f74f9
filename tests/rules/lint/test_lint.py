"""What each code is given for, and what comes near but is fine."""

from __future__ import annotations

from datetime import date
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.decision import Policy
from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.lint import CODES, LintWarning, lint
from ratelimit_middleware.rules.lint.surroundings import too_wide
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.model import Ignored, KeyPart, Limit, Rule, RuleSet

pytestmark = pytest.mark.arithmetic

TODAY = date(2026, 6, 1)
APP = "python:tests.rules.app_functions"
WARM = {"behavior": "warm_up", "warm_up": "30m"}


def warnings(source: dict[str, Any], *, workers: int = 1) -> list[LintWarning]:
    return list(lint(load_rules(source, env={}), today=TODAY, workers=workers))


def codes(source: dict[str, Any]) -> list[tuple[str, str]]:
    return [(warning.code, warning.rule) for warning in warnings(source)]


def over(rule: Any, *, wide: Any = "10/minute", route: str = "/api/items") -> dict[str, Any]:
    """A rule and one that counts for all of its requests too."""
    return {"limits": {"/api/**": wide, route: rule}}


def written(limit: Any, **more: Any) -> dict[str, Any]:
    return {"limit": limit, **more}


NO_TIGHTER = [
    over("20/minute", wide=written("10/minute", case_sensitive=False)),
    over(written("20/minute", case_sensitive=False), wide=written("10/minute", routes=["/{x}/**"])),
    over(written("20/minute", preflight="count"), wide=written("10/minute", preflight="count")),
    over(written("20/minute", on_error="deny"), wide=written("10/minute", on_error="deny")),
    over("20/minute"),
    over("10/30s"),
    over("60/6m"),
    over("20/minute per ip+path"),
    over("20/minute per user+ip"),
    over("20/minute per user", wide="10/minute per global"),
    over("20/second burst 20", wide="10/second burst 20"),
    over("200/minute", wide="100/minute"),
    over(written("20/minute", cost=2), wide=written("10/minute", cost=2)),
    over("20/minute", wide=written("10/minute", cost={"method": {"POST": 3}})),
    over("20/minute per user", wide=written("10/minute per user", missing="deny")),
    over(written("20/minute per user", missing="skip"), wide="10/minute per user"),
    over("20/minute", wide=written("10/minute", **WARM)),
    {
        "limits": {
            "/api/**": written("10/minute", hosts="*.example.com"),
            "/api/items/{id:int}": written("20/minute", hosts=["a.example.com", "*.b.example.com"]),
        },
        "default": "1/s burst 99",
    },
    {"limits": {"/{x}/{y}": "10/minute", "HEAD /a/b": "20/minute"}},
    {"limits": {"a": written("10/minute", routes=["GET /a", "POST /a"]), "GET,POST,HEAD /a": "20/minute"}},
    {"limits": {"/a": ["10/minute", "20/minute"]}},
    {"limits": {"/a": ["100/minute", "150/minute"]}},
    {"limits": {"/a": written("5/minute; 10/minute per user", missing="deny", key="user")}},
    {"limits": {"/Items": "10/minute", "/items": "20/minute"}, "case_sensitive": False},
    {"limits": {"/a//b": "10/minute", "/a/b": "20/minute", "/a/**": written("1/s", mode="shadow")}},
    {"always": "10/minute", "limits": {"/a": "20/minute"}},
    {"always": ["10/minute", "20/minute per ip+path"]},
    {"always": "10/minute", "default": "20/minute"},
]


@pytest.mark.parametrize("source", NO_TIGHTER)
def test_a_limit_no_tighter_than_another_that_counts_too_is_named(source: dict[str, Any]) -> None:
    assert [code for code, _ in codes(source) if code == "RL101"] == ["RL101"]


NEARLY_NO_TIGHTER = [
    over(written("20/minute", case_sensitive=False)),
    over(written("20/minute", preflight="count")),
    over(written("20/minute", on_error="deny"), wide=written("10/minute", on_error="allow")),
    {
        "limits": {"/api/**": written("9/minute", case_sensitive=True), "/api/b": "20/minute"},
        "case_sensitive": False,
    },
    {
        "always": written("9/minute", preflight="skip"),
        "limits": {"/a": written("20/minute", preflight="count")},
    },
    over("9/minute"),
    over(written("20/second", behavior="queue"), wide="10/second burst 1"),
    over("20/minute", wide={"concurrency": 3}),
    over("10/61s"),
    over("99/10m"),
    over("150/minute", wide="100/minute"),  # a large window gives permits back up to a 64th late
    over("20/minute per user"),
    over("20/minute per global"),
    over("20/minute per ip", wide="10/minute per ip+path"),
    over("20/minute per route", wide="10/minute per ip+route"),
    over("10/second burst 21", wide="11/second burst 20"),
    over(written("20/minute", cost=2)),
    over(written("20/minute", cost={"method": {"POST": 3}})),
    over(written("20/minute", cost=f"{APP}:weight"), wide=written("10/minute", cost={"method": {"POST": 3}})),
    over("20/minute", wide=written("10/minute", mode="shadow")),
    over(written("20/minute", mode="shadow")),
    over(written("20/minute", **WARM)),
    over("20/minute", wide=written("10/minute", overrides={"192.0.2.7": "90/minute"})),
    over(written("20/minute", overrides={"192.0.2.7": "1/minute"})),
    over("20/minute", wide=f"{APP}:plan_limit"),
    over(f"{APP}:plan_limit"),
    over("20/minute per user", wide=written("10/minute per user", missing="skip")),
    over(written("20/minute per user", missing="deny"), wide="10/minute per user"),
    {
        "limits": {
            "/api/**": written("10/minute", bucket="b"),
            "/x": written("10/minute", bucket="b", cost=2),
            "/api/x": "20/minute",
        }
    },
    {
        "limits": {
            "/a": "10/minute",
            "r": written("20/minute per route", routes=["/a", "/b"]),
            "s": written("10/minute per route", routes=["/c", "/d"]),
        }
    },
    {
        "limits": {
            "r": written("10/minute per ip+route", routes=["/a/{x}", "/a/b"]),
            "s": written("20/minute per ip+route", routes=["/a/b"], name="s2"),
        }
    },
    {"limits": {"GET /api/**": "10/minute", "/api/x": "20/minute"}},
    {"limits": {"HEAD /api/**": "10/minute", "GET /api/x": "20/minute"}},
    {"limits": {"/api/{id:int}": "10/minute", "/api/{id}": "20/minute"}},
    {"limits": {"/api/{id}": "10/minute", "/api/": "20/minute"}},
    {"limits": {"/api/{id}": "10/minute", "/api/**": "20/minute"}},
    {"limits": {"/api/{id}": "10/minute", "/api/x/y": "20/minute"}},
    {"limits": {"/Items": "20/minute", "/items": "10/minute"}},
    {
        "limits": {"/a/**": written("10/minute", hosts="*.example.com"), "/a/b": "20/minute"},
        "default": "1/s",
    },
    {
        "limits": {
            "/a/**": written("10/minute", hosts="a.example.com"),
            "/a/b": written("20/minute", hosts="*.example.com"),
        },
        "default": "1/s",
    },
    {"limits": {"/a": "10/minute"}, "always": "20/minute"},
    {
        "always": "10/minute",
        "limits": {"/bulk": "20/minute"},
        "default": "1/minute",
    },  # it keeps `default` off
    {
        "always": "10/minute",
        "limits": {"/a": written("1/s", hosts="a.example.com")},
        "default": "20/minute",  # a file with hosts must have one
    },
]


@pytest.mark.parametrize("source", NEARLY_NO_TIGHTER)
def test_a_limit_that_may_be_the_one_that_refuses_is_not_named(source: dict[str, Any]) -> None:
    assert {code for code, _ in codes(source)} & {"RL101", "RL102"} == set()


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ({"limits": {"/a": ["5/minute", "5/minute"]}}, "/a"),
        ({"limits": {"/a": ["5/minute per ip", "5/60s per ip"]}}, "/a"),
        ({"limits": {"/a": written(["5/m", "5/m"], mode="enforce", name="n")}}, "n"),
        ({"limits": {"/api/**": "100/minute", "/api/items": "100/minute"}}, "/api/items"),
        ({"limits": {"/api/items": "100/minute", "/api/**": "100/minute"}}, "/api/items"),
        ({"limits": {"/api/**": "100/minute per global", "/api/items": "100/minute"}}, "/api/items"),
        ({"limits": {"/a/{x}": "5/s burst 9", "/a/{y:int}": "5/s burst 9"}}, "/a/{y:int}"),
        ({"limits": {"GET /a": "5/s", "same": {"routes": ["GET /a"], "limit": "5/s"}}}, "same"),
        ({"always": ["5/s", "5/s"]}, "always-2"),
        ({"always": "5/s", "default": "5/s"}, "default"),
    ],
)
def test_the_same_limit_twice_on_a_request_is_named_once(source: dict[str, Any], rule: str) -> None:
    assert codes(source) == [("RL102", rule)]


@pytest.mark.parametrize(
    "source",
    [
        {"limits": {"/a": ["5/minute per ip", "5/minute per user"]}},
        {"limits": {"/a": "5/minute", "/b": "5/minute"}},
        {"limits": {"/a": written("5/m", bucket="x"), "/a/**": written("5/m", bucket="x")}},
        {"limits": {"/a/**": written("5/m", **WARM), "/a/b": written("5/m", **WARM)}},
        {"limits": {"/a/**": written("5/m"), "/a/b": written("5/m", mode="shadow")}},
        {"limits": {"/a/**": written("5/m"), "/a/b": written("5/m", cost=2)}},
        {"limits": {"/a/**": written("5/m", mode="none"), "/a/b": "5/m"}},
    ],
)
def test_limits_of_the_same_numbers_that_count_other_things_are_fine(source: dict[str, Any]) -> None:
    assert codes(source) == []


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ({"limits": {"/static/**": "unlimited", "/static/login": "5/s"}}, "/static/login"),
        ({"limits": {"/**": "unlimited", "GET /a/{x:int}": "5/s"}}, "GET /a/{x:int}"),
        ({"limits": {"GET /a": "unlimited", "POST /a": "unlimited", "GET,POST /a": "5/s"}}, "GET,POST /a"),
        ({"limits": {"/{p}": "unlimited", "x": {"routes": ["/a", "/b"], "limit": "5/s"}}}, "x"),
        ({"limits": {"/a/**": "unlimited", "/a/b": written("5/s", mode="shadow")}}, "/a/b"),
    ],
)
def test_a_rule_wholly_under_unlimited_ones_is_named(source: dict[str, Any], rule: str) -> None:
    assert codes(source) == [("RL201", rule)]


@pytest.mark.parametrize(
    "source",
    [
        {"limits": {"/static/**": "unlimited", "/{x}/login": "5/s"}},
        {"limits": {"GET /static/**": "unlimited", "/static/login": "5/s"}},
        {"limits": {"GET /static/**": "unlimited", "WS /static/login": "5/s"}},
        {"limits": {"/a": "unlimited", "x": {"routes": ["/a", "/b"], "limit": "5/s"}}},
        {
            "limits": {"/a/**": written("unlimited", hosts="a.example"), "/a/b": "5/s"},
            "default": "1/minute",
        },
        {"limits": {"/a/**": written("unlimited", mode="none"), "/a/b": "5/s"}},
        {"always": "5/s", "limits": {"/a/**": "unlimited"}},
        {"limits": {"/a/**": "unlimited", "/a/b": written("5/s", case_sensitive=False)}},
    ],
)
def test_a_rule_with_requests_that_are_not_unlimited_is_fine(source: dict[str, Any]) -> None:
    assert codes(source) == []


def test_a_default_beside_a_rule_for_everything_is_named() -> None:
    assert codes({"limits": {"/**": "5/s"}, "default": "1/minute"}) == [("RL202", "default")]


@pytest.mark.parametrize(
    "rule",
    [
        written("5/s", mode="shadow"),
        written("5/s per user", missing="skip"),
        {"concurrency": 3},
        "unlimited",
    ],
)
def test_a_rule_for_everything_that_leaves_requests_to_the_default_is_fine(rule: Any) -> None:
    assert codes({"limits": {"/**": rule}, "default": "1/minute"}) == []


def test_a_rule_for_everything_may_leave_preflights_to_the_default() -> None:
    default = written("1/minute", preflight="count")
    assert codes({"limits": {"/**": "5/s"}, "default": default}) == []
    assert codes({"limits": {"/**": "5/s"}, "default": default, "preflight": "count"}) == [
        ("RL202", "default")
    ]


def test_a_rule_for_some_methods_or_hosts_leaves_the_rest_to_the_default() -> None:
    assert codes({"limits": {"GET /**": "5/s"}, "default": "1/minute"}) == []
    assert codes({"limits": {"/**": written("5/s", hosts="a.example")}, "default": "1/minute"}) == []


@pytest.mark.parametrize(
    "route", ["/a//b", "/a/../b", "/a/./b", "//a", "/a//", "/static/../**", "GET /a/{x}/.."]
)
def test_a_route_that_is_not_its_plain_path_is_named(route: str) -> None:
    assert codes({"limits": {route: "5/s"}}) == [("RL203", route)]


@pytest.mark.parametrize(
    "route", ["/a/b", "/a/", "/", "/**", "/a/{x:path}", "/.well-known/x", "/a/...", "/a..b"]
)
def test_a_route_that_is_its_plain_path_is_fine(route: str) -> None:
    assert codes({"limits": {route: "5/s"}}) == []


def test_the_message_says_what_a_route_stands_for() -> None:
    (warning,) = warnings({"limits": {"/static/../login": "5/s"}})
    assert "`/static/../login`" in warning.message
    assert "stands for `/login`" in warning.message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ip", "10.0.0.0/8"),
        ("ip", "2001:db8::7"),
        ("ip", "2001:DB8::/64"),
        ("ip", "010.0.0.1"),
        ("ip", "localhost"),
        ("method", "get"),
        ("method", "FETCH"),
        ("host", "Example.com"),
        ("host", "example.com:8000"),
        ("host", "example.com."),
        ("path", "/a/"),
        ("path", "/a//b"),
        ("path", "a"),
        ("global", "anybody"),
    ],
)
def test_an_override_for_a_value_that_the_key_never_has_is_named(key: str, value: str) -> None:
    rule = written("5/s", key=f"{key}+ip" if key != "ip" else key, overrides={value: "9/s"}, trusted=True)
    assert ("RL204", "default") in codes({"default": rule})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ip", "192.0.2.7"),
        ("ip", "10.*"),
        ("ip", "2001:db8::/64"),
        ("ip", "2001:db8::/48"),
        ("ip", "unix"),
        ("ip", "=testclient"),
        ("method", "POST"),
        ("method", "WS"),
        ("host", "example.com"),
        ("host", "[::1]"),
        ("path", "/a/b"),
        ("path", "/"),
        ("user", "any thing"),
        ("header:x", "ANY"),
        ("route", "/a"),
    ],
)
def test_an_override_for_a_value_that_the_key_may_have_is_fine(key: str, value: str) -> None:
    rule = written(["5/s", "50/s per global"], key=key, overrides={value: "9/s"}, trusted=True)
    assert codes({"default": rule}) == []


def test_an_override_behind_one_that_takes_all_is_named() -> None:
    overrides = {"a-*": "9/s", "*": "8/s", "b-*": "7/s", "exact": "6/s"}
    (warning,) = warnings({"default": written("5/s per user", overrides=overrides)})
    assert (warning.code, "`b-*`" in warning.message) == ("RL204", True)


@pytest.mark.parametrize(
    ("route", "methods"), [("GET /a", {"POST": 5}), ("POST,PUT /a", {"WS": 2}), ("POST /a", {"HEAD": 2})]
)
def test_a_cost_for_a_method_that_the_rule_is_not_for_is_named(route: str, methods: dict[str, int]) -> None:
    assert codes({"limits": {route: written("9/s", cost={"method": methods})}}) == [("RL205", route)]


@pytest.mark.parametrize("route", ["/a", "GET,POST /a", "GET,POST,WS /a"])
def test_a_cost_for_a_method_of_the_rule_is_fine(route: str) -> None:
    assert codes({"limits": {route: written("9/s", cost={"method": {"HEAD": 2, "POST": 5}})}}) == []


@pytest.mark.parametrize("key", ["header:x", "cookie:sid", "query:key", "ip+header:x", "host"])
def test_a_key_that_clients_write_is_named_even_when_trusted(key: str) -> None:
    assert codes({"default": written("5/s", key=key, trusted=True)}) == [("RL301", "default")]


@pytest.mark.parametrize(
    "limit", [["5/s per header:x", "50/s"], ["5/s per header:x", "50/s per global"], "5/s"]
)
def test_a_key_that_clients_write_beside_one_that_holds_them_is_fine(limit: Any) -> None:
    assert codes({"default": written(limit, trusted=True)}) == []


def test_a_host_in_the_key_of_a_rule_for_named_hosts_is_fine() -> None:
    rule = written("5/s", key="host+ip", hosts=["a.example"])
    assert codes({"limits": {"/a": rule}, "default": "9/s"}) == []


def test_a_rule_built_in_python_is_looked_at_too() -> None:
    limit = Limit(Policy("x", 5, 10**9, "5/second"), SlidingWindow(5, 1), (KeyPart("header", "x"),), "x")
    (warning,) = lint(RuleSet(default=Rule("x", limits=(limit,)), source="my rules"), today=TODAY)
    assert (warning.code, warning.place) == ("RL301", "my rules")


@pytest.mark.parametrize(("since", "found"), [("2026-03-02", [("RL401", "default")]), ("2026-03-03", [])])
def test_a_shadow_rule_is_old_after_90_days(since: str, found: list[tuple[str, str]]) -> None:
    assert codes({"default": written("5/s", mode="shadow", since=since)}) == found


def test_a_shadow_rule_without_a_date_or_with_one_to_come_is_fine() -> None:
    assert codes({"default": written("5/s", mode="shadow")}) == []
    assert codes({"default": written("5/s", mode="shadow", since=date(2030, 1, 1))}) == []


def test_memory_under_several_workers_is_named() -> None:
    source = {"default": "5/s"}
    assert [warning.code for warning in warnings(source, workers=2)] == ["RL501"]
    assert warnings(source, workers=1) == []
    assert warnings({**source, "store": "shared://"}, workers=2) == []


@pytest.mark.parametrize("wide", ["0.0.0.0/0", "::/0", "0.0.0.0/1", "128.0.0.0/7", "2000::/3", "fc00::/6"])
def test_networks_that_hold_half_the_world_are_too_wide(wide: str) -> None:
    assert too_wide([ip_network(wide)]) == [ip_network(wide)]


@pytest.mark.parametrize(
    "narrow", ["10.0.0.0/8", "192.0.2.7", "fd00::/8", "fc00::/7", "::1", "172.16.0.0/12"]
)
def test_networks_of_a_site_are_not_too_wide(narrow: str) -> None:
    assert too_wide([ip_network(narrow)]) == []


def test_proxies_that_hold_everybody_are_named_each() -> None:
    trusted = ["0.0.0.0/0", "10.0.0.0/8", "::/0"]
    found = warnings({"default": "5/s", "client": {"trusted_proxies": trusted}})
    assert [(warning.code, warning.rule, warning.place) for warning in found] == [("RL302", "", "rules")] * 2
    assert "holds 0.0.0.0/0, so nearly everybody" in found[0].message


BOTH = {"limits": {"/a": ["5/s", "5/s"], "/b": ["5/s", "5/s"], "/a//c": "1/s"}}


@pytest.mark.parametrize(
    ("ignore", "left"),
    [
        ([], [("RL102", "/a"), ("RL102", "/b"), ("RL203", "/a//c")]),
        (["RL102"], [("RL203", "/a//c")]),
        ("RL102", [("RL203", "/a//c")]),
        (["RL102 /a"], [("RL102", "/b"), ("RL203", "/a//c")]),
        (["RL102 /a", "RL203", "RL301"], [("RL102", "/b")]),
    ],
)
def test_a_file_may_ignore_a_code_for_all_rules_or_for_one(ignore: Any, left: list[tuple[str, str]]) -> None:
    assert codes({**BOTH, "lint": {"ignore": ignore}}) == left


def test_what_is_ignored_stands_in_the_rule_set() -> None:
    rules = load_rules({**BOTH, "lint": {"ignore": ["RL102 /a", "RL501"]}})
    assert rules.ignored == (Ignored("RL102", "/a"), Ignored("RL501"))


def test_warnings_have_the_place_of_their_rule(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("limits:\n  /a: 5/s\n  /b: [5/s, 5/s]\nalways:\n  - 9/s\n  - 9/s\n")
    found = lint(load_rules(file), today=TODAY, workers=2)
    assert [(warning.code, warning.place) for warning in found] == [
        ("RL501", f"{file}"),
        ("RL102", f"{file}:6:5"),
        ("RL102", f"{file}:3:3"),
    ]


def test_a_warning_of_a_dict_has_its_path() -> None:
    assert [warning.place for warning in warnings({"limits": {"/b": ["5/s", "5/s"]}})] == ["limits./b"]


def test_an_included_rule_has_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("limits:\n  /b: [5/s, 5/s]\n")
    (tmp_path / "rules.yaml").write_text("include: more.yaml\ndefault: 5/s\n")
    (warning,) = lint(load_rules(tmp_path / "rules.yaml"), today=TODAY)
    assert warning.place == f"{tmp_path / 'more.yaml'}:2:3"


def test_a_warning_is_one_line_with_code_and_link() -> None:
    (warning,) = warnings({"limits": {"/b": ["5/s", "5/s"]}})
    assert str(warning) == (
        "limits./b: RL102 `5/second per ip` is the same limit as `5/second per ip` beside it, which counts"
        " for all of these requests too: leave this one out (docs/lint.md#rl102)"
    )


def test_a_warning_refuses_a_code_that_nobody_explains() -> None:
    with pytest.raises(ValueError, match="RL999"):
        LintWarning("RL999", "", "rules", "odd")
    with pytest.raises(ValueError, match="no warning"):
        LintWarning(CODES[0], "", "rules", "")


def test_a_date_that_is_none_and_one_without_a_shadow_are_refused() -> None:
    for since in ("2026-02-31", "31.01.2026", "20260131", 2026, "tomorrow"):
        with pytest.raises(RuleFileError, match="is not a date: write year, month and day"):
            load_rules({"default": {"limit": "5/s", "mode": "shadow", "since": since}})
    with pytest.raises(RuleFileError, match="`since` is the day on which a `mode: shadow` rule began"):
        load_rules({"default": {"limit": "5/s", "since": "2026-01-31"}})


def test_thousands_of_rules_are_compared_without_comparing_all_pairs() -> None:
    rules = {f"/api/v{number}/{{id}}": "10/minute" for number in range(2000)}
    source = {"limits": {**rules, "/api/**": "5/minute"}}
    assert len(warnings(source)) == 2000
