"""The five examples of the format: what is supported loads, the rest is refused by its name."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.model import KeyPart

pytestmark = pytest.mark.arithmetic

FOLDER = Path(__file__).parent / "format_examples"
TIERS = "tiers: {by: 'python:shop.plans:plan_of', pro: {scale: 10}}\n"
ENV = {"REDIS_URL": "memory://", "INTERNAL_TOKEN": "a-token"}
WAITING = {
    1: [],
    2: [],
    3: [],
    4: [],
    5: [
        *("reload", "deny_cache"),
        "metrics",
    ],
}
"""The words that are refused until they get their code, in the order of the file."""


@pytest.fixture(autouse=True)
def _app_of_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function that the examples name."""
    plans = types.ModuleType("shop.plans")
    plans.plan_of = lambda view: view.user  # type: ignore[attr-defined]  # a module made here
    monkeypatch.setitem(sys.modules, "shop", types.ModuleType("shop"))
    monkeypatch.setitem(sys.modules, "shop.plans", plans)


@pytest.mark.parametrize("number", [number for number, words in WAITING.items() if not words])
def test_an_example_loads(number: int) -> None:
    assert load_rules(FOLDER / f"{number}.yaml", env=ENV).limits


@pytest.mark.parametrize("number", [number for number, words in WAITING.items() if words])
def test_what_is_not_supported_yet_is_all_that_is_refused(number: int) -> None:
    with pytest.raises(RuleFileError) as refusal:
        load_rules(FOLDER / f"{number}.yaml", env=ENV)
    messages = [problem.message for problem in refusal.value.problems]
    found = [re.match(r"(?:behavior|the key) `(\w+)` is not supported yet", message) for message in messages]
    assert [word[1] if word else None for word in found] == WAITING[number], messages


def test_the_largest_rule_loads_without_what_is_not_supported_yet(tmp_path: Path) -> None:
    text = (FOLDER / "5.yaml").read_text("utf-8")
    rule = text[text.index("  /api/v1/**:") : text.index("  POST /orders:")]
    kept = [line for line in rule.splitlines() if line.strip().partition(":")[0] not in WAITING[5]]
    path = tmp_path / "rules.yaml"
    path.write_text(TIERS + "limits:\n" + "\n".join(kept) + "\ndefault: 300/minute\n", "utf-8")
    (api,) = load_rules(path, env=ENV).limits
    assert api.hosts == ("api.example.com",)
    assert [route.pattern for route in api.routes] == ["GET,POST /api/v1/**"]
    assert [limit.algorithm for limit in api.limits] == [
        GCRA(20, 1, 40),
        TokenBucket(1000, 3600, 1000, "greedy"),
        FixedWindow(10_000, "month", "Europe/Berlin"),
    ]
    assert {limit.key for limit in api.limits} == {(KeyPart("user"), KeyPart("route"))}
    assert api.limits[0].choose
    assert api.answer
