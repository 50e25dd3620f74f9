"""Templates of paths as Starlette (`/items/{id:int}`) and Werkzeug (`/items/<int:id>`) write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["IsOpen", "Piece", "pieces_of"]

IsOpen: TypeAlias = Callable[[str, str], bool]
"""Whether a parameter, by its name and its converter, may hold `/`; asked for converters of the app's own."""

_PARAMETER = re.compile(
    r"\{(?P<name>[^{}:]+)(?::(?P<after>\w+))?\}"
    r"|<(?:(?P<before>\w+)(?P<arguments>\([^<>]*\))?:)?(?P<variable>\w+)>"
)
_KNOWN = {"str": "str", "string": "str", "default": "str", "int": "int", "float": "float", "uuid": "uuid"}


class Piece(NamedTuple):
    """What a template asks of one segment, or of all that are left.

    Attributes:
        kind: `text` stands as it is; `one` is a value without `/`; `rest` is whatever follows, or nothing.
        text: for `text`; for `one` a regular expression where text stands beside a value, else empty.
        converter: for `one`: `str`, `int`, `float`, `uuid`, or empty for one that is not known.
    """

    kind: Literal["text", "one", "rest"]
    text: str = ""
    converter: str = ""


def _never(name: str, converter: str) -> bool:  # noqa: ARG001 - one shape for all
    return False


def pieces_of(path: str, is_open: IsOpen = _never) -> tuple[Piece, ...]:
    """The pieces of a template in its plain spelling; nothing follows a `rest`."""
    pieces: list[Piece] = []
    for segment in path.split("/"):
        if segment in ("", "."):
            continue
        piece = _piece(segment, is_open)
        pieces.append(piece)
        if piece.kind == "rest":
            break
    return tuple(pieces)


def _piece(segment: str, is_open: IsOpen) -> Piece:
    found = list(_PARAMETER.finditer(segment))
    if not found:
        return Piece("text", segment)
    converters = [_converter(match, is_open) for match in found]
    if "path" in converters:
        return Piece("rest")
    if found[0].span() == (0, len(segment)):
        return Piece("one", "", converters[0])
    return Piece("one", _beside(segment, found))


def _converter(match: re.Match[str], is_open: IsOpen) -> str:
    """The converter's name in the words of the rule file; `path` if a value may hold `/`."""
    written = match["after"] or match["before"] or "str"
    if written == "path" or is_open(match["name"] or match["variable"], written):
        return "path"
    signed = "signed" in (match["arguments"] or "")
    return "" if signed else _KNOWN.get(written, "")


def _beside(segment: str, found: list[re.Match[str]]) -> str:
    """What values with text beside them look like."""
    parts, at = [], 0
    for match in found:
        parts.append(re.escape(segment[at : match.start()]))
        at = match.end()
    return ".+".join([*parts, re.escape(segment[at:])])
