"""The long form of a limit, month and year, and the table of algorithms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ratelimit_middleware import algorithms
from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.rules.algorithms import ALGORITHMS, NOT_YET
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.model import KeyPart, Limit

pytestmark = pytest.mark.arithmetic

LONG_FORMS: list[tuple[dict[str, Any], Algorithm]] = [
    ({}, SlidingWindow(1000, 3600)),
    ({"algorithm": "sliding_window"}, SlidingWindow(1000, 3600)),
    ({"burst": 20}, GCRA(1000, 3600, 20)),
    ({"algorithm": "gcra", "burst": 20}, GCRA(1000, 3600, 20)),
    ({"behavior": "warm_up", "warm_up": "3h"}, WarmUpWindow(1000, 3600, 10_800, 3)),
    (
        {"behavior": "warm_up", "warm_up": {"period": "3h", "cold_factor": 5}, "algorithm": "sliding_window"},
        WarmUpWindow(1000, 3600, 10_800, 5),
    ),
    ({"algorithm": "fixed_window"}, FixedWindow(1000, "hour")),
    ({"algorithm": "fixed_window", "per": "15m"}, FixedWindow(1000, 900)),
    ({"algorithm": "fixed_window", "per": "2 weeks"}, FixedWindow(1000, 1_209_600)),
    ({"algorithm": "fixed_window", "per": "week"}, FixedWindow(1000, "week")),
    (
        {"algorithm": "fixed_window", "per": "day", "timezone": "Asia/Tokyo"},
        FixedWindow(1000, "day", "Asia/Tokyo"),
    ),
    ({"per": "month"}, FixedWindow(1000, "month")),
    ({"per": "1 year", "timezone": "Asia/Tokyo"}, FixedWindow(1000, "year", "Asia/Tokyo")),
    ({"algorithm": "token_bucket"}, TokenBucket(1000, 3600, 1000)),
    ({"algorithm": "token_bucket", "refill": "greedy"}, TokenBucket(1000, 3600, 1000, "greedy")),
    ({"algorithm": "token_bucket", "capacity": 5, "quantum": 5}, TokenBucket(5, 18, 5)),
    ({"algorithm": "token_bucket", "capacity": 3000}, TokenBucket(3000, 3600, 1000)),
    ({"algorithm": "token_bucket", "capacity": 5, "refill": "greedy"}, TokenBucket(5, 3600, 1000, "greedy")),
    (
        {"algorithm": "token_bucket", "count": 5, "per": "10s", "capacity": 20, "quantum": 5},
        TokenBucket(20, 10, 5),
    ),
    ({"algorithm": "token_bucket", "count": 3, "per": "s", "quantum": 1}, TokenBucket(3, 0.333333334, 1)),
    ({"algorithm": "leaky_bucket", "burst": 7, "per": "s"}, LeakyBucket(1000, 7, "nodelay")),
    ({"algorithm": "smooth_bursty", "per": "s"}, SmoothBursty(1000)),
    ({"algorithm": "smooth_bursty", "per": "s", "max_burst_seconds": 2.5}, SmoothBursty(1000, 2.5)),
    ({"algorithm": "smooth_warming_up", "per": "s", "warm_up": "9s"}, SmoothWarmingUp(1000, 9)),
    ({"behavior": "queue"}, GCRA(1000, 3600, 1)),
    ({"behavior": "queue", "burst": 20, "queue": "2s"}, GCRA(1000, 3600, 20)),
    ({"behavior": "queue", "algorithm": "sliding_window"}, SlidingWindow(1000, 3600)),
    ({"behavior": "queue", "algorithm": "leaky_bucket", "burst": 7, "per": "s"}, LeakyBucket(1000, 7, 0)),
    (
        {"behavior": "warm_up_queue", "per": "s", "warm_up": "9s", "queue": "2s"},
        WarmUpPacing(1000, 9, 3, max_queueing_time=2),
    ),
    ({"algorithm": "sentinel_pacing", "per": "s"}, Pacing(1000, 0.5)),
    ({"algorithm": "sentinel_pacing", "per": "s", "queue": "250ms"}, Pacing(1000, 0.25)),
    (
        {"algorithm": "sentinel_warm_up_pacing", "per": "s", "warm_up": {"period": "9s", "cold_factor": 4}},
        WarmUpPacing(1000, 9, 4),
    ),
    ({"algorithm": "sliding_counter"}, SlidingCounter(1000, 3600)),
    ({"algorithm": "sentinel_qps", "per": "s"}, QpsWindow(1000)),
    (
        {"algorithm": "sentinel_warm_up", "per": "s", "warm_up": {"period": "9s", "cold_factor": 4}},
        WarmUp(1000, 9, 4),
    ),
    (
        {"algorithm": "sentinel_warm_up_pacing", "per": "s", "warm_up": "9s", "whole_ms": True},
        WarmUpPacing(1000, 9, whole_ms=True),
    ),
    ({"count": "1_000"}, SlidingWindow(1000, 3600)),
    ({"count": "${COUNT}", "per": "${UNIT}"}, SlidingWindow(25, 86_400)),
]


def only_limit(source: object, **more: Any) -> Limit:
    rules = load_rules({"default": source, **more}, env={"COUNT": "25", "UNIT": "day"})
    assert rules.default
    (limit,) = rules.default.limits
    return limit


@pytest.mark.parametrize(("keys", "algorithm"), LONG_FORMS, ids=lambda value: str(value)[:60])
def test_the_long_form_says_what_the_constructor_says(keys: dict[str, Any], algorithm: Algorithm) -> None:
    long = {"count": 1000, "per": "hour", **keys}
    assert only_limit({"limit": long}).algorithm == algorithm
    assert only_limit([long]) == only_limit({"limit": [long]})


def test_every_algorithm_of_the_table_has_a_long_form_here() -> None:
    tried = {str(keys.get("algorithm", "")) for keys, _ in LONG_FORMS}
    assert ALGORITHMS.keys() <= tried


def test_every_algorithm_of_the_package_is_in_the_table_or_refused_by_name() -> None:
    modules = {path.stem for path in Path(algorithms.__file__).parent.glob("[a-z]*.py")} - {"base"}
    ours = {"warm_up_window", "concurrency", "penalty", "related"}  # keys of the rule, not of the limit
    sentinel = {name: f"sentinel_{name}" for name in ("warm_up", "pacing", "warm_up_pacing")}
    sentinel["qps_window"] = "sentinel_qps"
    known = ALGORITHMS.keys() | NOT_YET
    assert {name for name in modules - ours if sentinel.get(name, name) not in known} == set()


@pytest.mark.parametrize("text", ["100/month", "100 per Month", "100/1month", "100/months"])
def test_a_month_is_one_of_the_calendar(text: str) -> None:
    assert only_limit(text).algorithm == FixedWindow(100, "month")
    assert only_limit(text).policy.text == "100/month"


def test_the_time_zone_comes_from_the_limit_the_rule_or_the_file() -> None:
    long = {"count": 100, "per": "month"}
    assert only_limit("100/month", timezone="Asia/Tokyo").algorithm == FixedWindow(100, "month", "Asia/Tokyo")
    rule = only_limit({"limit": "100/year", "timezone": "Europe/Rome"}, timezone="Asia/Tokyo")
    assert rule.algorithm == FixedWindow(100, "year", "Europe/Rome")
    own = only_limit({"limit": {**long, "timezone": "UTC"}, "timezone": "Europe/Rome"})
    assert own.algorithm == FixedWindow(100, "month", "UTC")


def test_the_time_zone_of_the_file_leaves_spans_of_time_alone() -> None:
    assert only_limit("100/day", timezone="Asia/Tokyo").algorithm == SlidingWindow(100, 86_400)
    fifteen = {"count": 5, "per": "15m", "algorithm": "fixed_window"}
    assert only_limit({"limit": fifteen}, timezone="Asia/Tokyo").algorithm == FixedWindow(5, 900)


def test_the_long_form_may_have_a_key_of_its_own() -> None:
    limit = only_limit({"limit": {"count": 5, "per": "s", "key": "global"}, "key": "route"})
    assert limit.key == (KeyPart("global"),)


def test_short_and_long_limits_stand_in_one_list() -> None:
    rules = load_rules({"default": ["5/s;9/m", {"count": 9, "per": "hour"}, "100/month"]}, env={})
    assert rules.default
    assert [limit.policy.text for limit in rules.default.limits] == [
        "5/second",
        "9/minute",
        "9/hour",
        "100/month",
    ]
    assert [limit.rule_id for limit in rules.default.limits] == [
        *("default", "default#2", "default#3", "default#4")
    ]
