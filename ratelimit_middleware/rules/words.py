"""The words of the rule file, and how a wrong one is answered."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping

from ratelimit_middleware.errors import on_one_line

__all__ = [
    "FILE_KEYS_NOT_YET",
    "LIMIT_KEYS_NOT_YET",
    "RULE_KEYS_NOT_YET",
    "STORE_KEYS_NOT_YET",
    "GrammarError",
    "choose",
    "hidden",
    "not_yet",
    "reads",
    "shown",
    "unknown",
]

# Keys of the format that this version refuses by name. A key that gets its code leaves its list.
# fmt: off
FILE_KEYS_NOT_YET = frozenset({"reload"})
STORE_KEYS_NOT_YET = frozenset({"deny_cache"})
RULE_KEYS_NOT_YET = frozenset({
    "metrics",
})
LIMIT_KEYS_NOT_YET = frozenset({"delay"})
# fmt: on

_SHOWN_LENGTH = 60
_PASSWORD = re.compile(r"(?<=://)[^\s/]*(?=@)")


class GrammarError(ValueError):
    """Raised when a text of the rule file says nothing that can be done; the message is for its author.

    Args:
        message: what is wrong and what would be right.
        key: the key below the place looked at that is to blame, if it is one of several.
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


def reads(parse: Callable[[str], object], text: str) -> bool:
    """Whether `parse` takes a text."""
    try:
        parse(text)
    except GrammarError:
        return False
    return True


def hidden(text: str) -> str:
    """A text with stars in the place of passwords in URLs."""
    return _PASSWORD.sub(lambda found: "*" * len(found[0]), text)


def shown(value: object) -> str:
    """A value of the file as a message quotes it: on one line, in backticks, not too long, no password."""
    text = hidden(_text(value))
    if not text:
        return '`""`'
    return f"`{on_one_line(text[:_SHOWN_LENGTH])}{'…' if len(text) > _SHOWN_LENGTH else ''}`"


def _text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (dict, list)):
        return "{…}" if isinstance(value, dict) else "[…]"
    if not isinstance(value, (str, int, float)):
        return type(value).__name__  # what it would print may be endless
    try:
        return str(value)
    except ValueError:  # Python refuses to print integers of more than 4300 digits
        return "a very long number"


def unknown(
    what: str,
    word: object,
    known: Iterable[str],
    planned: Iterable[str] = (),
    habits: Mapping[str, str] | None = None,
) -> str:
    """The message for a word that is none of `known`: what was meant first, then all that work.

    Args:
        what: what the word should have named.
        word: the word.
        known: the words that work.
        planned: words that will.
        habits: words of other limiters, and the word here; before the nearest one.
    """
    names, plain = sorted(known), _text(word)[:_SHOWN_LENGTH].lower()
    habit = (habits or {}).get(plain)
    spelled = {name.lower(): name for name in (*names, *sorted(planned))}
    near = habit or next(map(spelled.get, difflib.get_close_matches(plain, spelled, n=1)), None)
    hint = f": did you mean `{near}`?" if near else "."
    return f"unknown {what} {shown(word)}{hint} Known: {', '.join(names)}"


def not_yet(what: str, instead: str = "") -> str:
    """The message for a part of the format that this version does not do."""
    return f"{what} is not supported yet{f'; {instead}' if instead else ''}"


def choose(
    what: str,
    word: object,
    allowed: Iterable[str],
    planned: Iterable[str] = (),
    habits: Mapping[str, str] | None = None,
) -> str:
    """`word`, if it is one of `allowed`; the rest is for the message.

    Raises:
        GrammarError: it is planned, or not known at all.
    """
    names, later = sorted(allowed), sorted(planned)
    if word in names:
        return str(word)
    if word in later:
        raise GrammarError(not_yet(f"{what} `{word}`", f"this version knows {', '.join(names)}"))
    raise GrammarError(unknown(what, word, names, later, habits))
