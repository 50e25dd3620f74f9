"""What the rule file says about watching in the place of refusing: `enforce: 25%`, and `mode` of the file.

Raises:
    GrammarError: from every function here, when a value is not what its key takes.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from ratelimit_middleware.rules.shares import Share
from ratelimit_middleware.rules.values import choice, plain, text
from ratelimit_middleware.rules.words import GrammarError, choose, shown

__all__ = ["Enforced", "FileMode"]

_SHARE = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,2}))?\s*%")


def _read_share(value: Any) -> Share:
    """A share of the clients."""
    found = _SHARE.fullmatch(value.strip()) if isinstance(value, str) else None
    if not found:
        example = f"`{value}%`" if type(value) is int and 0 < value <= 100 else "`25%` or `0.5%`"
        raise GrammarError(f"{shown(value)} is not a share of the clients: write {example}")
    hundredths = int(found[1]) * 100 + int((found[2] or "0").ljust(2, "0"))
    if not hundredths:
        raise GrammarError(
            f"{shown(value)} of the clients is none: write `mode: shadow`, which refuses nobody"
        )
    if hundredths > Share.ALL:
        raise GrammarError(f"{shown(value)} is more than all clients: write at most `100%`")
    return Share(hundredths)


def _read_file_mode(value: Any) -> str:
    """Whether the rules of the file refuse."""
    return choose("mode of the file", value, ("enforce", "shadow"))


Enforced: TypeAlias = Annotated[
    Share,
    plain(_read_share, text(r"[0-9]{1,3}(?:\.[0-9]{1,2})?\s*%", "Whom it refuses.", "25%")),
]
FileMode: TypeAlias = Annotated[
    Literal["enforce", "shadow"],
    plain(_read_file_mode, choice(("enforce", "shadow"), "`shadow`: no rule of the file refuses.")),
]
