"""The shape of the rule file. pydantic finds everything that is wrong with it at once.

Loaded only when rules are. Validators answer in the words of the file (`GrammarError`); pydantic's own
findings are put into them by `_message`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    model_validator,
)

from ratelimit_middleware.rules.document import BROKEN, Path
from ratelimit_middleware.rules.fields import (
    read_behavior,
    read_cold_factor,
    read_headers,
    read_key,
    read_limits,
    read_mode,
    read_name,
    read_period,
    read_route,
    read_store_url,
    read_trusted,
    read_version,
    refuse_twice,
)
from ratelimit_middleware.rules.grammar import LimitText, Unlimited
from ratelimit_middleware.rules.model import HeaderStyle, KeyPart
from ratelimit_middleware.rules.words import (
    FILE_KEYS_NOT_YET,
    RESPONSE_KEYS_NOT_YET,
    RULE_KEYS_NOT_YET,
    STORE_KEYS_NOT_YET,
    GrammarError,
    not_yet,
    shown,
    unknown,
)

__all__ = ["FileSpec", "Misfit", "ResponseSpec", "RuleSpec", "StoreSpec", "WarmUpSpec", "checked"]

_Error: TypeAlias = Mapping[str, Any]
_Behavior: TypeAlias = Literal["reject", "warm_up"]
_Mode: TypeAlias = Literal["enforce", "shadow", "none"]


def _in_map(key: str) -> Callable[[Any], Any]:
    """The short form of a map: its main value alone."""

    def long_form(value: Any) -> Any:
        return {key: value} if isinstance(value, (str, int, float, bool, list)) else value

    return long_form


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _numbered(value: Any) -> Any:
    """A list as a map from its indexes; a single value as a list of one."""
    if value is BROKEN:
        return {}
    if isinstance(value, dict) and all(isinstance(key, int) for key in value):
        return value
    return dict(enumerate(value if isinstance(value, list) else [value]))


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WarmUpSpec(_Spec):
    """`warm_up: 30s`, or with the factor by which a cold route is slower."""

    period: Annotated[int, PlainValidator(read_period)]
    cold_factor: Annotated[float, PlainValidator(read_cold_factor)] = 3


class RuleSpec(_Spec):
    """One rule; a text or a list stands for its `limit`."""

    limit: Annotated[
        list[Annotated[tuple[LimitText | Unlimited, ...], PlainValidator(read_limits)]],
        BeforeValidator(_as_list),
        Field(min_length=1),
    ]
    name: Annotated[str, PlainValidator(read_name)] | None = None
    key: Annotated[tuple[KeyPart, ...], PlainValidator(read_key)] = (KeyPart("ip"),)
    behavior: Annotated[_Behavior, BeforeValidator(read_behavior)] = "reject"
    warm_up: Annotated[WarmUpSpec, BeforeValidator(_in_map("period"))] | None = None
    mode: Annotated[_Mode, BeforeValidator(read_mode)] = "enforce"
    trusted: Annotated[bool, PlainValidator(read_trusted)] = False

    @model_validator(mode="after")
    def _fits_together(self) -> RuleSpec:
        """Refuse keys that would have no effect."""
        if self.warm_up and self.behavior != "warm_up":
            raise GrammarError("`warm_up` has no effect without `behavior: warm_up`: add it", "warm_up")
        if self.behavior == "warm_up" and not self.warm_up:
            raise GrammarError("`behavior: warm_up` needs its period: add `warm_up: 30s`", "behavior")
        if self.unlimited:
            self._stands_alone()
        elif self.behavior == "warm_up" and (len(self.limits) > 1 or self.limits[0].burst is not None):
            raise GrammarError(
                "`behavior: warm_up` works on a single limit without `burst`: split the rule", "behavior"
            )
        return self

    def _stands_alone(self) -> None:
        idle = sorted(self.model_fields_set - {"limit", "name"})
        if self.limits:
            raise GrammarError("`unlimited` stands alone: it cannot be one of several limits", "limit")
        if idle and self.mode != "none":
            raise GrammarError(
                f"`unlimited` counts nothing, so `{idle[0]}` has no effect: leave it out", idle[0]
            )

    @property
    def unlimited(self) -> bool:
        """Whether the word `unlimited` is among the limits."""
        return any(isinstance(limit, str) for part in self.limit for limit in part)

    @property
    def limits(self) -> tuple[LimitText, ...]:
        """The limits one after the other."""
        return tuple(limit for _, limit in self.placed_limits)

    @property
    def placed_limits(self) -> tuple[tuple[int, LimitText], ...]:
        """The limits with their index in the list (a text may hold several)."""
        return tuple(
            (index, limit)
            for index, part in enumerate(self.limit)
            for limit in part
            if isinstance(limit, LimitText)
        )


class StoreSpec(_Spec):
    """Where the counts live; a text stands for `url`."""

    url: Annotated[str, PlainValidator(read_store_url)] = "memory://"


class ResponseSpec(_Spec):
    """What is said to clients."""

    headers: Annotated[
        tuple[HeaderStyle, ...], BeforeValidator(read_headers), AfterValidator(refuse_twice)
    ] = ("draft-11",)


class FileSpec(_Spec):
    """The whole file."""

    version: Annotated[int, PlainValidator(read_version)] = 1
    store: Annotated[StoreSpec, BeforeValidator(_in_map("url"))] = StoreSpec()
    limits: dict[
        Annotated[str, AfterValidator(read_route)], Annotated[RuleSpec, BeforeValidator(_in_map("limit"))]
    ] = {}
    default: Annotated[RuleSpec, BeforeValidator(_in_map("limit"))] | None = None
    always: Annotated[
        dict[int, Annotated[RuleSpec, BeforeValidator(_in_map("limit"))]], BeforeValidator(_numbered)
    ] = {}
    response: ResponseSpec = ResponseSpec()


class Misfit(NamedTuple):
    """A part of the file that does not fit the format."""

    path: Path
    message: str
    at_key: bool


def checked(data: dict[str, Any]) -> tuple[FileSpec, list[Misfit]]:
    """Everything that is wrong with the file's shape, and the rules that are sound."""
    if "always" in data:
        data = {**data, "always": _numbered(data["always"])}
    try:
        return FileSpec.model_validate(data), []
    except ValidationError as error:
        errors = error.errors(include_url=False)
    misfits = [_misfit(error) for error in errors if not _follows(error, errors)]
    return FileSpec.model_validate(_without(data, errors)), misfits


