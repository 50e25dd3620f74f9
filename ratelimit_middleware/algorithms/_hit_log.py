"""The log of a sliding window: which permits were taken when, packed, at most 65 entries of 20 bytes.

Plain functions on `bytes`, oldest entry first. An entry is `(first_ns, last_ns, permits)`: the moments of
its first and last hit. The log is exact up to 64 entries. When a 65th comes, neighbours whose last hit
lies within a *grain*, a 64th of the period, of the first hit of their group are merged, oldest first.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import TypeAlias

from ratelimit_middleware.algorithms.base import ceil_div

__all__ = [
    "END",
    "ENTRY",
    "FULL",
    "MAX_PERMITS",
    "SIZE",
    "gone",
    "grain_ns",
    "last_of_oldest_ns",
    "newest_ns",
    "scaled",
    "with_hit",
    "without_hit",
    "without_oldest",
]

_Entry: TypeAlias = tuple[int, int, int]

_EXACT_ENTRIES = 64
_FIRST = Struct("<q")
ENTRY = Struct("<qqI")
END = Struct("<8xqI")
"""Of an entry the moment of its last hit, and its permits: half as much to read."""
SIZE = ENTRY.size
_pack, _unpack = ENTRY.pack, ENTRY.unpack_from
FULL = (_EXACT_ENTRIES - 1) * SIZE
"""Where the last entry of an exact log begins when there is no room for another."""
MAX_PERMITS = 2**32 - 1


def grain_ns(period_ns: int) -> int:
    """How far from each other the hits of one entry may lie."""
    return ceil_div(period_ns, _EXACT_ENTRIES)


def newest_ns(log: bytes) -> int:
    """The last hit of a log that has one."""
    last_ns: int = END.unpack_from(log, len(log) - SIZE)[0]
    return last_ns


def gone(log: bytes, horizon_ns: int) -> tuple[int, int]:
    """Where the entries end whose last hit lies at `horizon_ns` or before, and their permits."""
    size = permits = 0
    for _, last_ns, count in ENTRY.iter_unpack(log):
        if last_ns > horizon_ns:
            break
        permits += count
        size += SIZE
    return size, permits


def last_of_oldest_ns(log: bytes, permits: int) -> int:
    """The hit with which the oldest `permits` permits are complete."""
    at_ns = 0
    for _, last_ns, count in ENTRY.iter_unpack(log):
        at_ns = last_ns
        permits -= count
        if permits <= 0:
            break
    return at_ns


def with_hit(log: bytes, at_ns: int, cost: int, period_ns: int) -> tuple[bytes, int]:
    """With `cost` permits at `at_ns`, and its last hit."""
    if not log:
        return _pack(at_ns, at_ns, cost), at_ns
    tail = len(log) - SIZE
    first_ns, last_ns, count = _unpack(log, tail)
    if at_ns < last_ns:
        return _packed(_inserted(list(ENTRY.iter_unpack(log)), at_ns, cost), period_ns), last_ns
    same = at_ns == last_ns
    if (same or _may_join(log, tail, first_ns, at_ns, period_ns)) and count + cost <= MAX_PERMITS:
        return log[:tail] + _pack(first_ns, at_ns, count + cost), at_ns
    log += _pack(at_ns, at_ns, cost)
    if tail >= FULL:
        log = _packed(ENTRY.iter_unpack(log), period_ns)
    return log, at_ns


def _may_join(log: bytes, tail: int, first_ns: int, at_ns: int, period_ns: int) -> bool:
    """Whether a full log may take the hit into its last group without a pass over all of them.

    Groups start more than one grain apart after a pass, which is what bounds their number. Joining
    keeps that true only if the last group already starts a grain after the one before it.
    """
    if tail < FULL:
        return False
    grain = grain_ns(period_ns)
    if at_ns - first_ns > grain:
        return False
    before_ns: int = _FIRST.unpack_from(log, tail - SIZE)[0]
    return first_ns - before_ns > grain


def _packed(entries: Iterable[_Entry], period_ns: int) -> bytes:
    """Entries packed, merged if they are more than 64.

    A pass leaves at most 65 in one period. Bookings far ahead stretch the log over more than that:
    then the grain grows, which only makes the window stricter.
    """
    log, grain = list(entries), grain_ns(period_ns)
    if len(log) > _EXACT_ENTRIES:
        log = _merged(log, grain)
    while len(log) > _EXACT_ENTRIES + 1:
        grain *= 2
        log = _merged(log, grain)
    return b"".join([_pack(*entry) for entry in log])


def without_hit(log: bytes, at_ns: int, cost: int) -> tuple[int, bytes]:
    """How many of the `cost` permits at `at_ns` were there, and the log without them."""
    for place, (first_ns, last_ns, count) in enumerate(ENTRY.iter_unpack(log)):
        if first_ns <= at_ns <= last_ns:
            back = min(cost, count)
            rest = ENTRY.pack(first_ns, last_ns, count - back) if back < count else b""
            start = place * SIZE
            return back, log[:start] + rest + log[start + SIZE :]
    return 0, log


def without_oldest(log: bytes, permits: int) -> bytes:
    """The log without its oldest `permits` permits; nothing if there are no more."""
    for place, (first_ns, last_ns, count) in enumerate(ENTRY.iter_unpack(log)):
        if count > permits:
            return ENTRY.pack(first_ns, last_ns, count - permits) + log[(place + 1) * SIZE :]
        permits -= count
    return b""


def scaled(log: bytes, times: int, divisor: int) -> tuple[int, bytes]:
    """Counts times `times / divisor`: their sum, and the log.

    The newest k hits together are rounded up once, so that there and back never mints.
    """
    entries: list[bytes] = []
    seen = given = 0
    for first_ns, last_ns, count in reversed(list(ENTRY.iter_unpack(log))):
        seen += count
        permits = ceil_div(seen * times, divisor) - given
        given += permits
        if permits:
            entries.append(ENTRY.pack(first_ns, last_ns, permits))
    return given, b"".join(reversed(entries))


def _inserted(log: list[_Entry], at_ns: int, cost: int) -> list[_Entry]:
    """The log with a hit that lies before its end (others are booked ahead)."""
    for place, (first_ns, last_ns, count) in enumerate(log):
        if at_ns < first_ns or count + cost > MAX_PERMITS:
            return [*log[:place], (at_ns, at_ns, cost), *log[place:]]
        if at_ns <= last_ns:
            return [*log[:place], (first_ns, last_ns, count + cost), *log[place + 1 :]]
    return [*log, (at_ns, at_ns, cost)]


def _merged(log: list[_Entry], grain: int) -> list[_Entry]:
    """Neighbours merged, oldest first, while their last hit lies within a grain of the group's first."""
    merged = [log[0]]
    for first_ns, last_ns, count in log[1:]:
        group_ns, _, permits = merged[-1]
        if last_ns - group_ns <= grain and permits + count <= MAX_PERMITS:
            merged[-1] = (group_ns, last_ns, permits + count)
        else:
            merged.append((first_ns, last_ns, count))
    return merged
