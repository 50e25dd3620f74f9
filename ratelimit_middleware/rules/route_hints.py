"""What was meant by a text that is no route: habits from frameworks and other limiters, and slips.

A guess is only a guess: whoever asks reads it as a route before it is shown.
"""

from __future__ import annotations

import re

from ratelimit_middleware.identity import REGISTERED_METHODS

__all__ = ["looks_like_expression", "meant_route"]

_METHODS = REGISTERED_METHODS | {"WS"}
_ANY = frozenset({"ANY", "ALL", "*"})
_HEAD = re.compile(r"(?P<head>[^/~]*?)\s*:?\s*(?P<path>/.*)")
_METHOD_LAST = re.compile(r"(?P<path>/.*\S)\s+[\[(]?(?P<methods>[A-Z]+(?:\s*[,|/&]?\s*[A-Z]+)*)[\])]?")
_BETWEEN_METHODS = re.compile(r"(?<=[A-Z])\s*[/|;&]\s*(?=[A-Z]+\b)")
_STEPS = (
    (r"\(\?P<(\w+)>(?:\\d|\[0-9\])\+\)|\{(\w+):\s*(?:\\d|\[0-9\])\+\}", r"{\1\2:int}"),
    (r"\(\?P<(\w+)>[^()]*\)", r"{\1}"),
    (r"\{(\w+)\?\}", r"{\1}"),
    (r"/?\.\*$|/?\(\.\*\)$", "/**"),
)
"""Regular expressions and optional parameters, as templates."""
_MOST_GUESSES = 10
_EXPRESSION = re.compile(r"\\|\||\][+*?{]|.\$$")


def looks_like_expression(text: str) -> bool:
    """Whether a part of a path has what only regular expressions have."""
    return bool(_EXPRESSION.search(text))


def meant_route(text: str) -> str:
    """What the author of the text may have meant, or the text as it is."""
    for _ in range(_MOST_GUESSES):  # a guess may show what hid another: `5 per ANY`, `/per ANY`, `/per`
        guess = _guessed(text)
        if guess == text:
            break
        text = guess
    return text


def _guessed(text: str) -> str:
    if re.search(r"(?:^|\s)~", text):  # a regular expression on purpose
        return text
    plain = text.strip("'\"^$ ")
    for pattern, instead in _STEPS:
        plain = re.sub(pattern, instead, plain)
    last = _METHOD_LAST.fullmatch(plain)
    head, path = last.group("methods", "path") if last else _split(_BETWEEN_METHODS.sub(",", plain, count=9))
    if looks_like_expression(path) and not head:
        return "~" + text.strip("'\"^$ ")
    words = re.findall(r"[A-Z*-]+", head.upper())
    if not path or not set(words) <= _METHODS | _ANY:
        return text
    return path if not words or _ANY & set(words) else f"{','.join(words)} {path}"


def _split(text: str) -> tuple[str, str]:
    """Methods and path; a method before a path without its slash counts."""
    found = _HEAD.fullmatch(text)
    if found:
        return found["head"], found["path"]
    head, _, path = text.partition(" ")
    return (head, f"/{path.strip()}") if path.strip() else ("", "")
