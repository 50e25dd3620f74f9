"""What Sentinel's warm-up knows of the past: passes per half second, and the log of one window.

Plain functions on a plain tuple `(half, n0, n1, n2, n3, in_log, log)`: the index of the latest half
second (aligned to the epoch), the passes in it and in the three before, the passes in the log, and the
log itself: moments and counts in turn, `(at_ns, n, at_ns, n, ...)`, oldest first, one entry a
millisecond. Sentinel reads its "passes per second" from two half seconds, and "the second before" from
the other ones; the log is ours: it keeps the bound that two half seconds do not.
"""

from __future__ import annotations

from typing import TypeAlias

from ratelimit_middleware.algorithms.base import ceil_div

__all__ = [
    "HALF_NS",
    "Log",
    "Passes",
    "booked",
    "empty",
    "pruned",
    "room_at_ns",
    "scaled",
    "second_before",
    "shifted",
    "unbooked",
]

Log: TypeAlias = tuple[int, ...]
Passes: TypeAlias = tuple[int, int, int, int, int, int, Log]

HALF_NS = 500_000_000
_MS_NS = 1_000_000
_MAX_ENTRIES = 1001


def empty(now_ns: int) -> Passes:
    """Nothing has passed."""
    return (now_ns // HALF_NS, 0, 0, 0, 0, 0, ())


def shifted(passes: Passes, half: int) -> Passes:
    """The half seconds as seen from `half`; a moment before the latest changes nothing."""
    ahead = half - passes[0]
    if ahead <= 0:
        return passes
    n0, n1, n2, n3 = ((0,) * min(ahead, 4) + passes[1:5])[:4]
    return (half, n0, n1, n2, n3, passes[5], passes[6])


def second_before(passes: Passes) -> int:
    """Passes in the calendar second before the one of the latest half second."""
    half, _, n1, n2, n3, _, _ = passes
    return n2 + n3 if half % 2 else n1 + n2


def pruned(passes: Passes, horizon_ns: int) -> Passes:
    """Without the log entries of `horizon_ns` and before."""
    in_log, log = passes[5:]
    gone = 0
    while gone < len(log) and log[gone] <= horizon_ns:
        in_log -= log[gone + 1]
        gone += 2
    return (*passes[:5], in_log, log[gone:]) if gone else passes


def room_at_ns(passes: Passes, excess: int, window_ns: int) -> int:
    """The moment at which the oldest `excess` permits of the log are a window old."""
    if excess <= 0:
        return 0
    log, at_ns = passes[6], 0
    for place in range(0, len(log), 2):
        at_ns = log[place]
        excess -= log[place + 1]
        if excess <= 0:
            break
    return at_ns + window_ns


def booked(passes: Passes, at_ns: int, cost: int) -> Passes:
    """With `cost` permits that pass at `at_ns`; a moment older than the half seconds counts in the log."""
    passes = shifted(passes, at_ns // HALF_NS)
    counts, ago = list(passes[:5]), passes[0] - at_ns // HALF_NS
    if ago < 4:
        counts[1 + ago] += cost
    half, n0, n1, n2, n3 = counts
    return (half, n0, n1, n2, n3, passes[5] + cost, _logged(passes[6], at_ns, cost))


def _logged(log: Log, at_ns: int, cost: int) -> Log:
    """The log with one more hit; passes of one millisecond share an entry that leaves with the last."""
    place = len(log)
    while place and log[place - 2] // _MS_NS > at_ns // _MS_NS:
        place -= 2
    if place and log[place - 2] // _MS_NS == at_ns // _MS_NS:
        entry = (max(log[place - 2], at_ns), log[place - 1] + cost)
        return log[: place - 2] + entry + log[place:]
    log = (*log[:place], at_ns, cost, *log[place:])
    if len(log) > 2 * _MAX_ENTRIES:  # only bookings far ahead: the two oldest leave together, late
        log = (log[2], log[1] + log[3], *log[4:])
    return log


def unbooked(passes: Passes, at_ns: int, cost: int) -> Passes:
    """Without `cost` of the permits booked for `at_ns`; unchanged if they are not in the log."""
    log = passes[6]
    for place in range(0, len(log), 2):
        if log[place] // _MS_NS == at_ns // _MS_NS:
            back = min(cost, log[place + 1])
            rest = (log[place], log[place + 1] - back) if back < log[place + 1] else ()
            counts, ago = list(passes[:5]), passes[0] - at_ns // HALF_NS
            if 0 <= ago < 4:
                counts[1 + ago] -= min(back, counts[1 + ago])
            half, n0, n1, n2, n3 = counts
            return (half, n0, n1, n2, n3, passes[5] - back, log[:place] + rest + log[place + 2 :])
    return passes


def scaled(passes: Passes, times: int, divisor: int) -> Passes:
    """The log's counts times `times / divisor`, so that the newest k passes together are rounded up once.

    What rounding adds must not warm the bucket: the half seconds start anew with the next second, and
    until then moments are decided by the log.
    """
    half, log = passes[0], passes[6]
    entries: list[tuple[int, int]] = []
    seen = given = 0
    for place in range(len(log) - 2, -2, -2):
        seen += log[place + 1]
        count = ceil_div(seen * times, divisor) - given
        given += count
        if count:
            entries.append((log[place], count))
    flat = tuple(number for entry in reversed(entries) for number in entry)
    return ((half // 2 + 1) * 2, 0, 0, 0, 0, given, flat)
