"""A bounded memory for answers that can be worked out again."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["Recent"]

_K = TypeVar("_K")
_V = TypeVar("_V")


class Recent(Generic[_K, _V]):
    """Remembers answers of late, in two generations.

    When the young generation is full it becomes the old one, and the old one is forgotten. An old answer
    that is asked for becomes young again, so what is asked for often outlives a flood of what is not.

    May be used from several threads without a lock: each step changes one dict or one attribute. When two
    threads meet, an answer may be forgotten too early, or a generation hold one more for each thread.

    Attributes:
        young: the answers of late; ask here first.
    """

    __slots__ = ("_entries", "_offered", "_old", "young")

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self.young: dict[_K, _V] = {}
        self._old: dict[_K, _V] = {}
        self._offered: set[int] = set()

    def __len__(self) -> int:
        """How many answers are remembered; those in both generations count twice."""
        return len(self.young) + len(self._old)

    def renewed(self, key: _K) -> _V | None:
        """An answer of the old generation, which becomes young again; None if it has none."""
        value = self._old.get(key)
        if value is not None:
            self.put(key, value)
        return value

    def put(self, key: _K, value: _V) -> None:
        """Remember an answer, which is not None."""
        young = self.young
        if len(young) >= self._entries:
            self._old, self.young = young, {}
            young = self.young
        young[key] = value

    def offer(self, key: _K, value: _V) -> None:
        """Remember an answer if it is offered for the second time.

        What is asked for once, as by a flood of made-up clients and paths, leaves no more than a number, and
        pushes nothing out. Numbers may meet; then an answer is remembered at once.
        """
        number, offered = hash(key), self._offered
        if number in offered:
            self.put(key, value)
            return
        if len(offered) >= self._entries:
            offered.clear()
        offered.add(number)
