"""Permits counted per slot of time: plain functions on a flat tuple `(slot, n, slot, n, ...)`.

A slot is a stretch of the clock (a half second, a second, a period) by its number since the epoch. Slots
stand in order, each once; those in which nothing was booked are left out. Bookings ahead stand in their
slots too.
"""

from __future__ import annotations

from typing import TypeAlias

from ratelimit_middleware.algorithms.base import ceil_div

__all__ = ["Counts", "added", "count_at", "removed", "scaled", "since", "total"]

Counts: TypeAlias = tuple[int, ...]


def since(counts: Counts, slot: int) -> Counts:
    """Without the slots before this one; the same tuple if there are none."""
    gone = 0
    while gone < len(counts) and counts[gone] < slot:
        gone += 2
    return counts[gone:] if gone else counts


def total(counts: Counts) -> int:
    """The permits of all slots."""
    return sum(counts[1::2])


def count_at(counts: Counts, slot: int) -> int:
    """The permits of one slot."""
    for place in range(0, len(counts), 2):
        if counts[place] == slot:
            return counts[place + 1]
    return 0


def added(counts: Counts, slot: int, n: int) -> Counts:
    """With `n` more permits in a slot."""
    place = len(counts)
    while place and counts[place - 2] > slot:
        place -= 2
    if place and counts[place - 2] == slot:
        return (*counts[: place - 1], counts[place - 1] + n, *counts[place:])
    return (*counts[:place], slot, n, *counts[place:])


def removed(counts: Counts, slot: int, n: int) -> Counts:
    """With `n` permits fewer in a slot, at most those that are there."""
    for place in range(0, len(counts), 2):
        if counts[place] == slot:
            left = counts[place + 1] - n
            rest = (slot, left) if left > 0 else ()
            return (*counts[:place], *rest, *counts[place + 2 :])
    return counts


def scaled(counts: Counts, times: int, divisor: int) -> Counts:
    """Times `times / divisor`, the newest k slots together rounded up once: there and back never mints."""
    entries: list[tuple[int, int]] = []
    seen = given = 0
    for place in range(len(counts) - 2, -2, -2):
        seen += counts[place + 1]
        n = ceil_div(seen * times, divisor) - given
        given += n
        if n:
            entries.append((counts[place], n))
    return tuple(number for entry in reversed(entries) for number in entry)
