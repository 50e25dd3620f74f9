"""From files and mappings to a rule set."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.decision import Policy
from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.choices import MethodCost, Overrides
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.model import KeyPart, Limit, Route, Rule, RuleSet

pytestmark = pytest.mark.arithmetic


def load(source: dict[str, Any], **env: str) -> RuleSet:
    return load_rules(source, env=env)


def limits_of(rules: RuleSet) -> list[Limit]:
    default = [rules.default] if rules.default else []
    return [limit for rule in (*rules.limits, *rules.always, *default) for limit in rule.limits]


def only_limit(source: object) -> Limit:
    (limit,) = limits_of(load({"default": source}))
    return limit


def problems(source: dict[str, Any], **env: str) -> list[tuple[str, str]]:
    with pytest.raises(RuleFileError) as refusal:
        load(source, **env)
    return [(problem.place, problem.message) for problem in refusal.value.problems]


def test_a_plain_limit_is_a_sliding_window() -> None:
    limit = only_limit("100/15m")
    assert limit.algorithm == SlidingWindow(limit=100, period=900)
    assert limit.key == (KeyPart("ip"),)
    assert limit.policy == ("default", 100, 900 * 10**9, "100/15m")


def test_a_burst_makes_it_a_steady_rate() -> None:
    assert only_limit("10/second burst 20").algorithm == GCRA(limit=10, period=1, burst=20)


@pytest.mark.parametrize("warm_up", ["30s", {"period": "30s"}, {"period": "30s", "cold_factor": 3}])
def test_warm_up_keeps_its_numbers(warm_up: object) -> None:
    limit = only_limit({"limit": "100/second", "behavior": "warm_up", "warm_up": warm_up})
    assert limit.algorithm == WarmUpWindow(limit=100, period=1, warm_up_period=30, cold_factor=3)


def test_the_key_of_a_limit_goes_before_the_key_of_its_rule() -> None:
    rules = load({"default": {"limit": ["5/s per global", "9/s"], "key": "ip+route"}})
    assert [limit.key for limit in limits_of(rules)] == [
        (KeyPart("global"),),
        (KeyPart("ip"), KeyPart("route")),
    ]


@pytest.mark.parametrize(
    "source", ["5/s;9/m", ["5/s", "9/m"], {"limit": "5/s, 9/m"}, {"limit": ["5/s", "9/m"]}]
)
def test_short_and_long_forms_mean_the_same(source: object) -> None:
    assert load({"limits": {"/x": source}}) == load({"limits": {"/x": ["5/s", "9/m"]}})


@pytest.mark.parametrize("mode", ["none", False, "off", "no"])
def test_a_rule_of_mode_none_is_left_out(mode: object) -> None:
    assert load({"limits": {"/x": {"limit": "5/s", "mode": mode}}}).limits == ()


def test_a_rule_of_mode_none_is_still_checked() -> None:
    assert problems({"limits": {"/x": {"limit": "5/sek", "mode": "none"}}})


def test_a_shadow_rule_makes_shadow_limits() -> None:
    assert only_limit({"limit": "5/s", "mode": "shadow"}).shadow
    assert not only_limit({"limit": "5/s", "mode": "enforce"}).shadow


@pytest.mark.parametrize("always", ["5/s", ["5/s"], {"limit": "5/s"}, [{"limit": ["5/s"]}]])
def test_always_is_one_rule_or_a_list(always: object) -> None:
    rules = load({"always": always})
    assert [rule.name for rule in rules.always] == ["always-1"]


@pytest.mark.parametrize(
    ("headers", "styles"),
    [
        ("draft-11", ("draft-11",)),
        ("legacy", ("legacy",)),
        (["draft-11", "legacy"], ("draft-11", "legacy")),
        ("none", ()),
        (False, ()),
        ("off", ()),
    ],
)
def test_header_generations_are_chosen_by_name(headers: object, styles: tuple[str, ...]) -> None:
    assert load({"response": {"headers": headers}}).headers == styles
    assert load({}).headers == ("draft-11",)


@pytest.mark.parametrize("store", ["memory://", {"url": "memory://"}, "${STORE}", "${NOTHING:-memory://}"])
def test_the_store_is_a_url(store: object) -> None:
    assert load({"store": store}, STORE="memory://").store.url == "memory://"


def test_a_rule_set_is_given_back_as_it_is() -> None:
    rules = RuleSet()
    assert load_rules(rules) is rules


def test_anything_else_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="bytes"):
        load_rules(b"limits.yaml")  # type: ignore[arg-type]  # what the test is about


# Names


def test_policy_names_come_from_the_name_or_the_route_and_are_numbered() -> None:
    source = {
        "limits": {
            "GET /items/{id:int}": ["5/s", "9/m"],
            "/api/**": {"name": "Api.v1", "limit": ["1/s", "2/s", "3/s"]},
            "/ünï/": "5/s",
            "/": "5/s",
        },
        "always": ["5/s", {"limit": "7/s", "name": "site"}],
        "default": "5/s",
    }
    names = [limit.policy.name for limit in limits_of(load(source))]
    assert names == [
        *("get-items-id", "get-items-id-2", "Api.v1", "Api.v1-2", "Api.v1-3", "n", "root"),
        *("always-1", "site", "default"),
    ]


def test_names_that_fall_together_are_told_apart() -> None:
    source = {
        "limits": {
            "/items/{id}": ["5/s", "6/s"],
            "/items/id": "5/s",
            "/items-id": "5/s",
            "/x": {"limit": "5/s", "name": "items-id-2"},
            "/y": {"limit": ["5/s", "6/s"], "name": "items-id"},
        }
    }
    limits = limits_of(load(source))
    names = [limit.policy.name for limit in limits]
    assert len(set(names)) == len({limit.rule_id for limit in limits}) == len(limits)
    assert names[-3:-1] == ["items-id-2", "items-id"]


def test_many_routes_without_ascii_letters_get_names_of_their_own() -> None:
    limits = limits_of(load({"limits": {f"/{chr(0x4E00 + number)}": "5/s" for number in range(5000)}}))
    assert len({limit.policy.name for limit in limits}) == 5000


def test_a_long_route_has_a_short_name() -> None:
    (limit,) = limits_of(load({"limits": {"/" + "very/" * 40: "5/s"}}))
    assert len(limit.policy.name) <= 64


def test_ids_do_not_depend_on_the_rules_above() -> None:
    (below,) = load({"limits": {"/a": "5/s"}}).limits
    (_, again) = load({"limits": {"/b": "5/s", "/a": "5/s"}}).limits
    assert below.limits[0].rule_id == again.limits[0].rule_id == "/a"


# The same in Python


def test_rules_made_by_hand_equal_the_loaded_ones() -> None:
    source = {
        "limits": {
            "GET /items/{id}": {
                "limit": ["5/second per user", "100/month"],
                "name": "items",
                "hosts": ["a.example"],
                "missing": "skip",
                "cost": {"method": {"GET": 2}},
                "overrides": {"ada": "9/second"},
            },
            "/health": "unlimited",
        },
        "default": "300/minute",
    }
    user, ip, cost = (KeyPart("user"),), (KeyPart("ip"),), MethodCost({"GET": 2})
    second = 10**9
    ada = Limit(
        Policy("items", 9, second, "9/second"),
        SlidingWindow(9, 1),
        user,
        "items",
        cost_of=cost,
        missing="skip",
    )
    items = Limit(
        Policy("items", 5, second, "5/second"),
        SlidingWindow(5, 1),
        user,
        "items",
        cost_of=cost,
        missing="skip",
        choose=Overrides(user[0], {"ada": ada}),
    )
    month = Limit(
        Policy("items-2", 100, 31 * 86_400 * second, "100/month"),
        FixedWindow(100, "month"),
        ip,
        "items#2",
        cost_of=cost,
        missing="skip",
    )
    default = Limit(Policy("default", 300, 60 * second, "300/minute"), SlidingWindow(300, 60), ip, "default")
    route = Route("GET /items/{id}", frozenset({"GET"}), "/items/{id}")
    assert load(source) == RuleSet(
        limits=(
            Rule("items", (route,), (items, month), hosts=("a.example",)),
            Rule("/health", (Route("/health", None, "/health"),), unlimited=True),
        ),
        default=Rule("default", limits=(default,)),
    )


def handmade(name: str, rule_id: str, count: int = 5) -> Limit:
    return Limit(Policy(name, count, 10**9, "x"), SlidingWindow(count, 1), (KeyPart("ip"),), rule_id)


def test_rules_of_one_name_are_refused() -> None:
    with pytest.raises(RuleFileError, match="two of kind rule are named `a`"):
        RuleSet(limits=(Rule("a"),), default=Rule("a"))


def test_policies_of_one_name_are_refused() -> None:
    one, other = Rule("a", limits=(handmade("x", "a"),)), Rule("b", limits=(handmade("x", "b"),))
    with pytest.raises(RuleFileError, match="two of kind policy are named `x`"):
        RuleSet(limits=(one,), always=(other,))


def test_limits_of_one_id_must_have_the_same_numbers() -> None:
    one, other = Rule("a", limits=(handmade("x", "id"),)), Rule("b", limits=(handmade("y", "id", 6),))
    with pytest.raises(RuleFileError, match="two limits of the id `id` differ"):
        RuleSet(limits=(one, other))
    assert RuleSet(limits=(one, Rule("b", limits=(handmade("y", "id"),)))).rules


# Clients


@pytest.mark.parametrize(
    "rule",
    [
        {"limit": "5/s per header:x-key", "trusted": True},
        ["5/s per header:x-key", "9/s per ip"],
        ["5/s per header:x-key", "9/s per global"],
        ["5/s per header:x-key+ip", "9/s per ip"],
        ["5/s per cookie:sid+query:q+host", "9/s per user"],
        {"limit": ["5/s per header:x-key", "9/s per ip"], "missing": "skip"},
        {"limit": ["5/s per header:x-key", "9/s per user"], "missing": "deny"},
        {"limit": "5/s per host", "hosts": ["a.example", "b.example"]},
        "5/s per path",
        "5/s per python:tests.rules.app_functions:tenant",
    ],
)
def test_a_key_that_clients_write_needs_something_beside_it(rule: object) -> None:
    assert load({"limits": {"/x": rule}, "default": "5/s"}).limits


@pytest.mark.parametrize(
    "key",
    [
        *("header:a", "header:a+header:b", "header:a+route", "header:a+global", "ip+header:a"),
        *("cookie:a", "query:a", "host", "user+host"),
    ],
)
def test_a_key_that_clients_write_is_refused_alone(key: str) -> None:
    ((place, message),) = problems({"limits": {"/x": f"5/s per {key}"}})
    assert place == "limits./x"
    assert "per ip" in message
    assert "trusted: true" in message


# Places


def test_a_problem_of_a_mapping_names_its_path() -> None:
    source = {
        "limits": {"/items": {"limit": "5/minut"}, "/x": {"limit": ["5/s", "6/sek"]}, "GTE /y": "5/s"},
        "always": [{"limit": "5/s", "nme": "x"}],
        "store": None,
        "default": {"limit": object()},
    }
    assert [place for place, _ in problems(source)] == [
        *("limits./items.limit", "limits./x.limit[1]", "limits.GTE /y", "always[0].nme", "store"),
        "default.limit",
    ]


def test_a_key_of_a_mapping_must_be_a_text() -> None:
    assert problems({"limits": {5: "5/s"}}) == [("limits", "the key `5` is not a text")]


def test_a_mapping_that_holds_itself_is_refused() -> None:
    source: dict[str, Any] = {}
    source["limits"] = source
    ((_, message),) = problems(source)
    assert "nested more than 20 levels deep" in message


def test_a_mapping_that_multiplies_itself_is_refused() -> None:
    part: Any = ["5/s"] * 10
    for _ in range(8):
        part = [part] * 10
    ((_, message),) = problems({"always": part})
    assert "more than 100000 keys and values" in message


@pytest.mark.parametrize(
    "source",
    [
        {"version": 10**5000},
        {"default": 10**5000},
        {
            "default": {
                "limit": "5/s",
                "behavior": "warm_up",
                "warm_up": {"period": "9s", "cold_factor": 10**5000},
            }
        },
        {"default": {"limit": "5/s", "name": -(10**5000)}},
        {"limits": {10**5000: "5/s"}},
    ],
)
def test_an_integer_too_long_to_print_is_refused(source: dict[str, Any]) -> None:
    ((_, message),) = problems(source)
    assert "very long number" in message


# The environment


def test_the_environment_stands_in_values_and_is_typed_afterwards() -> None:
    source = {"version": "${V}", "default": {"limit": "${N}/${UNIT:-minute}", "trusted": "${T:-false}"}}
    (limit,) = limits_of(load(source, V="1", N="7"))
    assert limit.policy.text == "7/minute"


def test_the_default_also_stands_in_for_an_empty_variable() -> None:
    (limit,) = limits_of(load({"default": "${N:-7}/s"}, N=""))
    assert limit.policy.quota == 7


def test_a_value_of_the_environment_is_not_expanded_again() -> None:
    assert "${B}" in problems({"default": "${A}"}, A="${B}", B="5/s")[0][1]


def test_the_environment_does_not_reach_keys() -> None:
    assert problems({"limits": {"${ROUTE}": "5/s"}}, ROUTE="/x")


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMITS", "12")
    assert only_limit("${NOT_SET_HERE:-5}/s").policy.quota == 5
    rules = load_rules({"default": "${PERMITS}/s"})
    assert limits_of(rules)[0].policy.quota == 12


# Files


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "rules.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refusal_of(path: str | Path) -> str:
    with pytest.raises(RuleFileError) as refusal:
        load_rules(path, env={})
    assert len(refusal.value.problems) == 1
    return str(refusal.value)


def test_a_file_may_be_named_by_text_or_path(tmp_path: Path) -> None:
    path = write(tmp_path, "default: 5/s\n")
    assert load_rules(path) == load_rules(str(path)) == load({"default": "5/s"})
    assert load_rules(path).source == str(path)


@pytest.mark.parametrize("name", ["missing.yaml", "", "a\0b", "\udcff\ud800", "x" * 5000])
def test_a_file_that_cannot_be_opened_is_a_rule_file_error(tmp_path: Path, name: str) -> None:
    assert "cannot be read" in refusal_of(f"{tmp_path}/{name}")


def test_a_file_above_one_mebibyte_is_refused(tmp_path: Path) -> None:
    assert "larger than 1048576 bytes" in refusal_of(write(tmp_path, "#" * (1024 * 1024 + 1)))


def test_a_file_of_one_mebibyte_is_read(tmp_path: Path) -> None:
    text = "default: 5/s\n"
    assert load_rules(write(tmp_path, text + "#" * (1024 * 1024 - len(text)))).default


def test_a_byte_order_mark_and_dos_lines_are_fine(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeffversion: 1\r\ndefault: 5/s\r\n")
    assert load_rules(path) == load({"default": "5/s"})


def test_places_count_lines_as_editors_do(tmp_path: Path) -> None:
    assert "rules.yaml:3:10: " in refusal_of(write(tmp_path, "version: 1\r\n# é\r\ndefault: 5/sek\r\n"))


def test_aliases_of_anchors_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, "limits:\n  /a: &strict [5/s, 9/m]\n  /b: *strict\n")
    assert load_rules(path) == load({"limits": {"/a": ["5/s", "9/m"], "/b": ["5/s", "9/m"]}})


def test_words_of_yaml_1_1_stay_words(tmp_path: Path) -> None:
    path = write(tmp_path, "limits:\n  /a: {limit: 5/s, mode: off}\n  /b: {limit: 5/s, name: on}\n")
    assert [rule.name for rule in load_rules(path).limits] == ["on"]


def test_ten_thousand_rules_load(tmp_path: Path) -> None:
    lines = [f"  /items{number}/{{id}}: 5/minute\n" for number in range(10_000)]
    assert len(load_rules(write(tmp_path, "limits:\n" + "".join(lines))).limits) == 10_000


def test_model_and_matching_need_neither_yaml_nor_pydantic() -> None:
    code = (
        "import sys, ratelimit_middleware.rules.model, ratelimit_middleware.rules.match,"
        " ratelimit_middleware.rules.load;"
        "print(sorted({'yaml', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
