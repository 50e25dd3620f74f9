"""Reading YAML text into a `Document`: the plain data is made here, of nodes that construct nothing."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.compose import LINE_BREAK, PREFIX, compose
from ratelimit_middleware.rules.document import (
    BROKEN,
    MAX_DEPTH,
    MISSING,
    TOO_DEEP,
    UNREADABLE,
    Document,
    Finding,
    Mark,
    Path,
    Position,
    at_position,
    failure,
)
from ratelimit_middleware.rules.scalars import expand, in_a_key, is_text, no_text, plain_value
from ratelimit_middleware.rules.words import GrammarError, hidden, shown
from ratelimit_middleware.rules.yaml_mistakes import missing_colon, missing_value

__all__ = ["MAX_BYTES", "read_yaml"]

MAX_BYTES = 1024 * 1024
_MAX_ALIASED = 10_000
_PLAIN_TAGS = frozenset(
    PREFIX + name
    for name in ("str", "int", "float", "bool", "null", "timestamp", "seq", "map", "merge", "value")
)


def read_yaml(raw: bytes, name: str, env: Mapping[str, str]) -> tuple[Document, list[Finding]]:
    """Read the bytes of a file.

    Returns:
        The document, and what is wrong with single values of it (they are `BROKEN` in the data).

    Raises:
        RuleFileError: it cannot be read as one YAML document of bounded size with a map at the top.
    """
    text = _decoded(raw, name)
    lines = LINE_BREAK.split(hidden(text))
    root = compose(text, name, lines)
    reader = _NodeReader(name, lines, env)
    data = reader.value(root, (), 1, aliased=False)
    if not isinstance(data, dict):
        message = "the file must be a map with keys such as `limits:`, not a single value or a list"
        colon = missing_colon(root.value) if isinstance(root, yaml.ScalarNode) else ""
        raise failure([*reader.findings, reader.finding(root.start_mark, colon or message)])
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
            return self._broken(node, _no_tag(node.tag))
        if isinstance(node, yaml.MappingNode):
            return self._map(node, path, depth, aliased=aliased)
        if isinstance(node, yaml.SequenceNode):
            return [
                self.value(item, (*path, index), depth + 1, aliased=aliased)
                for index, item in enumerate(node.value)
            ]
        return self._scalar(node, path, quoted=getattr(node, "style", None) is not None)

    def _broken(self, node: yaml.Node, message: str) -> object:
        self.findings.append(self.finding(node.start_mark, message))
        return BROKEN

    def _map(self, node: yaml.MappingNode, path: Path, depth: int, *, aliased: bool) -> object:
        data: dict[str, object] = {}
        for key, value in node.value:
            mistake = _key_mistake(key)
            if mistake:
                data[UNREADABLE] = self._broken(key, mistake)
                continue
            name = key.value
            below = (*path, name)
            if name in data:
                first = self.marks[below].key.line + 1
                self._broken(key, f"{shown(name)} stands twice in this map, first in line {first}: keep one")
            else:
                self.marks[below] = Mark(_position(key), _position(value))
                data[name] = self.value(value, below, depth + 1, aliased=aliased)
        return data

    def _scalar(self, node: yaml.Node, path: Path, *, quoted: bool) -> object:
        try:
            text = expand(node.value, self._env)
        except GrammarError as error:
            return self._broken(node, str(error))
        value = text if quoted else plain_value(text)
        if value is None:
            return self._broken(node, MISSING if node.value else missing_value(path[-1] if path else ""))
        return value


def _position(node: yaml.Node) -> Position:
    return Position(node.start_mark.line, node.start_mark.column)


def _key_mistake(node: yaml.Node) -> str:
    """What is wrong with a key; empty when nothing is."""
    if not isinstance(node, yaml.ScalarNode):
        return _no_key(node)
    if node.tag == PREFIX + "merge":
        return "the merge key `<<` is not supported: repeat the keys"
    if node.tag not in _PLAIN_TAGS:
        return _no_tag(node.tag)
    return in_a_key(node.value) if is_text(node.value) else no_text(node.value)


def _no_key(node: yaml.Node) -> str:
    """The message for a list or a map in the place of a key."""
    items = node.value if isinstance(node, yaml.SequenceNode) else []
    texts = [item.value for item in items if isinstance(item, yaml.ScalarNode)]
    if any("/" in text for text in texts):
        routes = shown(f"routes: [{', '.join(texts)}]")
        return f"a key is a single route: for several give the rule a name, and write {routes} below it"
    return "a key must be a text: quote it when it begins with `{` or `[`"


def _no_tag(tag: str) -> str:
    return f"the tag {shown(tag)} is not read: rule files hold maps, lists and plain values"
