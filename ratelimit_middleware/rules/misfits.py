"""What pydantic finds, in the words of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, TypeAlias

from pydantic import ValidationError

from ratelimit_middleware.rules.document import BROKEN, Path
from ratelimit_middleware.rules.schema import FileSpec, numbered
from ratelimit_middleware.rules.unknown_keys import no_map, unknown_key
from ratelimit_middleware.rules.words import GrammarError

__all__ = ["Misfit", "checked"]

_Error: TypeAlias = Mapping[str, Any]

_EXAMPLES = {"limit": "100/minute", "count": "100", "per": "minute", "period": "30s"}
_EMPTY = {"limit": "an empty list limits nothing: write a limit such as `100/minute`, or leave the rule out"}


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
    misspelled = {error["loc"][:-1] for error in errors if error["type"] == "extra_forbidden"}
    broken = {error["loc"] for error in errors if error["input"] is BROKEN}
    misfits = [_misfit(error) for error in errors if not _follows(error, misspelled, broken)]
    return FileSpec.model_validate(_without(data, errors)), misfits


def _follows(error: _Error, misspelled: AbstractSet[Path], broken: AbstractSet[Path]) -> bool:
    """Whether an error only says again what is said already: of a broken value, or of a key misspelled.

    Args:
        error: pydantic's.
        misspelled: the maps that have a key which is not known.
        broken: the values that could not be read.
    """
    place = error["loc"]
    if error["type"] == "missing":
        return place[:-1] in misspelled
    return place in broken or (place[-1] == "[key]" and place[:-1] in broken)


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
        return unknown_key(error["loc"], error["input"])
    if kind == "missing":
        return f"the key `{word}` is missing: add `{word}: {_EXAMPLES.get(word, '…')}`"
    if kind == "too_short":
        return _EMPTY.get(word, "an empty list: write an item, or leave the key out")
    if kind in ("dict_type", "model_type", "list_type"):
        return no_map(error["loc"], error["input"])
    return str(error["msg"])
