"""What PyYAML finds in a text that is no YAML, and the way out of the traps that rule files fall into."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ratelimit_middleware.rules.document import MISSING, Position
from ratelimit_middleware.rules.words import shown

if TYPE_CHECKING:
    import yaml

__all__ = ["missing_colon", "missing_value", "syntax_mistake"]

_AFTER_KIND = re.compile(r"\b(?:header|cookie|query|python)$")
_BRACES = re.compile(r"(?:[A-Z]+ )?[^\s,\[\]{}'\"]*(?:\{[^\s{}]*\}[^\s,\[\]{}'\":]*)+")
_METHOD_KEY = re.compile(r"\s*([A-Z,]+):\s+(/\S*)")
_COLON_WITHOUT_SPACE = re.compile(r"(?P<key>.*[^\s:]):(?P<value>[^\s:][^:]*)")
_EQUALS = re.compile(r"(?P<key>[^=]*[^\s=])\s*=\s*(?P<value>\S.*)")
_NO_COLON = re.compile(r"(?P<key>(?:[A-Z,]+\s+)?[^\s;,]+)[;,]?\s+(?P<value>\S.*)")
_DASH = re.compile(r"\s*-([0-9a-z]\S*/.*)")
_QUOTES_CLOSED = "nothing may follow a quoted text: put all of it inside the quotes"
_MIXED = "`- ` begins an item of a list and `key:` a line of a map: in one place write the one or the other"
_COLUMN = (
    "this line begins in another column than the lines beside it: let the keys of a map begin in one column"
)


class _Spot(NamedTuple):
    """Where PyYAML stopped, and where what it was reading began."""

    error: yaml.MarkedYAMLError
    lines: list[str]
    at: Position
    begun: Position

    @property
    def line(self) -> str:
        """The line it stopped in."""
        return self.text(self.at.line)

    @property
    def char(self) -> str:
        """The character it stopped at."""
        return self.line[self.at.column : self.at.column + 1]

    def text(self, number: int) -> str:
        """A line of the file, empty beyond the last."""
        return self.lines[number] if number < len(self.lines) else ""


_Mistake = tuple[Position, str]


def syntax_mistake(error: yaml.MarkedYAMLError, lines: list[str]) -> _Mistake:
    """Where the mistake is, and a message for the author of the file.

    Args:
        error: PyYAML's.
        lines: of the file.
    """
    at = _position(error.problem_mark)
    begun = _position(error.context_mark) if error.context_mark else at
    spot = _Spot(error, lines, at, begun)
    found = f"{error.context or ''}|{error.problem or ''}"
    for pattern, explain in _TRAPS:
        mistake = explain(spot) if re.search(pattern, found) else None
        if mistake:
            return mistake
    return at, _as_it_is(spot)


def missing_value(key: object) -> str:
    """The message for nothing in the place of a value; in `{limit:5/s}` all of it is the key."""
    return _colon(str(key), _COLON_WITHOUT_SPACE, _EQUALS) or MISSING


def missing_colon(line: str) -> str:
    """The message for a key without the `: ` behind it; empty when the line is none."""
    if ": " in line:
        return f"the quotes hold key and value: write {shown(line)} without them"
    return _colon(line)


def _position(mark: yaml.Mark | None) -> Position:
    return Position(mark.line, mark.column) if mark else Position(0, 0)


def _as_it_is(spot: _Spot) -> str:
    message = f"cannot be read as YAML: {spot.error.problem or 'no YAML'}"
    if spot.begun.line < spot.at.line:
        message += f", {spot.error.context} that begins in line {spot.begun.line + 1}"
    return message


def _colon(line: str, *patterns: re.Pattern[str]) -> str:
    """The message for a key without the `: ` behind it; empty when this is none."""
    for pattern in patterns or (_COLON_WITHOUT_SPACE, _EQUALS, _NO_COLON):
        found = pattern.fullmatch(line.strip())
        if found:
            what = "a space after the colon" if pattern is _COLON_WITHOUT_SPACE else "a colon"
            return f"{what} is missing: write {shown(found['key'] + ': ' + found['value'])}"
    return ""


def _no_colon(spot: _Spot) -> _Mistake | None:
    dash = _DASH.fullmatch(spot.text(spot.begun.line))
    if dash:
        return spot.begun, f"a space after the dash is missing: write {shown(f'- {dash[1]}')}"
    return spot.begun, _colon(spot.text(spot.begun.line)) or "a colon is missing: write `key: value`"


def _second_colon(spot: _Spot) -> _Mistake | None:
    before, after = spot.line[: spot.at.column], spot.line[spot.at.column + 1 :].strip()
    if _AFTER_KIND.search(before):
        kind = before.split()[-1].split("+")[-1]
        after = after or "NAME"
        return spot.at, f"a space too many after `{kind}:`: write {shown(kind + ':' + after)}"
    if before.endswith("burst"):
        return spot.at, f"the burst follows without a colon: write {shown('burst ' + after)}"
    method = _METHOD_KEY.fullmatch(before)
    if method:
        return spot.at, f"method and path are one key: write {shown(method[1] + ' ' + method[2])}"
    if ": " in before:
        return spot.at, "a second `: ` in one line: when it belongs to the text, put the text in quotes"
    return _line_above(spot)


def _line_above(spot: _Spot) -> _Mistake | None:
    """A key that begins where the text of the line above goes on."""
    above = next((number for number in range(spot.at.line - 1, -1, -1) if spot.text(number).strip()), 0)
    text = spot.text(above)
    if re.search(r":\s", text):
        message = (
            "this line is indented deeper than the one above, which has its value: begin both in one column"
        )
        return spot.at, message
    message = _colon(text)
    return (Position(above, len(text) - len(text.lstrip())), message) if message else None


def _braces(spot: _Spot) -> _Mistake | None:
    for found in _BRACES.finditer(spot.line):
        if found.start() <= spot.at.column < found.end():
            quoted = f'"{found[0]}"'
            return spot.at, f"inside `[…]` and `{{…}}` a text with braces needs quotes: write {shown(quoted)}"
    return None


def _not_closed(spot: _Spot) -> _Mistake | None:
    char = spot.text(spot.begun.line)[spot.begun.column : spot.begun.column + 1]
    if spot.begun.line == spot.at.line and spot.at.column < len(spot.line.rstrip()):
        return None if char in "'\"" else (spot.at, f"a comma is missing between two parts of this `{char}`")
    more = f", or a comma is missing in line {spot.at.line + 1}" if spot.char == ":" else ""
    return spot.begun, f"this `{char}` is not closed{more}"


def _star(spot: _Spot) -> _Mistake | None:
    found = re.match(r"\s*\*\s+(?P<path>/\S*):", spot.line)
    if found:
        return spot.at, f"a route without a method counts all of them: write {shown(found['path'])}"
    return spot.at, "a plain `*` is an alias mark in YAML: quote it, or write `/**` for all paths"


def _tab(spot: _Spot) -> _Mistake | None:
    indents = not spot.line[: spot.at.column].strip()
    return spot.at, f"a tab cannot {'indent: use spaces' if indents else 'separate: use a space'}"


def _document(spot: _Spot) -> _Mistake | None:
    if "another document" in str(spot.error.problem):
        return spot.at, "the file holds a second document (`---`): one file, one document"
    if "block mapping start" in str(spot.error.problem):
        return spot.at, _COLUMN
    return (
        spot.at,
        "the file must be one map with keys such as `limits:`: nothing else fits before or after it",
    )


def _said(message: str) -> Callable[[_Spot], _Mistake | None]:
    return lambda spot: (spot.at, message)


_TRAPS: tuple[tuple[str, Callable[[_Spot], _Mistake | None]], ...] = (
    ("another document|expected '<document start>'", _document),
    ("scanning an alias", _star),
    ("undefined alias", lambda spot: (spot.at, f"an alias without its anchor: {spot.error.problem}")),
    (r"character '\\t'", _tab),
    ("expected ':'", _no_colon),
    ("mapping values are not allowed", _second_colon),
    (r"expected ',' or '[]}]', but got '\{'", _braces),
    ("expected ',' or|quoted scalar.*end of stream", _not_closed),
    ("unknown escape", _said("`\\` begins an escape inside double quotes: use single quotes")),
    ("expected <block end>, but found '<scalar>'", _said(_QUOTES_CLOSED)),
    ("expected <block end>, but found '<block mapping start>'", _said(_COLUMN)),
    (r"expected <block end>, but found '[-?]'", _said(_MIXED)),
    (
        "block scalar",
        _said("`>` and `|` begin a text of several lines: leave the sign out, or quote the text"),
    ),
    (
        "cannot start any token",
        lambda spot: (spot.at, f"a text cannot begin with {shown(spot.char)}: quote it"),
    ),
)
"""What PyYAML says (its context, a bar, the problem), and who explains it."""
