"""From YAML text to nodes, within bounds.

PyYAML's safe loader composes nodes, which construct nothing.
"""

from __future__ import annotations

import re

import yaml

from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.document import (
    MAX_DEPTH,
    MAX_VALUES,
    TOO_DEEP,
    TOO_MANY,
    Position,
    at_position,
    failure,
)
from ratelimit_middleware.rules.words import shown
from ratelimit_middleware.rules.yaml_mistakes import syntax_mistake

__all__ = ["LINE_BREAK", "PREFIX", "compose"]

LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""What PyYAML counts as the end of a line."""

PREFIX = "tag:yaml.org,2002:"
"""What the tags of plain values begin with; an explicit `!!str` stays as it was written."""


class _BoundError(yaml.MarkedYAMLError):
    """Raised before Python's RecursionError, and before a file takes minutes."""


class _Loader(yaml.SafeLoader):
    """The safe loader, with bounds (PyYAML's composer calls itself, and takes its time)."""

    depth = 0
    values = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """One level deeper."""
        event = self.peek_event()  # type: ignore[no-untyped-call]  # missing in the stubs
        self.depth += 1
        self.values += 1
        if self.depth > MAX_DEPTH:
            raise _BoundError(problem=TOO_DEEP, problem_mark=event.start_mark)
        if self.values > MAX_VALUES:
            message = f"{TOO_MANY}: split the file, with `include`"
            raise _BoundError(problem=message, problem_mark=event.start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        tag = getattr(event, "tag", None)
        if node and tag:  # written, not found out
            node.tag = tag.replace(PREFIX, "!!")
        return node


def compose(text: str, name: str, lines: list[str]) -> yaml.Node:
    """The root node of the only document.

    Args:
        text: what is read.
        name: the file as messages name it.
        lines: of the file, as messages show them.

    Raises:
        RuleFileError: it is no YAML, empty, more than one document, too deep or too long.
    """

    def refused(position: Position, message: str) -> RuleFileError:
        return failure([at_position(name, lines, position, message)])

    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        raise refused(*_control_character(error, text)) from None
    try:
        root = loader.get_single_node()
    except _BoundError as error:
        raise refused(_position(error.problem_mark), str(error.problem)) from None
    except yaml.MarkedYAMLError as error:
        raise refused(*syntax_mistake(error, lines)) from None
    except (ValueError, OverflowError):  # from chr() and int(), which PyYAML lets through
        mark = loader.get_mark()
        message = "cannot be read as YAML: a number that stands for no character, or for no version of YAML"
        raise refused(_position(mark), message) from None
    if root is None:
        message = "the file is empty: write `limits:` with a line such as `/**: 100/minute` below"
        raise refused(Position(0, 0), message)
    return root


def _control_character(error: yaml.reader.ReaderError, text: str) -> tuple[Position, str]:
    before = LINE_BREAK.split(text[: error.position])
    message = f"the control character {shown(text[error.position])} cannot stand in YAML: remove it"
    return Position(len(before) - 1, len(before[-1])), message


def _position(mark: yaml.Mark | None) -> Position:
    return Position(mark.line, mark.column) if mark else Position(0, 0)
