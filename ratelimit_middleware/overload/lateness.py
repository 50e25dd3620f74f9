"""How late an event loop is, from the moments at which it did what was due."""

from __future__ import annotations

from ratelimit_middleware.clock import NS_PER_SECOND

__all__ = ["Lateness"]

_LASTS_NS = NS_PER_SECOND


class Lateness:
    """The smaller of the last two delays: one long step is no overload, being late again is.

    A delay that is a second old counts no more. What is due and has not come counts as far as it is late.
    """

    __slots__ = ("_before", "_last", "_seen_ns")

    def __init__(self) -> None:
        self._before = self._last = 0
        self._seen_ns = 0

    def came(self, now_ns: int, due_ns: int) -> None:
        """What was due has come."""
        self._before = self._last if now_ns - self._seen_ns <= _LASTS_NS else 0
        self._last, self._seen_ns = max(0, now_ns - due_ns), now_ns

    def at(self, now_ns: int, due_ns: int | None = None) -> int:
        """How late the loop is, ns.

        Args:
            now_ns: the present moment.
            due_ns: when the next thing is due that has not come; None = nothing is.
        """
        overdue_ns = 0 if due_ns is None else max(0, now_ns - due_ns)
        if now_ns - self._seen_ns > _LASTS_NS:
            return 0
        return max(min(self._before, self._last), min(self._last, overdue_ns))
