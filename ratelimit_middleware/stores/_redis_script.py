"""The script that Redis runs: the files of `lua/`, joined."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha1
from importlib.resources import files
from typing import NamedTuple

__all__ = ["Script", "load_script"]

_FIRST = ("_first.lua", "_buckets.lua", "_requests.lua")
_LAST = "_last.lua"


class Script(NamedTuple):
    """A script and the name by which a server that has seen it knows it.

    Attributes:
        source: its text.
        sha: SHA-1 of the text, in hexadecimal digits.
    """

    source: bytes
    sha: bytes


@lru_cache(maxsize=1)
def load_script() -> Script:
    """One script of all algorithms, so that checks of any kind share a call."""
    texts = {
        file.name: file.read_text(encoding="utf-8")
        for file in files("ratelimit_middleware.stores").joinpath("lua").iterdir()
        if file.name.endswith(".lua")
    }
    first, last = [texts.pop(name) for name in _FIRST], texts.pop(_LAST)
    branches = [_branch(name, texts) for name in sorted(texts)]
    source = "\n".join([*first, "function define(name)", *branches, "end", last]).encode()
    return Script(source, sha1(source, usedforsecurity=False).hexdigest().encode())


def _branch(name: str, texts: dict[str, str]) -> str:
    """A file that is run when one of its makers is asked for, behind the plain functions that it uses.

    A file of plain functions is run nowhere else.
    """
    makers = re.findall(r"^(?:function )?makers\.(\w+)", texts[name], re.MULTILINE)
    if not makers:
        return ""
    used = re.search(r"^-- Uses (.+)\.$", texts[name], re.MULTILINE)
    helpers = [texts[helper] for helper in used[1].split(", ")] if used else []
    asked = " or ".join(f'name == "{maker}"' for maker in makers)
    return "\n".join([f"if {asked} then", *helpers, texts[name], "return", "end"])
