"""The way in: a path, a mapping or a `RuleSet` becomes a `RuleSet`, or an error with every mistake."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratelimit_middleware.errors import RuleFileError, RuleProblem
from ratelimit_middleware.rules.document import Document, Finding, in_order
from ratelimit_middleware.rules.model import RuleSet

if TYPE_CHECKING:
    from ratelimit_middleware.rules.part import Part

__all__ = ["load_rules"]

_RULES = {"limits", "default", "always", "include"}


def load_rules(
    source: str | os.PathLike[str] | Mapping[str, Any] | RuleSet, *, env: Mapping[str, str] | None = None
) -> RuleSet:
    """Load rules.

    Args:
        source: path of a YAML file, a mapping of the same shape, or a `RuleSet` (returned as it is).
        env: what `${NAME}` stands for; by default the process's environment.

    Raises:
        RuleFileError: the file cannot be read, or it holds mistakes; all of them are in it.
        TypeError: `source` is something else.
    """
    if isinstance(source, RuleSet):
        return source
    if not isinstance(source, (str, os.PathLike, Mapping)):
        raise TypeError(f"rules are a path, a mapping or a RuleSet, not {type(source).__name__}")
    # Only here: an app whose rules are built in Python needs neither PyYAML nor pydantic.
    from ratelimit_middleware.rules.compile import compile_files
    from ratelimit_middleware.rules.include import Includes

    variables = os.environ if env is None else env
    includes = Includes(lambda name: _part(name, variables))
    main = _part(source, variables)
    parts = [main, *includes.parts(main, "" if isinstance(source, Mapping) else os.fspath(source))]
    ruleset = compile_files(parts)
    if not ruleset or includes.problems:
        found = [problem for part in parts for problem in in_order(part.findings)]
        raise RuleFileError([*found, *includes.problems])
    if isinstance(source, (str, os.PathLike)) and not _RULES & _keys(main):
        message = "the file holds no rules, so nothing would be limited: write `limits:` or `default:`"
        raise RuleFileError([RuleProblem(os.fspath(source), message)])
    return ruleset


def _keys(part: Part) -> set[object]:
    """The keys at the top of a file."""
    return set(part.document.data) if isinstance(part.document.data, dict) else set()


def _part(source: str | os.PathLike[str] | Mapping[str, Any], env: Mapping[str, str]) -> Part:
    """A file or mapping, read and checked by itself."""
    from ratelimit_middleware.rules.misfits import checked
    from ratelimit_middleware.rules.part import Part

    document, findings = _read(source, env)
    spec, misfits = checked(document.data)
    part = Part(spec, document, findings)
    for path, message, at_key in misfits:
        part.refuse(path, message, at_key=at_key)
    return part


def _read(
    source: str | os.PathLike[str] | Mapping[str, Any], env: Mapping[str, str]
) -> tuple[Document, list[Finding]]:
    if isinstance(source, Mapping):
        from ratelimit_middleware.rules.read_mapping import read_mapping

        return read_mapping(source, "rules", env)
    from ratelimit_middleware.rules.read_yaml import MAX_BYTES, read_yaml

    name = os.fspath(source)
    return read_yaml(_bytes(name, MAX_BYTES + 1), name, env)


def _bytes(name: str, size: int) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return file.read(size)
    except (OSError, ValueError) as error:  # ValueError: a NUL or a lone surrogate in the name
        reason = getattr(error, "strerror", None) or str(error)
        if not Path(name).is_absolute() and isinstance(error, FileNotFoundError):
            reason += f" (a relative path, looked up in {Path.cwd()})"
        raise RuleFileError([RuleProblem(name, f"the rule file cannot be read: {reason}")]) from None
