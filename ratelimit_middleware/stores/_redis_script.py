"""The script that Redis runs: the files of `lua/`, joined."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha1
from importlib.resources import files
from typing import NamedTuple

__all__ = ["Script", "load_script"]

_FIRST, _LAST = "_first.lua", "_last.lua"


class Script(NamedTuple):
    """A script and the name by which a server that has seen it knows it.

    Attributes:
        source: its text.
        sha: SHA-1 of the text, in hexadecimal digits.
    """

    source: bytes
    sha: bytes


def _branch(text: str) -> str:
    """A file that is run when one of its makers is asked for."""
    names = re.findall(r"^(?:function )?makers\.(\w+)", text, re.MULTILINE)
    asked = " or ".join(f'name == "{name}"' for name in names)
    return f"if {asked} then\n{text}\nreturn\nend"


@lru_cache(maxsize=1)
def load_script() -> Script:
    """One script of all algorithms, so that checks of any kind share a call."""
    texts = {
        file.name: file.read_text(encoding="utf-8")
        for file in files("ratelimit_middleware.stores").joinpath("lua").iterdir()
        if file.name.endswith(".lua")
    }
    first, last = texts.pop(_FIRST), texts.pop(_LAST)
    # Plain functions before the algorithms that use them: "ticks" would come after "gcra".
    helpers = [texts.pop(name) for name in ("ticks.lua",)]
    branches = [_branch(texts[name]) for name in sorted(texts)]
    parts = [first, *helpers, "function define(name)", *branches, "end", last]
    source = "\n".join(parts).encode()
    return Script(source, sha1(source, usedforsecurity=False).hexdigest().encode())
