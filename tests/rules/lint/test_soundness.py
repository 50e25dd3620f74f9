"""No false alarm: what lint calls idle changes no answer when it is left out."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import AsgiView
from ratelimit_middleware.rules.lint.cover import Cover
from ratelimit_middleware.rules.lint.tightness import idle_limits
from ratelimit_middleware.rules.lint.unmet import under_unlimited, unmet_default
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.match import Matcher
from ratelimit_middleware.rules.model import Rule, RuleSet
from ratelimit_middleware.stores.memory import MemoryStore

pytestmark = pytest.mark.arithmetic

SEEDS = range(300)
# fmt: off
SEGMENTS = ["a", "a", "b", "7", "{x}", "{y}", "{n:int}", "{f:float}", "A", ""]
RESTS = ["", "", "/**", "/{rest:path}"]
METHODS = ["", "", "GET ", "HEAD ", "POST ", "GET,POST ", "WS "]
HOSTS: list[list[str]] = [[], [], [], [], ["a.example"], ["*.example"], ["*.b.example", "a.example"]]
LIMITS = ["2/s", "3/2s", "5/s", "8/4s", "6/4s", "2/s burst 3", "2/s burst 5", "3/s burst 2", "9/month"]
KEYS = ["ip", "ip", "ip", "global", "ip+path", "path", "user", "ip+user", "route", "ip+route", "method"]
PATHS = ["/", "/a", "/a/b", "/a/7", "/7", "/x/1.5", "//a", "/a/", "/A", "/a//b", "/b/../a"]
PLAIN_PATHS = PATHS[:6]
# fmt: on


def made_limit(random: Random) -> Any:
    key = random.choice(KEYS)
    if random.random() < 0.2:
        return {"count": random.randint(2, 6), "per": "2s", "algorithm": "fixed_window", "key": key}
    return f"{random.choice(LIMITS)} per {key}"


def made_rule(random: Random) -> dict[str, Any]:
    rule: dict[str, Any] = {"limit": [made_limit(random) for _ in range(random.choice([1, 1, 2]))]}
    for key, values in (
        ("mode", ["enforce", "enforce", "enforce", "shadow"]),
        ("missing", ["ip", "skip", "deny"]),
        ("cost", [1, 1, 2, {"method": {"POST": 2}}]),
    ):
        if random.random() < 0.4:
            rule[key] = random.choice(values)
    return rule


def made_route(random: Random) -> str:
    if random.random() < 0.15:
        return "/**"
    segments = [random.choice(SEGMENTS) for _ in range(random.randint(0, 2))]
    return (
        random.choice(METHODS)
        + "".join(f"/{segment}" for segment in segments)
        + (random.choice(RESTS) or ("" if segments else "/"))
    )


def made_rules(random: Random) -> RuleSet:
    """Few rules that meet each other often."""
    limits: dict[str, Any] = {}
    for number in range(random.randint(1, 3)):
        rule: dict[str, Any] = made_rule(random) if random.random() < 0.8 else {"limit": "unlimited"}
        rule["routes"] = [made_route(random) for _ in range(random.choice([1, 1, 2]))]
        hosts = random.choice(HOSTS)
        limits[f"r{number}"] = {**rule, "hosts": hosts} if hosts else rule
    source: dict[str, Any] = {"limits": limits, "case_sensitive": random.random() < 0.7}
    if random.random() < 0.5 or any("hosts" in rule for rule in limits.values()):
        source["default"] = {**made_rule(random), "name": "d"}
    if random.random() < 0.5:
        source["always"] = {**made_rule(random), "name": "w"}
    return load_rules(source, env={})


def made_requests(random: Random) -> list[dict[str, Any]]:
    return [
        {
            "gap_s": random.choice([0, 0, 0, 0.2, 0.5, 1, 2]),
            "method": random.choice(["GET", "GET", "HEAD", "POST", "WS", "OPTIONS"]),
            "path": random.choice(PATHS),
            "host": random.choice(["a.example", "c.example", "x.b.example", "other"]),
            "ip": random.choice(["192.0.2.1", "192.0.2.1", "192.0.2.2"]),
            "user": random.choice([None, "ann", "bob"]),
        }
        for _ in range(60)
    ]


def made(seed: int) -> tuple[RuleSet, list[dict[str, Any]]]:
    random = Random(seed)  # noqa: S311 - test data, no secret
    return made_rules(random), made_requests(random)


def view_of(request: dict[str, Any]) -> AsgiView:
    return AsgiView(
        {
            "type": "websocket" if request["method"] == "WS" else "http",
            "method": request["method"],
            "path": request["path"],
            "headers": [(b"host", request["host"].encode())],
            "client": (request["ip"], 1),
            "user": request["user"],
        }
    )


def answers(ruleset: RuleSet, requests: list[dict[str, Any]]) -> list[bool]:
    clock = ManualClock()
    registry = LimiterRegistry(ruleset, MemoryStore(clock=clock))
    found = []
    for request in requests:
        clock.advance(request["gap_s"])
        found.append(registry.admit(view_of(request)).allowed)
    return found


def without(ruleset: RuleSet, change: dict[str, Rule | None]) -> RuleSet:
    """The rules with some changed or left out."""

    def kept(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        return tuple(new for rule in rules if (new := change.get(rule.name, rule)))

    default = ruleset.default
    return replace(
        ruleset,
        limits=kept(ruleset.limits),
        always=kept(ruleset.always),
        default=change.get("d", default) if default else None,
    )


def lighter(ruleset: RuleSet) -> list[RuleSet]:
    """The rule set without one of the limits that lint calls idle, for each of them."""
    found = []
    rules = {rule.name: rule for rule in ruleset.rules}
    for warning in idle_limits(ruleset):
        rule = rules[warning.rule]
        named = [limit for limit in rule.limits if warning.message.startswith(f"`{limit.policy.text} per ")]
        kept = tuple(limit for limit in rule.limits if limit is not named[-1])
        if len(named) == 1:
            change = replace(rule, limits=kept) if kept else None
            found.append(without(ruleset, {rule.name: change}))
    return found


def test_an_idle_limit_left_out_changes_no_answer() -> None:
    left_out = 0
    for ruleset, requests in map(made, SEEDS):
        others = lighter(ruleset)
        left_out += len(others)
        expected = answers(ruleset, requests) if others else []
        for other in others:
            assert answers(other, requests) == expected, ruleset
    assert left_out > 20


def test_a_default_that_never_counts_may_be_left_out() -> None:
    left_out = 0
    for ruleset, requests in map(made, SEEDS):
        if list(unmet_default(ruleset)):
            left_out += 1
            assert answers(replace(ruleset, default=None), requests) == answers(ruleset, requests), ruleset
    assert left_out > 2


def test_a_rule_under_unlimited_counts_for_no_plain_path() -> None:
    found = 0
    for ruleset, requests in map(made, SEEDS):
        matcher, rules = Matcher(ruleset), {rule.name: rule for rule in ruleset.rules}
        for warning in under_unlimited(ruleset):
            found += 1
            own = {limit.rule_id for limit in rules[warning.rule].limits}
            for request in requests:
                if request["path"] in PLAIN_PATHS:
                    counted = matcher.match(view_of(request))
                    assert not own & {limit.rule_id for limit, _ in counted}, ruleset
    assert found > 2


def test_a_wider_rule_matches_whatever_the_other_does() -> None:
    found = 0
    for ruleset, requests in map(made, SEEDS):
        counting = tuple(rule for rule in ruleset.limits if not rule.unlimited)
        matcher = Matcher(replace(ruleset, limits=counting))
        cover = Cover(counting, case_sensitive=ruleset.case_sensitive)
        met = [{limit.rule_id for limit, _ in matcher.match(view_of(request))} for request in requests]
        for rule in counting:
            wider = cover.wider(rule)
            found += len(wider) - 1
            for ids in met:
                if rule.limits[0].rule_id in ids:
                    assert all(other.limits[0].rule_id in ids for other in wider), ruleset
    assert found > 20
