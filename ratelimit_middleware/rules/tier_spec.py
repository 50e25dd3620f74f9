"""What the rule file says about tiers: the block at the top, and `tiers` of a rule.

Raises:
    GrammarError: from every function here, when a value is not what its key takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, model_validator

from ratelimit_middleware.client import Client
from ratelimit_middleware.rules.callables import asked
from ratelimit_middleware.rules.client_spec import read_header
from ratelimit_middleware.rules.fields import read_flag
from ratelimit_middleware.rules.grammar import LimitText, parse_limits
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.tier_source import TierSource, forgiving
from ratelimit_middleware.rules.tiers import TierPlan, TierValue
from ratelimit_middleware.rules.values import FLAG, LIMIT, Json, plain, text
from ratelimit_middleware.rules.words import GrammarError, shown, unknown

__all__ = ["RULE_TIERS", "TiersSpec", "read_rule_tiers"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OWN = ("by", "trusted", "unknown")
_MOST = 10**6
_FORMS = "write `{scale: 10}`, a limit such as `100/second`, or `unlimited`"

_VALUE: Json = {
    "anyOf": [
        LIMIT,
        {
            "type": "object",
            "properties": {"scale": {"type": "number", "exclusiveMinimum": 0, "maximum": _MOST}},
            "required": ["scale"],
            "additionalProperties": False,
        },
    ],
    "description": "So many times the limit, a limit of its own, or `unlimited`.",
}
_BY = text(
    r"python:[\w.]+:[\w.]+|header:\S+", "Where the name of the tier comes from.", "python:shop.plans:plan_of"
)
_UNKNOWN: Json = {
    "anyOf": [{"type": "string"}, _VALUE["anyOf"][1]],
    "description": "For requests of no tier.",
}
RULE_TIERS: Json = {
    "anyOf": [FLAG, {"type": "object", "additionalProperties": _VALUE, "minProperties": 1}],
    "description": "Whether tiers have numbers of their own, or which.",
}


def _read_value(value: Any) -> TierValue:
    """What a tier gets."""
    if isinstance(value, str):
        return _of_text(value)
    if not isinstance(value, dict) or list(value) != ["scale"]:
        odd = next((key for key in value if key != "scale"), "") if isinstance(value, dict) else ""
        if odd:
            raise GrammarError(unknown("key", odd, ("scale",)), str(odd))
        raise GrammarError(f"{shown(value)} is nothing that a tier can have: {_FORMS}")
    scale = value["scale"]
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 < scale <= _MOST:
        raise GrammarError(
            f"scale {shown(scale)} is not allowed: it is a number above 0, at most {_MOST}; for no limit at"
            " all write `unlimited`",
            "scale",
        )
    return TierValue(scale)


def _of_text(value: str) -> TierValue:
    limits = parse_limits(value)
    if limits == ("unlimited",):
        return TierValue(unlimited=True)
    (limit, *more) = limits
    if more or not isinstance(limit, LimitText) or limit.key is not None:
        raise GrammarError(
            f"{shown(value)} is not a single limit with numbers and without a key of its own: {_FORMS}"
        )
    return TierValue(limit=limit)


def _read_name(value: Any) -> str:
    """The name of a tier."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise GrammarError(
            f"{shown(value)} is not the name of a tier: up to 64 of the letters a-z, digits, `.`, `_` and `-`"
        )
    return value


def _read_by(value: Any) -> TierSource:
    """Where the name of the tier comes from."""
    kind, colon, name = value.strip().partition(":") if isinstance(value, str) else ("", "", "")
    if kind == "python" and colon:
        function = asked(value.strip())
        return TierSource(function.name, forgiving(function))
    if kind == "header" and colon:
        return TierSource(read_header(name))
    raise GrammarError(unknown("source of the tier", value, ("header:NAME", "python:MODULE:FUNCTION")))


