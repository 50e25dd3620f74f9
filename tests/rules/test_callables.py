"""Functions that a rule file names."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from ratelimit_middleware.rules.callables import is_async, resolve
from ratelimit_middleware.rules.words import GrammarError

pytestmark = pytest.mark.arithmetic


async def awaited() -> None:
    """A function to await."""


class Awaited:
    """An object whose call is awaited."""

    async def __call__(self) -> None:
        """Nothing."""


def test_a_function_is_found_in_its_module() -> None:
    assert resolve("python:json:dumps") is json.dumps
    assert resolve("python:json.decoder:JSONDecoder.decode") is json.JSONDecoder.decode


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("json:dumps", "names no function: write `python:MODULE:FUNCTION`"),
        ("python:json", "names no function"),
        ("python::dumps", "names no function"),
        ("python:json:", "names no function"),
        ("python:..json:dumps", "names no function"),
        ("python:json:dumps()", "names no function"),
        ("python:json:dumps:x", "names no function"),
        ("python:no_such_module_here:f", "cannot be imported: No module named 'no_such_module_here'"),
        ("python:json:dump_s", "has no `dump_s`: did you mean `dumps`"),
        ("python:json:qqqqq", "has no `qqqqq`$"),
        ("python:math:pi", "cannot be called"),
    ],
)
def test_what_names_no_function_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        resolve(text)


@pytest.mark.parametrize(
    ("module", "source", "message"),
    [
        ("broken_on_import", "1 / 0", "cannot be imported: ZeroDivisionError: division by zero"),
        ("a_script", "raise SystemExit(2)", "cannot be imported: SystemExit: 2"),
        (
            "lazy",
            "def __getattr__(name): import no_such_module_here",
            "has no `f`: ModuleNotFoundError: No module",
        ),
    ],
)
def test_a_module_that_fails_is_refused_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, source: str, message: str
) -> None:
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(GrammarError, match=message):
        resolve(f"python:{module}:f")


def test_what_must_be_awaited_is_known() -> None:
    assert [is_async(function) for function in (awaited, Awaited(), functools.partial(awaited))] == [True] * 3
    assert [is_async(function) for function in (len, Path, json.dumps, functools.partial(int))] == [False] * 4
