"""A large file full of mistakes costs little more than a large file: counted, not timed."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from pathlib import Path

import pytest

from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.load import load_rules

pytestmark = pytest.mark.arithmetic

FILES: dict[str, Callable[[int], str]] = {
    "units": lambda n: "limits:\n" + "".join(f"  /{i}: 5/minut\n" for i in range(n)),
    "keys": lambda n: "".join(f"k{i}: 5\n" for i in range(n)),
    "keys of rules": lambda n: "limits:\n" + "".join(f"  /{i}: {{rte: 5}}\n" for i in range(n)),
    "missing keys": lambda n: "limits:\n" + "".join(f"  /{i}: {{}}\n" for i in range(n)),
    "keys twice": lambda n: "{" + "a: 5," * n + "}",
    "values in one line": lambda n: "default: [" + "x," * n + "]",
    "nothing in one line": lambda n: "default: [" + "~," * n + "]",
    "tags in one line": lambda n: "default: [" + "!a b," * n + "]",
    "limits of one rule": lambda n: "default: [" + "5/s," * n + "]",
    "hosts": lambda n: "default: {limit: 5/s, hosts: [" + "/," * n + "]}",
    "overrides": lambda n: (
        "default: {limit: 5/s, overrides: {" + "".join(f"a{i}: x," for i in range(n)) + "}}"
    ),
    "names": lambda n: "limits:\n" + "".join(f"  /{i}: {{limit: 5/s, name: a}}\n" for i in range(n)),
    "shapes": lambda n: "limits:\n" + "".join(f"  /{{x{i}}}: 5/s\n" for i in range(n)),
    "files": lambda n: "include: [" + "x," * n + "]",
    "good": lambda n: "limits:\n" + "".join(f"  /{i}: 5/s\n" for i in range(n)),
}


def outcome(path: Path) -> RuleFileError | None:
    try:
        load_rules(path, env={})
    except RuleFileError as error:
        return error
    return None


def calls(path: Path) -> int:
    """Calls of functions, builtins included, that loading makes."""
    profile = cProfile.Profile()
    profile.runcall(outcome, path)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]  # missing in the stubs


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_twice_the_mistakes_are_at_most_twice_the_calls(tmp_path: Path, make: Callable[[int], str]) -> None:
    path = tmp_path / "rules.yaml"
    counts = []
    for number in (100, 100, 200):  # the first also imports
        path.write_text(make(number))
        counts.append(calls(path))
    assert counts[2] <= 2.2 * counts[1]


def test_an_excerpt_reads_only_what_it_shows(tmp_path: Path) -> None:
    """Passwords are hidden once in a file, not once for each mistake in one long line."""
    path = tmp_path / "rules.yaml"
    path.write_text("default: [" + "x," * 500 + "redis://ada:secret@cache]")
    error = outcome(path)
    assert error
    assert "secret" not in "".join(map(str, error.problems))
    assert all(len(line) <= 104 for problem in error.problems for line in problem.excerpt.split("\n"))


def test_a_hundred_mistakes_are_told_and_the_rest_counted(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("default: [" + "x," * 250 + "]")
    error = outcome(path)
    assert error
    assert len(error.problems) == 250
    assert str(error).startswith("250 mistakes in the rules; nothing was loaded\n")
    assert str(error).count("is not a limit") == 100
    assert str(error).endswith("\nand 150 more")


def test_a_file_of_too_many_values_is_refused_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("default: [" + "x," * 100_000 + "]")
    error = outcome(path)
    assert error
    (problem,) = error.problems
    assert "more than 100000 keys and values" in problem.message
