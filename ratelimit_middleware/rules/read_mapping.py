"""Reading a mapping of Python code into a `Document`; the counterpart of `read_yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from ratelimit_middleware.rules.document import (
    BROKEN,
    MAX_DEPTH,
    MAX_VALUES,
    MISSING,
    TOO_DEEP,
    TOO_MANY,
    UNREADABLE,
    Document,
    Finding,
    Mark,
    Path,
    Position,
    failure,
)
from ratelimit_middleware.rules.scalars import expand, in_a_key, is_text, no_text, plain_value
from ratelimit_middleware.rules.words import GrammarError, shown

__all__ = ["read_mapping"]


def read_mapping(
    source: Mapping[Any, Any], name: str, env: Mapping[str, str]
) -> tuple[Document, list[Finding]]:
    """Copy a mapping of Python code.

    Returns:
        The document, and what is wrong with single values of it (they are `BROKEN` in the data).

    Raises:
        RuleFileError: nested too deep or far too large.
    """
    reader = _MappingReader(name, env)
    data = reader.map(source, ())
    return reader.document(data), reader.findings


class _MappingReader:
    """Copies plain Python data, remembers the order of its parts, collects what is wrong."""

    def __init__(self, name: str, env: Mapping[str, str]) -> None:
        self.findings: list[Finding] = []
        self._name = name
        self._env = env
        self._marks: dict[Path, Mark] = {}

    def document(self, data: dict[str, Any]) -> Document:
        """What was read up to now."""
        return Document(self._name, data, self._marks, None)

    def value(self, value: object, path: Path) -> object:
        """A copy of a value, with the environment in its texts."""
        position = Position(len(self._marks), 0)
        self._marks[path] = Mark(position, position)
        if len(path) >= MAX_DEPTH or len(self._marks) > MAX_VALUES:
            message = TOO_DEEP if len(path) >= MAX_DEPTH else TOO_MANY
            raise failure([*self.findings, self.document({}).find(path, message)])
        if isinstance(value, Mapping):
            return self.map(value, path)
        if isinstance(value, (list, tuple)):
            return [self.value(item, (*path, index)) for index, item in enumerate(value)]
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, (bool, int, float)):
            return _plain_number(value)
        if isinstance(value, date) and not isinstance(value, datetime):
            return value.isoformat()  # as it stands in a file
        if value is None:
            return self._broken(path, MISSING)
        return self._broken(path, f"a {type(value).__name__} has no place in a rule file")

    def map(self, source: Mapping[Any, Any], path: Path) -> dict[str, Any]:
        """A copy of a mapping, without the keys that are no texts."""
        copy: dict[str, Any] = {}
        for key, item in source.items():
            mistake = _key_mistake(key)
            if mistake:
                copy[UNREADABLE] = self._broken(path, mistake)
            else:
                name = str.__str__(key)  # the members of a StrEnum are texts too
                copy[name] = self.value(item, (*path, name))
        return copy

    def _text(self, text: str, path: Path) -> object:
        try:
            expanded = expand(str.__str__(text), self._env)
        except GrammarError as error:
            return self._broken(path, str(error))
        value = expanded if expanded == text else plain_value(expanded)
        return self._broken(path, MISSING) if value is None else value

    def _broken(self, path: Path, message: str) -> object:
        self.findings.append(self.document({}).find(path, message))
        return BROKEN


def _key_mistake(key: object) -> str:
    """What is wrong with the key of a map; empty when nothing is."""
    if not isinstance(key, str):
        return f"the key {shown(key)} is not a text"
    return in_a_key(str.__str__(key)) if is_text(key) else no_text(key)


def _plain_number(value: bool | float) -> bool | float:
    """Without its own class, such as that of `HTTPStatus.TOO_MANY_REQUESTS`."""
    if isinstance(value, bool):
        return value
    return int(value) if isinstance(value, int) else float(value)