def _read_unknown(value: Any) -> str | TierValue:
    """The name of a tier, or what a tier can have."""
    if isinstance(value, str) and _NAME.fullmatch(value) and value != "unlimited":
        return value
    found = _read_value(value)
    if found.unlimited:
        raise GrammarError(
            "requests of an unknown tier cannot be `unlimited`: a misspelled tier would open the door to all"
        )
    return found


def _read_own(name: Any, value: Any) -> tuple[str, TierValue]:
    """A tier of a rule, and what it has there."""
    try:
        return _read_name(name), _read_value(value)
    except GrammarError as error:
        raise GrammarError(str(error), str(name)) from None


def read_rule_tiers(value: Any) -> Mapping[str, TierValue] | None:
    """`true`, or what some tiers have under this rule; None for `false`."""
    if isinstance(value, dict) and value:
        return dict(_read_own(name, item) for name, item in value.items())
    if not isinstance(value, bool):
        raise GrammarError(f"tiers is `true`, or a map such as `{{pro: 100/second}}`, not {shown(value)}")
    return {} if value else None


class TiersSpec(Spec):
    """Who belongs to which tier, and what each tier gets."""

    by: Annotated[TierSource, plain(_read_by, _BY)]
    trusted: Annotated[bool, plain(read_flag("trusted"), FLAG)] = False
    unknown: Annotated[str | TierValue, plain(_read_unknown, _UNKNOWN)] | None = None
    named: Annotated[
        dict[
            Annotated[str, plain(_read_name, text(_NAME.pattern, "A tier."))],
            Annotated[TierValue, plain(_read_value, _VALUE)],
        ],
        Field(default_factory=dict),
    ]

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: Any) -> Any:
        """The tiers stand beside the other keys in the file."""
        if not isinstance(data, dict):
            return data
        own = {key: value for key, value in data.items() if key in _OWN}
        return {**own, "named": {key: value for key, value in data.items() if key not in _OWN}}

    @model_validator(mode="after")
    def _fits_together(self) -> TiersSpec:
        """Refuse a header that anybody could write, and names that mean nothing."""
        from_header = self.by.asked is None
        if from_header and not self.trusted:
            raise GrammarError(
                f"`header:{self.by.name}` is written by the client, who could claim any tier: write `trusted:"
                " true` beside it if a proxy sets it",
                "by",
            )
        if self.trusted and not from_header:
            raise GrammarError("`trusted` has no effect here: it is for `by: header:NAME`", "trusted")
        if not self.named:
            raise GrammarError("there is no tier: add one, such as `pro: {scale: 10}`")
        if isinstance(self.unknown, str) and self.unknown not in self.named:
            raise GrammarError(unknown("tier", self.unknown, self.named), "unknown")
        if isinstance(self.unknown, str) and self.named[self.unknown].unlimited:
            raise GrammarError(
                f"the tier `{self.unknown}` is unlimited: a misspelled tier would open the door to all",
                "unknown",
            )
        return self

    def source(self, client: Client) -> TierSource:
        """What tells the tier of a request."""
        return TierSource(self.by.name, self.by.asked, client)

    def plan(
        self, client: Client, own: Mapping[str, TierValue], refuse: Callable[[str, str], None]
    ) -> TierPlan:
        """The tiers of a rule.

        Args:
            client: whose word on headers counts.
            own: what the rule says of its own.
            refuse: is told a tier that there is not, and the message.
        """
        for name in own.keys() - self.named.keys():
            refuse(name, unknown("tier", name, self.named))
        values = {**self.named, **own}
        if isinstance(self.unknown, str):
            least = values[self.unknown]
        else:
            least = self.unknown or TierValue(min(1, *(value.scale for value in values.values())))
        if least.unlimited:
            refuse(str(self.unknown), "requests of an unknown tier would be unlimited under this rule")
        return TierPlan(self.source(client), values, least)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> Json:
        """The tiers stand beside the other keys."""
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        schema["properties"].pop("named", None)
        schema["additionalProperties"] = _VALUE
        return reference
