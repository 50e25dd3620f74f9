"""Which routes fit a path.

The index is a trie over the segments of the templates: looking a path up costs its own length, however
many there are. Regular expressions are tried one after the other; a file has few of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar
from uuid import UUID

from ratelimit_middleware.rules.char_sets import lower_case
from ratelimit_middleware.rules.engines import Fits
from ratelimit_middleware.rules.route import REGEX, REST, fold, regexes, segments

__all__ = ["CONVERTERS", "Index"]

_T = TypeVar("_T")

_PARAMETER = re.compile(r"\{[^{}:]+(?::(?P<converter>\w+))?\}")


def _reads(kind: Callable[[str], object]) -> Callable[[str], bool]:
    def reads(text: str) -> bool:
        try:
            kind(text)
        except ValueError:
            return False
        return True

    return reads


_is_int = _reads(int)

CONVERTERS: dict[str, Callable[[str], object]] = {
    "str": len,  # not empty; `bool` would cost three times as much
    "int": lambda text: text.isdecimal() or _is_int(text),  # `int` reads no more than some thousand digits
    "float": _reads(float),
    "uuid": _reads(UUID),
}
"""What tells whether a segment is of a kind: all that some framework accepts, so that none slips past its
rule. Litestar accepts what Python reads (`-1`, `1_0`), the others less."""

_NARROW: dict[str, Callable[[str], object]] = {
    "str": len,
    "int": re.compile(r"[0-9]+").fullmatch,
    "float": re.compile(r"[0-9]+(\.[0-9]+)?").fullmatch,
    "uuid": re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}").fullmatch,
}
"""The same for `unlimited`: what most accept, as another route may serve the rest."""


class _Node(Generic[_T]):
    """What may follow at one place of a path.

    What is empty is shared by all nodes, so that a large trie stays small and near.
    """

    __slots__ = ("ends", "literals", "parameters", "rests")

    def __init__(self) -> None:
        self.literals: dict[str, _Node[_T]] = {}
        self.parameters: tuple[tuple[Callable[[str], object], _Node[_T]], ...] = ()
        self.ends: tuple[_T, ...] = ()
        self.rests: tuple[_T, ...] = ()

    def add(self, entry: _T, path: str, converters: Mapping[str, Callable[[str], object]]) -> None:
        """Put an entry under a spelling of its template."""
        node = self
        for segment in segments(path):
            found = _PARAMETER.fullmatch(segment)
            converter = (found["converter"] or "str") if found else None
            if segment == REST or converter == "path":
                node.rests += (entry,)
                return
            if converter is None:
                node = node.literals.setdefault(segment, _Node())
            else:
                node = node.parameter(converters[converter])
        node.ends += (entry,)

    def parameter(self, test: Callable[[str], object]) -> _Node[_T]:
        """Where a segment leads that passes the test."""
        for known, below in self.parameters:
            if known is test:
                return below
        self.parameters += ((test, _Node()),)
        return self.parameters[-1][1]

    def find(self, path: str) -> tuple[_T, ...]:
        """All entries whose template fits `path` as it is spelled."""
        found = self.rests
        nodes = [self]
        for segment in segments(path):
            after: list[_Node[_T]] = []
            for node in nodes:
                literal = node.literals.get(segment)
                if literal is not None:
                    after.append(literal)
                for test, below in node.parameters:
                    if test(segment):
                        after.append(below)
            if not after:
                return found
            nodes = after
            for node in nodes:
                if node.rests:
                    found += node.rests
        for node in nodes:
            found += node.ends
        return found


class Index(Generic[_T]):
    """Entries by the paths of their routes.

    Args:
        any_case: whether paths that differ in case only are one.
    """

    __slots__ = ("_any_case", "_regexes", "_root")

    def __init__(self, *, any_case: bool) -> None:
        self._any_case = any_case
        self._root: _Node[_T] = _Node()
        self._regexes: list[tuple[Fits, _T]] = []

    def add(self, path: str, entry: _T, *, narrow: bool = False) -> None:
        """Put an entry under the path of a route.

        Args:
            path: of the route.
            entry: what `find` gives for paths that fit.
            narrow: whether a converter takes only what all frameworks accept, or what one of them does.

        Raises:
            GrammarError: the path is a regular expression that cannot be used.
        """
        if path.startswith(REGEX):
            self._regexes += [(fits, entry) for fits in regexes(path, any_case=self._any_case)]
        else:
            for spelled in {path, self._folded(fold(path))}:
                self._root.add(entry, spelled, _NARROW if narrow else CONVERTERS)

    def find(self, path: str, plain: str) -> tuple[tuple[_T, ...], tuple[_T, ...]]:
        """The entries that fit a path as it is spelled, and those that fit its plain spelling.

        A regular expression cannot be folded as a template is, so a trailing slash in it is met by trying
        the plain spelling with one, too.
        """
        plain = self._folded(plain)
        as_seen = self._root.find(path)
        folded = as_seen if plain == path else self._root.find(plain)
        if self._regexes:
            seen = self._fitting(path)
            as_seen = as_seen + seen
            folded = folded + (seen if plain == path else self._fitting(plain)) + self._fitting(f"{plain}/")
        return as_seen, folded

    def _folded(self, plain: str) -> str:
        return lower_case(plain) if self._any_case else plain

    def _fitting(self, text: str) -> tuple[_T, ...]:
        if not text.isascii():  # engines know no half surrogate pairs, which a server may let through
            text = text.encode("utf-8", "replace").decode()
        return tuple([entry for fits, entry in self._regexes if fits(text)])
