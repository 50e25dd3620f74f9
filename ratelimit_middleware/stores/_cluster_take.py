"""JointTake: one request whose buckets are in several slots of a cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._cluster_talk import SplitSlotError
from ratelimit_middleware.stores._joint import untouched
from ratelimit_middleware.stores._redis_plan import Ask, bookings
from ratelimit_middleware.stores._redis_port import US_NS
from ratelimit_middleware.stores.base import Check

__all__ = ["Answer", "JointTake", "Part"]

_MOST_ROUNDS = 8

Answer = list[Decision] | Exception


class Part(NamedTuple):
    """The checks of a request in one slot.

    Attributes:
        ask: what is asked there.
        places: where the checks stand in the request.
        is_alone: it shares no call with others of its slot, which is moving.
    """

    ask: Ask
    places: tuple[int, ...]
    is_alone: bool = False


class JointTake:
    """Asks every slot, also after a refusal; gives back what others have granted if one refuses.

    A request that waits starts at one moment: a slot that would let it start sooner than another one gives
    its booking back and books again, for that wait or more. Each server counts on its own clock.

    As long as there are `pending` parts: undo what is in `excess`, ask for the parts and call `heard`. At the
    end undo `excess` again; then `decisions` are to be had.

    Args:
        checks: of the request.
        slot_of: the slot of a bucket's key.

    Attributes:
        pending: parts to be asked for now, together.
        granted: what has been booked so far and stands: asks and their decisions.
        excess: bookings to be given back.
    """

    def __init__(self, checks: Sequence[Check], slot_of: Callable[[str], Hashable]) -> None:
        self._checks = checks
        self._decided: list[Decision | None] = [None] * len(checks)
        self._error: Exception | None = None
        self._rounds = 0
        self.granted: list[tuple[Part, list[Decision]]] = []
        self.excess: list[tuple[Check, int]] = []
        slots = [slot_of(check.key) for check in checks]
        self.pending = _parts(_patient(checks) if len(set(slots)) > 1 else checks, slots)

    def heard(self, answers: Iterable[Answer]) -> None:
        """Take the answers to what was pending: decisions, or an error for a part."""
        parts, self.pending, self.excess = self.pending, [], []
        for part, answer in zip(parts, answers, strict=True):
            if isinstance(answer, SplitSlotError) and not part.is_alone:
                self.pending += _split(part)
            elif isinstance(answer, Exception):
                self._error = self._error or answer
            else:
                self._take_in(part, answer)
        if not self.pending:
            self._look_at_all()

    def decisions(self) -> list[Decision]:
        """The decisions of the request, in the order of its checks.

        Raises:
            StoreError: one of the parts has no answer.
        """
        if self._error:
            raise self._error
        return [decision for decision in self._decided if decision is not None]

    def _take_in(self, part: Part, decisions: list[Decision]) -> None:
        for place, decision in zip(part.places, decisions, strict=True):
            self._decided[place] = decision
        if bookings(part.ask.checks, decisions):
            self.granted.append((part, decisions))

    def _look_at_all(self) -> None:
        """What follows once every part has been heard."""
        if self._error:
            self._release(shadows=True)
        elif any(not d.allowed for check, d in self._pairs() if not check.shadow):
            self._refuse()
        else:
            self._start_together()

    def _pairs(self) -> list[tuple[Check, Decision]]:
        return [(c, d) for c, d in zip(self._checks, self._decided, strict=True) if d is not None]

    def _release(self, *, shadows: bool) -> None:
        """Give everything back that has been granted."""
        for part, decisions in self.granted:
            self.excess += bookings(part.ask.checks, decisions, shadows=shadows)
        self.granted.clear()

    def _refuse(self) -> None:
        for part, decisions in self.granted:
            for place, decision in zip(part.places, decisions, strict=True):
                check = self._checks[place]
                if not check.shadow and decision.allowed:
                    self._decided[place] = untouched(decision, check, decision.at_ns)
        self._release(shadows=False)

    def _start_together(self) -> None:
        """Ask those again that would start sooner than the others."""
        wait_ns = max((d.wait_ns for check, d in self._pairs() if not check.shadow), default=0)
        early = [(part, decisions) for part, decisions in self.granted if _is_early(part, decisions, wait_ns)]
        if not early:
            return
        self._rounds += 1
        if self._rounds > _MOST_ROUNDS:
            self._error = StoreError("no moment was found that suits the limits of a request in all slots")
            self._release(shadows=True)
            return
        for part, decisions in early:
            self.granted.remove((part, decisions))
            self.excess += bookings(part.ask.checks, decisions, shadows=False)
            self.pending.append(_later(part, wait_ns // US_NS))


def _patient(checks: Sequence[Check]) -> list[Check]:
    """The checks with the patience of the least patient one that waits."""
    waits = [check.max_wait_ns for check in checks if not check.shadow and check.max_wait_ns]
    if not waits:
        return list(checks)
    least_ns = min(waits)
    return [
        check._replace(max_wait_ns=least_ns) if not check.shadow and check.max_wait_ns != 0 else check
        for check in checks
    ]


def _parts(checks: Sequence[Check], slots: Sequence[Hashable]) -> list[Part]:
    places: dict[Hashable, list[int]] = {}
    for place, slot in enumerate(slots):
        places.setdefault(slot, []).append(place)
    return [Part(Ask([checks[place] for place in group]), tuple(group)) for group in places.values()]


def _split(part: Part) -> list[Part]:
    """A part for each bucket."""
    checks = part.ask.checks
    parts = _parts(checks, [check.key for check in checks])
    return [
        Part(
            Ask(one.ask.checks, part.ask.wait_us),
            tuple(part.places[place] for place in one.places),
            is_alone=True,
        )
        for one in parts
    ]


def _is_early(part: Part, decisions: Sequence[Decision], wait_ns: int) -> bool:
    pairs = zip(part.ask.checks, decisions, strict=True)
    return any(decision.wait_ns < wait_ns for check, decision in pairs if not check.shadow)


def _later(part: Part, wait_us: int) -> Part:
    """The part without its shadow checks, which never wait and stay as they are."""
    kept = [i for i, check in enumerate(part.ask.checks) if not check.shadow]
    checks = [part.ask.checks[i] for i in kept]
    return part._replace(ask=Ask(checks, wait_us), places=tuple(part.places[i] for i in kept))
