"""Reading YAML text into a `Document`.

PyYAML's safe loader composes nodes, which construct nothing; the plain data is made here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.document import (
    BROKEN,
    MAX_DEPTH,
    MISSING,
    TOO_DEEP,
    Document,
    Finding,
    Mark,
    Path,
    Position,
    at_position,
    failure,
)
from ratelimit_middleware.rules.scalars import expand, plain_value
from ratelimit_middleware.rules.words import GrammarError, shown

__all__ = ["MAX_BYTES", "read_yaml"]

MAX_BYTES = 1024 * 1024
_MAX_ALIASED = 10_000
_LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_PREFIX = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(
    _PREFIX + name
    for name in ("str", "int", "float", "bool", "null", "timestamp", "seq", "map", "merge", "value")
)


class _DepthError(yaml.MarkedYAMLError):
    """Raised in place of Python's RecursionError."""


class _Loader(yaml.SafeLoader):
    """The safe loader, with a bound on nesting (PyYAML's composer calls itself)."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """One level deeper."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            event = self.peek_event()  # type: ignore[no-untyped-call]  # missing in the stubs
            raise _DepthError(problem=TOO_DEEP, problem_mark=event.start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def read_yaml(raw: bytes, name: str, env: Mapping[str, str]) -> tuple[Document, list[Finding]]:
    """Read the bytes of a file.

    Returns:
        The document, and what is wrong with single values of it (they are `BROKEN` in the data).

    Raises:
        RuleFileError: it cannot be read as one YAML document of bounded size with a map at the top.
    """
    text = _decoded(raw, name)
    lines = _LINE_BREAK.split(text)
    root = _composed(text, name, lines)
    reader = _NodeReader(name, lines, env)
    data = reader.value(root, (), 1, aliased=False)
    if not isinstance(data, dict):
        message = "the file must be a map with keys such as `limits:`, not a single value or a list"
        raise failure([*reader.findings, reader.finding(root.start_mark, message)])
    return Document(name, data, reader.marks, lines), reader.findings


def _decoded(raw: bytes, name: str) -> str:
    def refused(line: int, message: str) -> RuleFileError:
        return failure([at_position(name, [], Position(line, 0), message)])

    if len(raw) > MAX_BYTES:
        raise refused(0, f"the file is larger than {MAX_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start)
        raise refused(
            line, f"the file is not UTF-8: byte {error.start} is 0x{raw[error.start]:02x}"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0"))
        raise refused(line, "the file holds a NUL byte: it is not a text")
    return text


def _composed(text: str, name: str, lines: list[str]) -> yaml.Node:
    """The root node of the only document."""

    def refused(mark: yaml.Mark | None, message: str) -> RuleFileError:
        position = Position(mark.line, mark.column) if mark else Position(0, 0)
        return failure([at_position(name, lines, position, message)])

    try:
        root = _Loader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        raise refused(error.problem_mark, _syntax_message(error, lines)) from None
    except yaml.YAMLError as error:
        before = _LINE_BREAK.split(text[: getattr(error, "position", 0)])
        message = f"cannot be read as YAML: {getattr(error, 'reason', error)}"
        raise failure(
            [at_position(name, lines, Position(len(before) - 1, len(before[-1])), message)]
        ) from None
    if root is None:
        raise refused(None, "the file is empty: write `limits:` with a line such as `/**: 100/minute` below")
    return root


def _syntax_message(error: yaml.MarkedYAMLError, lines: list[str]) -> str:
    """PyYAML's finding, and the way out of the traps that rule files fall into."""
    problem = error.problem or "no YAML"
    line = (
        lines[error.problem_mark.line] if error.problem_mark and error.problem_mark.line < len(lines) else ""
    )
    if isinstance(error, _DepthError):
        return problem
    if error.context and "single document" in error.context:
        return "the file holds a second document (`---`): one file, one document"
    if error.context and "alias" in error.context:
        return "a plain `*` is an alias mark in YAML: quote it, or write `/**` for all paths"
    if "alias" in problem:
        return f"an alias without its anchor: {problem}"
    if "\\t" in problem:
        return "a tab cannot indent: use spaces"
    message = f"cannot be read as YAML: {problem}"
    begun, stopped = error.context_mark, error.problem_mark
    if begun and stopped and begun.line < stopped.line:
        message += f", {error.context} that begins in line {begun.line + 1}"
    line = "".join(lines[stopped.line : stopped.line + 1]) if stopped else ""
    return message + (". Inside `[…]` and `{…}` quote routes that hold braces" if "{" in line else "")


class _NodeReader:
    """Makes plain data of nodes, remembers where each part stood, collects what is wrong."""

    def __init__(self, name: str, lines: list[str], env: Mapping[str, str]) -> None:
        self.marks: dict[Path, Mark] = {}
        self.findings: list[Finding] = []
        self._name = name
        self._lines = lines
        self._env = env
        self._seen: set[int] = set()
        self._aliased = 0

    def finding(self, mark: yaml.Mark, message: str) -> Finding:
        """A problem at a mark of the file."""
        return at_position(self._name, self._lines, Position(mark.line, mark.column), message)

    def value(self, node: yaml.Node, path: Path, depth: int, *, aliased: bool) -> object:
        """The data of a node.

        Raises:
            RuleFileError: nested too deep, or aliases expand too far.
        """
        aliased = aliased or id(node) in self._seen
        self._seen.add(id(node))
        self._aliased += aliased
        if depth > MAX_DEPTH or self._aliased > _MAX_ALIASED:
            message = TOO_DEEP if depth > MAX_DEPTH else f"aliases expand to more than {_MAX_ALIASED} values"
            raise failure([*self.findings, self.finding(node.start_mark, message)])
        self.marks.setdefault(path, Mark(_position(node), _position(node)))
        if node.tag not in _PLAIN_TAGS:
            tag = node.tag.replace(_PREFIX, "!!")
            return self._broken(
                node, f"the tag {shown(tag)} is not read: rule files hold maps, lists and plain values"
            )
        if isinstance(node, yaml.MappingNode):
            return self._map(node, path, depth, aliased=aliased)
        if isinstance(node, yaml.SequenceNode):
            return [
                self.value(item, (*path, index), depth + 1, aliased=aliased)
                for index, item in enumerate(node.value)
            ]
        return self._scalar(node, quoted=getattr(node, "style", None) is not None)

    def _broken(self, node: yaml.Node, message: str) -> object:
        self.findings.append(self.finding(node.start_mark, message))
        return BROKEN

    def _map(self, node: yaml.MappingNode, path: Path, depth: int, *, aliased: bool) -> object:
        data: dict[str, object] = {}
        for key, value in node.value:
            name = key.value
            below = (*path, name)
            if not isinstance(key, yaml.ScalarNode):
                self._broken(key, "a key must be a text: quote it when it begins with `{` or `[`")
            elif key.tag == _PREFIX + "merge":
                data[name] = self._broken(key, "the merge key `<<` is not supported: repeat the keys")
            elif name in data:
                first = self.marks[below].key.line + 1
                self._broken(key, f"{shown(name)} stands twice in this map, first in line {first}: keep one")
            else:
                self.marks[below] = Mark(_position(key), _position(value))
                data[name] = self.value(value, below, depth + 1, aliased=aliased)
        return data

    def _scalar(self, node: yaml.Node, *, quoted: bool) -> object:
        try:
            text = expand(node.value, self._env)
        except GrammarError as error:
            return self._broken(node, str(error))
        value = text if quoted else plain_value(text)
        return self._broken(node, MISSING) if value is None else value


def _position(node: yaml.Node) -> Position:
    return Position(node.start_mark.line, node.start_mark.column)
