"""The JSON Schema for editors: fresh, lenient towards what loads, strict where it can know."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.json_schema import SCHEMA_FILE, json_schema
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.read_yaml import read_yaml
from tests.rules.test_bad_rules import ENV, FILES
from tests.rules.test_docs import EXAMPLES
from tests.rules.test_fuzz import FILES as ANY_FILE

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

SCHEMA = json.loads(SCHEMA_FILE.read_text("utf-8"))

ONLY_LOADING_KNOWS = (
    *("client_written", "cost_above", "headers_clash", "hosts_", "include_", "key_part_twice"),
    *("key_without_cookie_name", "limit_too_large", "list_empty", "long_form_idle", "long_form_month"),
    *("long_form_needs", "long_form_two", "long_form_warm_up", "month_", "year_", "name_", "not_yet_p"),
    *("overrides_of", "overrides_with", "period_too_long", "responder_", "route_", "status_twice"),
    *("timezone_without", "unknown_converter", "unknown_method", "unlimited_", "warm_up_", "yaml_"),
    *("cold_factor_too_large", "key_function", "limit_function", "file_without_rules", "case_sensitive_in"),
    *("queue_cost", "queue_of", "queue_without", "lint_unknown_rule", "since_without"),
    *("client_header_alone", "client_skip", "client_trusted", "client_user_by", "client_user_function"),
    *(
        "algorithm_leaky",
        "algorithm_windows",
        "on_error_of",
        "store_fallback",
        "store_redis",
    ),
    *("charge_function", "charge_of", "cost_bounds", "cost_settled", "unmatched_routes_without"),
    "concurrency_alone",
    "store_lease_of",
    *("deny_file", "penalty_of", "tiers_", "enforce_of", "relate_that", "relate_with", "messages_idle"),
    *("adaptive_alone", "chain_with"),
    "bandwidth_idle",
    "version_as_fraction",  # JSON has one kind of number
)
"""What takes more than one value to see, or the app, or other files."""


@cache
def validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(SCHEMA)
    return Draft202012Validator(SCHEMA)


def data_of(path: Path) -> Any:
    return read_yaml(path.read_bytes(), path.name, ENV)[0].data


def is_valid(data: Any) -> bool:
    return bool(validator().is_valid(data))


def test_the_schema_in_the_package_is_fresh() -> None:
    """Else run `python -m ratelimit_middleware.rules.json_schema`."""
    assert json_schema() == SCHEMA


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_of_the_page_is_valid(text: str) -> None:
    errors = validator().iter_errors(read_yaml(text.encode(), "page", {})[0].data)
    assert [error.message for error in errors] == []


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if not path.stem.startswith(ONLY_LOADING_KNOWS)],
    ids=lambda path: path.stem,
)
def test_a_mistake_that_one_value_shows_is_seen_in_the_editor(path: Path) -> None:
    try:
        data = data_of(path)
    except RuleFileError:
        return  # no YAML: the editor says so itself
    assert not is_valid(data)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(ANY_FILE)
def test_what_loads_is_valid(source: dict[str, Any]) -> None:
    """An editor must not mark what works."""
    try:
        load_rules(source, env={"A": "5/s"})
    except RuleFileError:
        return
    assert is_valid(source)


@pytest.mark.parametrize(
    "rule",
    [
        "${LIMIT}",
        "UNLIMITED",
        "5 Per 2 HOURS burst 3 PER Ip + header:x",
        {"limit": "5/s", "cost": "${COST}", "trusted": "${T}", "mode": "off"},
        {"limit": {"count": "${N}", "per": "${UNIT}"}, "hosts": "a.example", "methods": "GET"},
        ["5/s", {"count": 5, "per": "month", "timezone": "Europe/Berlin"}],
        {"limit": "python:app.limits:of per user", "missing": "skip"},
        {"limit": "5/s", "cost": {"method": {"POST": 5}}, "overrides": {"a*": "9/s"}},
    ],
)
def test_every_spelling_is_valid(rule: Any) -> None:
    errors = validator().iter_errors({"limits": {"GET /x": rule}, "default": rule, "always": [rule]})
    assert [error.message for error in errors] == []


@pytest.mark.parametrize(
    "rule", ["5/minut", "0/s", "5/s per sid", None, 5, {}, {"limits": "5/s"}, {"limit": None}]
)
def test_nonsense_is_invalid(rule: Any) -> None:
    assert not is_valid({"default": rule})
