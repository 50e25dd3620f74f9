"""The values of the keys that say whom a rule counts and what a request costs.

Raises:
    GrammarError: from every function here, when a value is not what its key takes.
"""

from __future__ import annotations

import re
from typing import Any

from ratelimit_middleware.identity import REGISTERED_METHODS
from ratelimit_middleware.rules.callables import asked
from ratelimit_middleware.rules.choices import AskedCost, MethodCost
from ratelimit_middleware.rules.limit_fields import read_count
from ratelimit_middleware.rules.route import parse_route, read_method
from ratelimit_middleware.rules.words import GrammarError, choose, not_yet, shown, unknown

__all__ = [
    "read_cost",
    "read_include",
    "read_missing",
    "read_override",
    "read_place",
    "read_preflight",
    "read_rule_method",
    "read_unmatched_routes",
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_COST = "a cost is a number, `{method: {POST: 5}}` or `python:MODULE:FUNCTION`"
_COST_NOT_YET = ("reserve", "actual")


def read_cost(value: Any) -> int | MethodCost | AskedCost:
    """What a request costs."""
    if isinstance(value, str) and value.startswith("python:"):
        return AskedCost(asked(value))
    if isinstance(value, str) and value.startswith("header:"):
        raise GrammarError(not_yet(f"the cost {shown(value)}", _COST))
    if not isinstance(value, dict):
        return read_count("the cost")(value)
    for key in value:
        if key in _COST_NOT_YET:
            raise GrammarError(not_yet(f"the key `{key}`", _COST), key)
        if key in REGISTERED_METHODS:
            raise GrammarError(f"methods stand under `method`: write `{{method: {{{key}: …}}}}`", key)
        if key != "method":
            raise GrammarError(unknown("key", key, ("method",), _COST_NOT_YET), key)
    costs = value.get("method")
    if not isinstance(costs, dict) or not costs:
        raise GrammarError(f"the cost by method is a map such as `{{POST: 5}}`: {_COST}")
    return MethodCost({read_method(method): read_count("the cost")(cost) for method, cost in costs.items()})


def read_missing(value: Any) -> str:
    """What happens when a request lacks a part of the key."""
    return choose("value of `missing`", value, ("ip", "skip", "deny"))


def read_place(value: Any) -> str:
    """A key of `limits`: a route, or the name of a rule that has `routes`."""
    text = str(value)
    if not _NAME.fullmatch(text):
        parse_route(text)
    return text


def read_preflight(value: Any) -> str:
    """Whether CORS preflights count."""
    return choose("value of `preflight`", value, ("skip", "count"))


def read_unmatched_routes(value: Any) -> str:
    """Whether a request that the app answers with 404 counts."""
    return choose("value of `unmatched_routes`", value, ("limit",), ("skip",))


def read_rule_method(value: Any) -> str:
    """One of the methods that a rule is for."""
    if not isinstance(value, str):
        raise GrammarError(f"{shown(value)} is not a method: write `GET`")
    words = value.replace(",", " ").split()
    if len(words) > 1:
        raise GrammarError(f"{shown(value)} is not a method: write `[{', '.join(words)}]`")
    return read_method(value.strip())


def read_override(value: Any) -> str:
    """A value of a key part, globs allowed."""
    text = str(value)
    if not text or len(text) > 500:
        raise GrammarError(f"{shown(text)} is not the value of a key: write 1 to 500 characters")
    return text


def read_include(value: Any) -> str:
    """A file name, globs allowed."""
    if not isinstance(value, str) or not value.strip():
        raise GrammarError(f"{shown(value)} is not a file: write a name such as `limits.d/*.yaml`")
    return value
