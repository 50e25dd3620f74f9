"""The words of the rule file, and how a wrong one is answered."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "FILE_KEYS_NOT_YET",
    "LIMIT_KEYS_NOT_YET",
    "RULE_KEYS_NOT_YET",
    "STORE_KEYS_NOT_YET",
    "GrammarError",
    "choose",
    "not_yet",
    "shown",
    "unknown",
]

# Keys of the format that this version refuses by name. A key that gets its code leaves its list.
# fmt: off
FILE_KEYS_NOT_YET = frozenset({"reload"})
STORE_KEYS_NOT_YET = frozenset({"deny_cache"})
RULE_KEYS_NOT_YET = frozenset({
    "adaptive", "chain", "charge", "messages",
    "metrics", "on_excess", "relate",
})
LIMIT_KEYS_NOT_YET = frozenset({"delay"})
# fmt: on

_SHOWN_LENGTH = 60


class GrammarError(ValueError):
    """Raised when a text of the rule file says nothing that can be done; the message is for its author.

    Args:
        message: what is wrong and what would be right.
        key: the key below the place looked at that is to blame, if it is one of several.
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


def shown(value: object) -> str:
    """A value of the file as a message quotes it: on one line, in backticks, not too long."""
    if value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    elif isinstance(value, dict):
        text = "{…}"
    elif isinstance(value, list):
        text = "[…]"
    else:
        text = str(value) if isinstance(value, (str, float)) else _number(value)
    text = "".join(char if char.isprintable() else "?" for char in text[: _SHOWN_LENGTH + 1])
    if not text:
        return '`""`'
    return f"`{text[:_SHOWN_LENGTH]}{'…' if len(text) > _SHOWN_LENGTH else ''}`"


def _number(value: object) -> str:
    try:
        return str(value)
    except ValueError:  # Python refuses to print integers of more than 4300 digits
        return "a very long number"


def unknown(what: str, word: object, known: Iterable[str], planned: Iterable[str] = ()) -> str:
    """The message for a word that is none of `known`: the nearest word first, then all that work."""
    names = sorted(known)
    near = difflib.get_close_matches(str(word)[:_SHOWN_LENGTH], [*names, *sorted(planned)], n=1)
    hint = f": did you mean `{near[0]}`?" if near else "."
    return f"unknown {what} {shown(word)}{hint} Known: {', '.join(names)}"


def not_yet(what: str, instead: str = "") -> str:
    """The message for a part of the format that this version does not do."""
    return f"{what} is not supported yet{f'; {instead}' if instead else ''}"


def choose(what: str, word: object, allowed: Iterable[str], planned: Iterable[str] = ()) -> str:
    """`word`, if it is one of `allowed`.

    Raises:
        GrammarError: it is planned, or not known at all.
    """
    names, later = sorted(allowed), sorted(planned)
    if word in names:
        return str(word)
    if word in later:
        raise GrammarError(not_yet(f"{what} `{word}`", f"this version knows {', '.join(names)}"))
    raise GrammarError(unknown(what, word, names, later))
