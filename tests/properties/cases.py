"""Random cases for the laws: an algorithm, a trace of calls on it, and what is asked in the end."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import AdoptMode, State
from tests.properties.kinds import KINDS, Kind
from tests.properties.laws import START_NS, Hit, check_decision

__all__ = ["Call", "Case", "Reached", "cases"]


class Call(NamedTuple):
    """One call of a trace.

    Attributes:
        after_ns: time since the one before.
        cost: permits wanted.
        max_wait_ns: how long it waits at most.
        from_after_ns: it starts no earlier than so long from its moment on.
        leaves: which booking is given back after it, counted from the last; None = none is.
    """

    after_ns: int
    cost: int = 1
    max_wait_ns: int | None = 0
    from_after_ns: int = 0
    leaves: int | None = None


class Reached(NamedTuple):
    """Where a trace has led: the state, the present moment, and the admissions that were used."""

    state: State
    now_ns: int
    hits: list[Hit]


class Case(NamedTuple):
    """What one example of a law is about; a failing one is kept by writing it down.

    Attributes:
        name: the kind, by its key in `KINDS`.
        algorithm: the algorithm.
        trace: what has happened so far.
        warm_up: so many steps under full load come before.
        cost: permits that are asked for in the end.
        wait_ns: how long that request waits at most.
        moment_ns: a distance in time.
        other: an algorithm to change to.
        mode: how to change.
        factor: what to scale by.
        debt: permits charged after the trace.
    """

    name: str
    algorithm: Any
    trace: tuple[Call, ...] = ()
    warm_up: int = 0
    cost: int = 1
    wait_ns: int = 0
    moment_ns: int = 0
    other: Any = None
    mode: AdoptMode = "keep"
    factor: float = 1
    debt: int = 0

    @property
    def kind(self) -> Kind:
        return KINDS[self.name]

    @property
    def waits(self) -> bool:
        """Whether any admission may lie ahead of its call."""
        return any(call.max_wait_ns != 0 or call.from_after_ns for call in self.trace)

    def reached(self, *, back_ns: int = 0, forgetting: bool = False) -> Reached:
        """Run the trace; what is given back must neither mint nor take.

        Args:
            back_ns: how far the clock steps back in the middle of the trace; the moments of the admissions
                go on, as time itself does.
            forgetting: drop the state whenever that is allowed.
        """
        state, now_ns = self._warmed()
        hits: list[Hit] = []
        lost_ns = 0
        for place, call in enumerate(self.trace):
            now_ns += call.after_ns
            if place == len(self.trace) // 2:
                now_ns, lost_ns = now_ns - back_ns, back_ns
            if forgetting and self.algorithm.forget_at_ns(state) <= now_ns:
                state = self.algorithm.start(now_ns)
            from_ns = now_ns + call.from_after_ns if call.from_after_ns else 0
            decision, state = self.algorithm.take(state, now_ns, call.cost, call.max_wait_ns, from_ns)
            check_decision(decision, now_ns, call.max_wait_ns)
            if decision.allowed:
                assert decision.at_ns >= from_ns
                hits.append(Hit(decision.at_ns + lost_ns, call.cost))
            if call.leaves is not None and hits and not lost_ns:
                state = self._given_back(state, now_ns, hits.pop(-1 - call.leaves % len(hits)))
        if self.debt:
            state = self.algorithm.charge(state, now_ns, self.debt)
        return Reached(state, now_ns, hits)

    def _given_back(self, state: State, now_ns: int, gone: Hit) -> State:
        before = self.algorithm.used(state, now_ns)
        state = self.algorithm.give_back(state, now_ns, gone.cost, gone.at_ns)
        slack = self.kind.slack
        least = before - self.kind.dearest(self.algorithm, gone.cost) - slack
        assert least <= self.algorithm.used(state, now_ns) <= before + slack
        return state

    def _warmed(self) -> tuple[State, int]:
        state, now_ns = self.algorithm.start(START_NS), START_NS
        for _ in range(self.warm_up):
            for _ in range(3):
                remaining = self.algorithm.peek(state, now_ns).remaining
                _, state = self.algorithm.take(state, now_ns, self.kind.load(self.algorithm, remaining), None)
            now_ns += self.kind.beat_ns(self.algorithm)
        return state, now_ns


_CALL_BYTES = 7
# Drawn as one piece: forty calls drawn number by number take longer than all that is done with them.
_raw_traces = {
    calls: st.binary(min_size=size, max_size=size) for calls in range(41) for size in [_CALL_BYTES * calls]
}
_shares = st.integers(0, 255)
_factors = st.one_of(st.sampled_from([1, 0.5, 1 / 3, 2, 2.5]), st.floats(0.001, 1000))
_modes: st.SearchStrategy[AdoptMode] = st.sampled_from(["keep", "scale"])


class _Scales(NamedTuple):
    """What bytes are stretched to: times around the algorithm's own scale, costs around what it admits."""

    short_ns: int
    window_ns: int
    most: int
    edges_ns: list[int]

    def gap_ns(self, kind: int, share: int) -> int:
        if kind < 90:
            return 0 if kind < 50 else share % 4
        if kind < 150:
            return self.short_ns * share // 50 // 65535
        if kind < 200:
            return 3 * self.short_ns * share // 65535
        return (
            self.edges_ns[share % len(self.edges_ns)] if kind < 230 else 3 * self.window_ns * share // 65535
        )

    def cost(self, share: int) -> int:
        return 1 if share < 128 else 1 + (self.most - 1) * (share - 128) // 127

    def wait_ns(self, share: int) -> int | None:
        return None if share > 200 else 3 * self.window_ns * max(0, share - 80) // 120

    def call(self, raw: bytes, *, waiting: bool, leaving: bool) -> Call:
        """Most calls are close together, ask for one permit, and start at once."""
        gap, high, low, cost, wait, later, leaves = raw
        return Call(
            self.gap_ns(gap, high * 256 + low),
            self.cost(cost),
            self.wait_ns(wait) if waiting else 0,
            [1, *self.edges_ns][later % (len(self.edges_ns) + 1)] if waiting and later > 180 else 0,
            [0, 0, 1, 7][leaves % 4] if leaving and leaves > 128 else None,
        )