def _follows(error: _Error, errors: Sequence[_Error]) -> bool:
    """Whether an error only says again what is said already: of a broken value, or of a key misspelled."""
    if error["type"] == "missing":
        return any(
            other["type"] == "extra_forbidden" and other["loc"][:-1] == error["loc"][:-1] for other in errors
        )
    return error["input"] is BROKEN


def _without(data: dict[str, Any], errors: Sequence[_Error]) -> dict[str, Any]:
    """The file without the rules, or else the top-level keys, that have an error."""
    kept = {key: dict(value) if isinstance(value, dict) else value for key, value in data.items()}
    for error in errors:
        head, *rest = error["loc"]
        if rest and head in ("limits", "always"):
            kept[str(head)].pop(rest[0], None)
        else:
            kept.pop(str(head), None)
    return kept


def _misfit(error: _Error) -> Misfit:
    path = error["loc"]
    if path[-1] == "[key]":
        return Misfit(path[:-1], _message(error), at_key=True)
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, GrammarError) and cause.key:
        return Misfit((*path, cause.key), _message(error), at_key=True)
    return Misfit(path, _message(error), at_key=error["type"] == "extra_forbidden")


def _message(error: _Error) -> str:
    kind, word = error["type"], error["loc"][-1]
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if kind == "extra_forbidden":
        return _unknown_key(error["loc"])
    if kind == "missing":
        return f"the key `{word}` is missing"
    if kind == "too_short":
        return "an empty list limits nothing: write a limit such as `100/minute`, or leave the rule out"
    if kind in ("dict_type", "model_type"):
        return f"{shown(error['input'])} is not a map of keys and values"
    return str(error["msg"])


def _unknown_key(path: Path) -> str:
    *parents, word = path
    spec: type[_Spec]
    if not parents:
        spec, later = FileSpec, FILE_KEYS_NOT_YET
    elif parents[0] == "store":
        spec, later = StoreSpec, STORE_KEYS_NOT_YET
    elif parents[0] == "response":
        spec, later = ResponseSpec, RESPONSE_KEYS_NOT_YET
    elif parents[-1] == "warm_up":
        spec, later = WarmUpSpec, frozenset()
    else:
        spec, later = RuleSpec, RULE_KEYS_NOT_YET
    if word in later:
        return not_yet(f"the key `{word}`")
    return unknown("key", word, spec.model_fields, later)
