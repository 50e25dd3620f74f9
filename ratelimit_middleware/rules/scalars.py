"""Values of the file that are not maps or lists: the environment in them, and their type.

A plain scalar is a whole number, a fraction, `true`, `false`, nothing, or a text. What YAML 1.1 would
make of `off`, `12:30`, `010` or a date stays a text, so that the rule file answers for its words itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ratelimit_middleware.rules.words import GrammarError, shown

__all__ = ["expand", "in_a_key", "is_text", "no_text", "plain_value"]

_REFERENCE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}")
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*(_[0-9]+)*)")
_FRACTION = re.compile(r"[+-]?[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_MAX_DIGITS = 30
_SURROGATE = re.compile("[\ud800-\udfff]")


def plain_value(text: str) -> str | int | float | bool | None:
    """What an unquoted text means."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if len(text) <= _MAX_DIGITS and _INTEGER.fullmatch(text):
        return int(text)
    if len(text) <= _MAX_DIGITS and _FRACTION.fullmatch(text):
        return float(text)
    return text


def is_text(text: str) -> bool:
    """Whether all are whole characters; YAML escapes and wrongly encoded variables may hold halves."""
    return not _SURROGATE.search(text)


def no_text(text: str) -> str:
    """The message for half of a surrogate pair, which cannot be written out again."""
    return f"{shown(text)} holds half a character (a surrogate): write it as UTF-8"


def in_a_key(text: str) -> str:
    """The message for a variable in the key of a map; empty when there is none."""
    found = _REFERENCE.search(text)
    if not found:
        return ""
    routes = shown(f'routes: "{text}"')
    instead = f"write the key itself, or give the rule of a route a name and {routes}"
    return f"{shown(text)} is a key, and the environment is read in values only: {instead}"


def expand(text: str, env: Mapping[str, str]) -> str:
    """Put the environment's values for `${NAME}` and `${NAME:-default}`.

    As in a shell, the default also stands in for an empty variable. What a value contains is not
    expanded again.

    Raises:
        GrammarError: a variable is not set and has no default, a `${` is not one of the two forms, or
            the text is none.
    """

    def value(found: re.Match[str]) -> str:
        name, default = found.group("name", "default")
        if default is not None:
            return env.get(name) or default
        if name not in env:
            raise GrammarError(
                f"the environment variable {name} is not set: set it or write `${{{name}:-default}}`"
            )
        return env[name]

    if "${" in _REFERENCE.sub("", text):
        raise GrammarError(f"{shown(text)} has a `${{` that is neither `${{NAME}}` nor `${{NAME:-default}}`")
    expanded = _REFERENCE.sub(value, text)
    if not is_text(expanded):
        raise GrammarError(no_text(expanded))
    return expanded
