"""What pydantic finds, in the words of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from pydantic import ValidationError

from ratelimit_middleware.rules.client_spec import ClientSpec
from ratelimit_middleware.rules.document import BROKEN, Path
from ratelimit_middleware.rules.limit_spec import LongLimitSpec, WarmUpSpec
from ratelimit_middleware.rules.lint_spec import LintSpec
from ratelimit_middleware.rules.lists_spec import DenySpec, ListSpec
from ratelimit_middleware.rules.penalty_spec import PenaltySpec
from ratelimit_middleware.rules.queue_spec import QueueSpec
from ratelimit_middleware.rules.schema import (
    FileSpec,
    RefusalSpec,
    ResponseSpec,
    RuleSpec,
    numbered,
)
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.store_spec import StoreSpec
from ratelimit_middleware.rules.tier_spec import TiersSpec
from ratelimit_middleware.rules.words import (
    FILE_KEYS_NOT_YET,
    LIMIT_KEYS_NOT_YET,
    RULE_KEYS_NOT_YET,
    STORE_KEYS_NOT_YET,
    GrammarError,
    not_yet,
    shown,
    unknown,
)

__all__ = ["Misfit", "checked"]

_Error: TypeAlias = Mapping[str, Any]

_BLOCKS: dict[str | int, tuple[type[Spec], frozenset[str]]] = {
    "store": (StoreSpec, STORE_KEYS_NOT_YET),
    "client": (ClientSpec, frozenset()),
    "response": (ResponseSpec, frozenset()),
    "lint": (LintSpec, frozenset()),
    "deny": (DenySpec, frozenset()),
    "exempt": (ListSpec, frozenset()),
    "tiers": (TiersSpec, frozenset()),
}
"""The maps at the top of the file that have keys of their own."""
_EMPTY = {"limit": "an empty list limits nothing: write a limit such as `100/minute`, or leave the rule out"}

_SMALL_MAPS: dict[str, type[Spec]] = {
    "exempt": ListSpec,
    "penalty": PenaltySpec,
    "queue": QueueSpec,
    "warm_up": WarmUpSpec,
}


class Misfit(NamedTuple):
    """A part of the file that does not fit the format."""

    path: Path
    message: str
    at_key: bool


def checked(data: dict[str, Any]) -> tuple[FileSpec, list[Misfit]]:
    """Everything that is wrong with the file's shape, and the rules that are sound."""
    if "always" in data:
        always = data["always"]
        data = {**data, "always": numbered([always] if always == {} else always)}
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
        return _EMPTY.get(word, "an empty list: write an item, or leave the key out")
    if kind in ("dict_type", "model_type", "list_type"):
        hint = ": write its keys without `-` before them" if isinstance(error["input"], list) else ""
        return f"{shown(error['input'])} is not a map of keys and values{hint}"
    return str(error["msg"])


def _unknown_key(path: Path) -> str:
    *parents, word = path
    spec: type[Spec]
    if not parents:
        spec, later = FileSpec, FILE_KEYS_NOT_YET
    elif parents[0] in _BLOCKS:
        spec, later = _BLOCKS[parents[0]]
    elif parents[-1] == "response":
        spec, later = RefusalSpec, frozenset()
        if word in ResponseSpec.model_fields:
            return f"the key `{word}` is for the whole file: write it under `response` at the top"
    elif parents[-1] in _SMALL_MAPS:
        spec, later = _SMALL_MAPS[str(parents[-1])], frozenset()
    elif parents[-1] == "long":
        spec, later = LongLimitSpec, LIMIT_KEYS_NOT_YET
    elif word in LongLimitSpec.model_fields and word not in RuleSpec.model_fields:
        more = "" if word in ("count", "per") else f", {word}: …"
        return f"the key `{word}` is for the long form of a limit: write `limit: {{count: …, per: …{more}}}`"
    else:
        spec, later = RuleSpec, RULE_KEYS_NOT_YET
    if word in later:
        return not_yet(f"the key `{word}`")
    return unknown("key", word, spec.model_fields, later)
