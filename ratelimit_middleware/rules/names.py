"""What rules and policies are called."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["Names", "wire_name"]

_NAME_LENGTH = 60


class Names:
    """The policy names taken, and those kept free for the rules that chose them.

    Args:
        chosen: names that rules have chosen, whatever stands above them.
    """

    def __init__(self, chosen: Iterable[str]) -> None:
        self._chosen = frozenset(chosen)
        self._taken: set[str] = set()
        self._suffixes: dict[str, int] = {}

    def policy(self, base: str, number: int, *, chosen: bool) -> str:
        """`base`, else `base-2`, `base-3`, …: the first that is free.

        Args:
            base: the rule's name on the wire.
            number: the limit's place in its rule.
            chosen: whether the rule chose its name.
        """
        own = chosen and number == 0
        name = base if number == 0 else f"{base}-{number + 1}"
        while name in self._taken or (name in self._chosen and not own):
            self._suffixes[base] = max(self._suffixes.get(base, 1), number + 1) + 1
            name = f"{base}-{self._suffixes[base]}"
        self._taken.add(name)
        return name


def wire_name(name: str) -> str:
    """A rule's name as a policy name: `GET /items/{id:int}` becomes `get-items-id`."""
    plain = re.sub(r":\w+\}", "}", name).lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:_NAME_LENGTH].strip("-") or "root"
