"""How the files of `lua/` become one script."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from ratelimit_middleware.stores._redis_script import load_script

TEXTS = {
    file.name: file.read_text(encoding="utf-8")
    for file in files("ratelimit_middleware.stores").joinpath("lua").iterdir()
    if file.name.endswith(".lua")
}
ALWAYS = {"_first.lua", "_buckets.lua", "_requests.lua", "_last.lua"}
HELPERS = {name for name, text in TEXTS.items() if "makers." not in text} - ALWAYS
LIMITERS = sorted(TEXTS.keys() - ALWAYS - HELPERS)


def locals_of(text: str) -> set[str]:
    """Functions and variables that a text makes."""
    functions = re.findall(r"local function (\w+)", text)
    constants = re.findall(r"local ([\w, ]+) =", text)
    return {*functions, *(name for names in constants for name in names.split(", "))}


def offered_by(helper: str) -> set[str]:
    """What stands at the left margin of a file of plain functions."""
    return locals_of("\n".join(line for line in helper.splitlines() if line.startswith("local")))


@pytest.mark.parametrize("name", LIMITERS)
def test_a_file_names_the_plain_functions_it_uses_and_no_others(name: str) -> None:
    """Elsewhere they are not run, so a name that is missing would be found by the call that needs it."""
    code = re.sub(r"--.*", "", TEXTS[name])
    foreign = set(re.findall(r"(?<![.:\w])[A-Za-z_]\w*", code)) - locals_of(code)
    used = {helper for helper in HELPERS if offered_by(TEXTS[helper]) & foreign}

    said = re.search(r"^-- Uses (.+)\.$", TEXTS[name], re.MULTILINE)
    assert set(said[1].split(", ") if said else []) == used


def test_every_file_is_in_the_script() -> None:
    source = load_script().source.decode()
    assert [name for name, text in TEXTS.items() if text not in source] == []