def _scales(kind: Kind, algorithm: Any) -> _Scales:
    short_ns, window_ns = max(4, kind.scale_ns(algorithm)), max(4, algorithm.window_ns)
    return _Scales(short_ns, window_ns, max(1, kind.largest_cost(algorithm)), kind.gaps(algorithm))


@st.composite
def cases(draw: st.DrawFn, *, waiting: bool = True, names: tuple[str, ...] = tuple(KINDS)) -> Case:
    """A case of any kind; without `waiting` none whose bookings lie ahead."""
    name, other = draw(st.sampled_from(names)), draw(st.sampled_from(tuple(KINDS)))
    kind, flags = KINDS[name], draw(_shares)
    algorithm = draw(kind.algorithms)
    scales = _scales(kind, algorithm)
    waiting, leaving = waiting and flags % 2 == 1, flags % 3 == 1
    raw = draw(_raw_traces[draw(st.integers(0, 40))])
    chunks = (raw[place : place + _CALL_BYTES] for place in range(0, len(raw), _CALL_BYTES))
    return Case(
        name,
        algorithm,
        tuple(scales.call(chunk, waiting=waiting, leaving=leaving) for chunk in chunks),
        [0, 0, 24, 120, 240][flags % 5] if kind.warms else 0,
        scales.cost(draw(_shares)),
        2 * scales.window_ns * max(0, draw(_shares) - 100) // 155,
        scales.gap_ns(draw(_shares), draw(st.integers(0, 65535))),
        draw(KINDS[name if flags % 2 else other].algorithms),
        draw(_modes),
        draw(_factors),
        max(0, draw(_shares) - 128) * min(algorithm.quota, 100) // 60,
    )
