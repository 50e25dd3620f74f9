"""What the rule file says about the cost of a request, before and after it is served.

Raises:
    GrammarError: from every function here, when a value is not what its key takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from ratelimit_middleware.identity import REGISTERED_METHODS
from ratelimit_middleware.rules.callables import asked, is_async, resolve
from ratelimit_middleware.rules.charges import (
    ActualHeader,
    ActualMeasured,
    ActualSaid,
    Charged,
    ChargedIf,
    ChargedOn,
    Reserve,
)
from ratelimit_middleware.rules.choices import AskedCost, HeaderCost, MethodCost
from ratelimit_middleware.rules.limit_fields import read_count
from ratelimit_middleware.rules.model import Settle
from ratelimit_middleware.rules.route import read_method
from ratelimit_middleware.rules.values import FUNCTION, POSITIVE, Json
from ratelimit_middleware.rules.words import GrammarError, shown, unknown

__all__ = ["CHARGE", "COST", "Cost", "check_charge", "read_charge", "read_cost"]

Cost: TypeAlias = int | MethodCost | AskedCost | HeaderCost | Reserve

_COST = (
    "a cost is a number, `{method: {POST: 5}}`, `header:NAME`, `python:MODULE:FUNCTION` or"
    " `{reserve: 500, actual: header:NAME}`"
)
_ACTUAL = "`header:NAME`, `python:MODULE:FUNCTION`, `bytes` or `seconds`"
_CHARGE = "`{on_status: [401, 403]}`, `python:MODULE:FUNCTION` or `all`"
_HEADER = re.compile(r"header:([A-Za-z0-9!#$%&'*.^_`|~+-]+)", re.IGNORECASE)
_STATUSES = re.compile(
    r"(?P<hundred>[1-5])xx|(?P<low>[1-5][0-9]{2})(?:\s*-\s*(?P<high>[1-5][0-9]{2}))?", re.IGNORECASE
)
_KEYS = {
    "method": frozenset({"method"}),
    "reserve": frozenset({"reserve", "actual"}),
    "by": frozenset({"by", "min", "max"}),
}


class _Charging(Protocol):
    """A part of the file that says what counts."""

    @property
    def limit(self) -> Any:
        """Its limits."""

    @property
    def cost(self) -> Any:
        """What a request costs."""

    @property
    def charge(self) -> Any:
        """Which requests count."""


def check_charge(spec: _Charging) -> None:
    """What a request costs in the end is said once, and of something.

    Raises:
        GrammarError: it is not.
    """
    settled = [
        key
        for key in ("charge", "cost")
        if (spec.charge if key == "charge" else isinstance(spec.cost, Reserve))
    ]
    if settled and not spec.limit:
        raise GrammarError(
            f"`{settled[0]}` has no effect on requests in progress: it is for a rule with a `limit`",
            settled[0],
        )
    if len(settled) == 2:
        raise GrammarError(
            "`charge` and the `actual` of `cost` both say what a request costs in the end: leave `charge`"
            " out, and let `actual` be 0 for requests that do not count",
            "charge",
        )


def read_cost(value: Any) -> Cost:
    """What a request costs."""
    if isinstance(value, str) and ":" in value:
        return _asked_cost(value, 1, None)
    if not isinstance(value, dict):
        return read_count("the cost")(value)
    for key in value:
        if key in REGISTERED_METHODS:
            raise GrammarError(f"methods stand under `method`: write `{{method: {{{key}: …}}}}`", key)
    form = next((form for form, keys in _KEYS.items() if keys & value.keys()), None)
    allowed = _KEYS[form] if form else frozenset().union(*_KEYS.values())
    for key in value:
        if key not in allowed:
            raise GrammarError(unknown("key", key, allowed), str(key))
    return _FORMS[form](value) if form else _refuse_cost()


def _refuse_cost() -> Cost:
    raise GrammarError(_COST)


def _method_cost(value: dict[str, Any]) -> Cost:
    costs = value["method"]
    if not isinstance(costs, dict) or not costs:
        raise GrammarError(f"the cost by method is a map such as `{{POST: 5}}`: {_COST}")
    return MethodCost({read_method(method): read_count("the cost")(cost) for method, cost in costs.items()})


def _bounded_cost(value: dict[str, Any]) -> Cost:
    if "by" not in value:
        raise GrammarError("`min` and `max` are bounds of a cost by something: add `by: header:NAME`")
    least = read_count("min")(value.get("min", 1))
    ceiling = read_count("max")(value["max"]) if "max" in value else None
    if ceiling is not None and ceiling < least:
        raise GrammarError(f"max {shown(ceiling)} is below min {shown(least)}", "max")
    return _asked_cost(value["by"], least, ceiling)


def _asked_cost(text: Any, least: int, ceiling: int | None) -> Cost:
    if isinstance(text, str) and text.startswith("python:"):
        return AskedCost(asked(text), least, ceiling)
    found = _HEADER.fullmatch(text) if isinstance(text, str) else None
    if not found:
        raise GrammarError(f"{shown(text)} tells no cost: {_COST}")
    return HeaderCost(found[1].lower(), least, ceiling)


def _reserved_cost(value: dict[str, Any]) -> Cost:
    for key, example in (("reserve", "500"), ("actual", "header:x-tokens-used")):
        if key not in value:
            raise GrammarError(
                f"a cost that is settled later has a `reserve` and an `actual`: add `{key}: {example}`"
            )
    return Reserve(read_count("reserve")(value["reserve"]), _read_actual(value["actual"]))


_FORMS: dict[str, Callable[[dict[str, Any]], Cost]] = {
    "method": _method_cost,
    "by": _bounded_cost,
    "reserve": _reserved_cost,
}


def _read_actual(value: Any) -> Settle:
    """What tells the true cost."""
    if value in ("bytes", "seconds"):
        return ActualMeasured(value)
    if isinstance(value, str) and value.startswith("python:"):
        return ActualSaid(*_judge(value))
    found = _HEADER.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise GrammarError(f"{shown(value)} tells no true cost: write {_ACTUAL}", "actual")
    return ActualHeader(found[1].lower())


def read_charge(value: Any) -> Charged | None:
    """Which requests count; None = all."""
    if value == "all":
        return None
    if isinstance(value, str) and value.startswith("python:"):
        return ChargedIf(*_judge(value))
    if not isinstance(value, dict):
        raise GrammarError(f"{shown(value)} does not say which requests count: write {_CHARGE}")
    for key in value:
        if key != "on_status":
            raise GrammarError(unknown("key", key, ("on_status",)), str(key))
    listed = value.get("on_status")
    items = listed if isinstance(listed, list) else [listed]
    if listed is None or not items:
        raise GrammarError(f"no request would count: write {_CHARGE}")
    return ChargedOn(frozenset().union(*(_statuses(item) for item in items)))


def _statuses(value: Any) -> range:
    """A status, `4xx` or `400-499`."""
    usable = isinstance(value, (int, str)) and not isinstance(value, bool)
    found = _STATUSES.fullmatch(str(value).strip()) if usable else None
    if not found:
        raise GrammarError(f"{shown(value)} is no status: write `401`, `4xx` or `400-499`", "on_status")
    if found["hundred"]:
        return range(int(found["hundred"]) * 100, int(found["hundred"]) * 100 + 100)
    statuses = range(int(found["low"]), int(found["high"] or found["low"]) + 1)
    if not statuses:
        raise GrammarError(f"{shown(value)} ends before it begins: write `400-499`", "on_status")
    return statuses


def _judge(text: str) -> tuple[str, Callable[..., Any]]:
    """A plain function that is asked about a request and its response."""
    function = resolve(text)
    if is_async(function):
        raise GrammarError(
            f"{shown(text)} is async: it is asked while the response goes out, where nothing is awaited;"
            " name a plain function"
        )
    return text.partition(":")[2], function


def _tells(*more: str) -> Json:
    pattern = "|".join((r"[Hh][Ee][Aa][Dd][Ee][Rr]:\S+", FUNCTION, *more))
    return {"type": "string", "pattern": rf"^(?:{pattern})$"}


def _map(needed: list[str], **properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": needed,
        "additionalProperties": False,
    }


COST: Json = {
    "anyOf": [
        POSITIVE,
        _tells(),
        _map(["method"], method={"type": "object", "additionalProperties": POSITIVE, "minProperties": 1}),
        _map(["by"], by=_tells(), min=POSITIVE, max=POSITIVE),
        _map(["reserve", "actual"], reserve=POSITIVE, actual=_tells("bytes", "seconds")),
    ],
    "description": "Permits that a request takes.",
}
_STATUS: Json = {
    "anyOf": [
        {"type": "integer", "minimum": 100, "maximum": 599},
        {"type": "string", "pattern": r"^\s*[1-5](?:[Xx][Xx]|[0-9]{2}(?:\s*-\s*[1-5][0-9]{2})?)\s*$"},
    ]
}
CHARGE: Json = {
    "anyOf": [
        {"type": "string", "pattern": f"^(?:all|{FUNCTION})$"},
        _map(
            ["on_status"], on_status={"anyOf": [_STATUS, {"type": "array", "items": _STATUS, "minItems": 1}]}
        ),
    ],
    "description": "Which requests count, by what they are answered.",
    "examples": [{"on_status": [401, 403]}, {"on_status": ["4xx"]}],
}
