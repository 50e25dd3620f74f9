"""The block `store` of the rule file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.store_spec import read_timeout
from ratelimit_middleware.store_settings import LeaseSettings, StoreSettings
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.stores.open import open_store

pytestmark = pytest.mark.arithmetic

PAGE = (Path(__file__).parents[2] / "docs" / "stores.md").read_text("utf-8")
EXAMPLES = re.findall(r"^ *```yaml\n(.*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL)


def settings(store: Any, **env: str) -> StoreSettings:
    return load_rules({"store": store, "default": "5/minute"}, env=env).store


def test_all_keys_come_through_and_the_environment_gives_any_of_them() -> None:
    store = {
        "url": "${URL}",
        "timeout": "${TIMEOUT}",
        "on_error": "${POLICY}",
        "expected_workers": "${WORKERS}",
        "workers": "${PROCESSES:-2}",
        "max_keys": "1_000",
        "prefix": "shop:${STAGE}",
    }
    env = {
        "URL": "shared:///run/x",
        "TIMEOUT": "250ms",
        "POLICY": "fallback",
        "WORKERS": "12",
        "STAGE": "test",
    }
    assert settings(store, **env) == StoreSettings(
        "shared:///run/x", 250_000_000, "fallback", 12, 2, 1000, "shop:test"
    )


def test_a_text_is_a_url_with_everything_else_as_usual() -> None:
    assert settings("memory://") == settings({}) == StoreSettings()


def test_a_lease_has_a_size_and_an_age_and_needs_neither() -> None:
    store = {"url": "redis://x", "on_error": "deny"}
    assert settings({**store, "lease": {}}).lease == LeaseSettings(50, 200_000_000)
    lease = {"size": "${SIZE}", "max_age": "1s"}
    assert settings({**store, "lease": lease}, SIZE="7").lease == LeaseSettings(7, 10**9)


@pytest.mark.parametrize(("size", "max_age_ns"), [(1, 10**8), (10**6 + 1, 10**8), (9, 10), (9, 61 * 10**9)])
def test_a_lease_that_makes_no_sense_is_refused(size: int, max_age_ns: int) -> None:
    with pytest.raises(InvalidLimitError):
        LeaseSettings(size, max_age_ns)


def test_one_file_serves_a_laptop_and_a_fleet() -> None:
    """What is not far away is asked for each request, whatever the file says for other stores."""
    store = settings({"url": "${STORE_URL:-memory://}", "lease": {}})
    assert store.lease == LeaseSettings()
    assert isinstance(open_store(store), MemoryStore)


@pytest.mark.parametrize(
    ("url", "policy"),
    [("memory://", "deny"), ("shared://", "deny"), ("shared:///x", "deny"), ("redis://x", "fallback")],
)
def test_only_a_remote_store_that_knows_its_processes_falls_back_by_default(url: str, policy: str) -> None:
    assert StoreSettings(url, expected_workers=4).policy == policy
    assert StoreSettings(url).policy == "deny"
    assert StoreSettings(url, on_error="allow").policy == "allow"


@pytest.mark.parametrize(
    ("text", "timeout_ms"), [("1ms", 1), ("50 ms", 50), ("1s", 1000), ("2 seconds", 2000), ("1m", 60_000)]
)
def test_a_timeout_is_a_span_of_time(text: str, timeout_ms: int) -> None:
    assert read_timeout(text) == timeout_ms * 1_000_000


def test_a_fallback_of_memory_needs_no_divisor_for_it_never_falls_back() -> None:
    rules = {"store": {"on_error": "fallback"}, "default": {"limit": "5/minute", "on_error": "fallback"}}
    assert load_rules(rules, env={}).store.on_error == "fallback"


def test_a_rule_keeps_its_own_policy_for_all_its_limits() -> None:
    rule = {"limit": ["5/minute", "50/hour"], "on_error": "deny", "overrides": {"10.0.0.1": "9/minute"}}
    ruleset = load_rules({"default": rule, "always": "7/s"}, env={})
    assert [limit.on_error for one in ruleset.rules for limit in one.limits] == [None, "deny", "deny"]


@pytest.mark.parametrize(
    "values",
    [
        {"timeout_ns": 0},
        {"timeout_ns": 10**12},
        {"on_error": "open"},
        {"expected_workers": 0},
        {"workers": 0},
        {"max_keys": -1},
        {"prefix": "a b"},
        {"prefix": ""},
    ],
)
def test_settings_refuse_nonsense(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidLimitError, match=f"{next(iter(values))}="):
        StoreSettings(**values)


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_of_the_page_on_stores_loads(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(
        re.sub("^  (?=store: {)", "", text) + ("" if "default:" in text else "default: 5/minute\n")
    )
    assert load_rules(path, env={"REDIS_URL": "memory://"}).default
