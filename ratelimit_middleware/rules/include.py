"""Files that a rule file includes: parts of `limits` and `always` kept in files of their own."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ratelimit_middleware.errors import RuleFileError, RuleProblem
from ratelimit_middleware.rules.part import Part
from ratelimit_middleware.rules.words import shown

__all__ = ["Includes"]

_DEEPEST = 5
_ALLOWED = frozenset({"version", "include", "limits", "always"})


class Includes:
    """Reads what a file includes, and what that includes.

    Args:
        read: reads and checks a file; raises RuleFileError when it is no YAML.

    Attributes:
        problems: of files that could not be read at all.
    """

    def __init__(self, read: Callable[[str], Part]) -> None:
        self.problems: list[RuleProblem] = []
        self._read = read
        self._seen: set[str] = set()

    def parts(self, part: Part, name: str, above: tuple[str, ...] = ()) -> Iterator[Part]:
        """The files that a file includes, each followed by its own; a file that was read is not read again.

        Args:
            part: the file.
            name: its name; names in it are relative to its folder.
            above: the files that lead to it, by their real names.
        """
        above = (*above, os.path.realpath(name))
        self._seen.add(above[-1])
        for index, pattern in enumerate(part.spec.include):
            place = ("include", index)
            files = _files(Path(name).parent, pattern)
            if not files and not glob.has_magic(pattern):
                part.refuse(place, f"there is no file {shown(pattern)} beside this one")
            for file in files:
                real = os.path.realpath(file)
                if real in above:
                    part.refuse(place, f"{shown(file)} includes itself, directly or through others")
                elif len(above) > _DEEPEST:
                    part.refuse(place, f"files include each other more than {_DEEPEST} levels deep")
                elif real not in self._seen:
                    yield from self._included(file, above)

    def _included(self, file: str, above: tuple[str, ...]) -> Iterator[Part]:
        try:
            part = self._read(file)
        except RuleFileError as error:
            self.problems += error.problems
            return
        for key in sorted(part.document.data.keys() - _ALLOWED):
            part.refuse((key,), f"`{key}` stands in the main file only, not in an included one", at_key=True)
        yield part
        yield from self.parts(part, file, above)


def _files(folder: Path, pattern: str) -> list[str]:
    """The files that a pattern stands for, in order of name."""
    try:
        found = glob.glob(str(Path(glob.escape(str(folder))) / pattern))  # noqa: PTH207 - may be absolute
    except ValueError:  # a NUL in the name
        return []
    return sorted(name for name in found if Path(name).is_file())
