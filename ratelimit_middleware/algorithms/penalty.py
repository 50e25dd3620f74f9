"""Penalty: who is refused again and again is blocked for a while, longer each time.

It counts refusals, not requests, so it stands beside the limits of a rule: `Penalty` lets a request pass
unless its client is blocked, and `Strike`, which works on the same state, counts a refusal. Both are taken
with the other limits of a request, so that all workers of a store agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from ratelimit_middleware.algorithms.base import AdoptMode, Algorithm, State, granted, positive_int, refused
from ratelimit_middleware.clock import to_ns
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["Penalty", "Strike"]

_Self = TypeVar("_Self", bound="_Blocking")
_CLEAN: State = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class _Blocking:
    """What both share: the numbers and the state.

    State: `(refusals, level, until_ns, last_ns)`: refusals in a row, blocks so far, the end of the last one,
    and the moment of the last refusal that counted.
    """

    after: int
    blocks: tuple[float | timedelta, ...] = field(compare=False)
    forget_after: float | timedelta | None = field(default=None, compare=False)
    blocks_ns: tuple[int, ...] = field(init=False, repr=False)
    forget_after_ns: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        object.__setattr__(self, "after", positive_int("after", self.after, 10**9))
        blocks_ns = tuple(to_ns(block, "block") for block in self.blocks)
        if not blocks_ns or not blocks_ns[0] or list(blocks_ns) != sorted(blocks_ns):
            expected = "spans of time above 0, none shorter than the one before"
            raise InvalidLimitError("block", self.blocks, expected)
        object.__setattr__(self, "blocks_ns", blocks_ns)
        quiet_ns = blocks_ns[-1] if self.forget_after is None else to_ns(self.forget_after, "forget_after")
        if not quiet_ns:
            raise InvalidLimitError("forget_after", self.forget_after, "a span of time above 0")
        object.__setattr__(self, "forget_after_ns", quiet_ns)

    @property
    def quota(self) -> int:
        """Refusals in a row that are borne."""
        return self.after

    @property
    def window_ns(self) -> int:
        """The first block."""
        return self.blocks_ns[0]

    @property
    def smallest_full_take(self) -> int:
        """Costs do not matter."""
        return 10**12

    def start(self, now_ns: int) -> State:  # noqa: ARG002 - no clock in an empty state
        """Nobody was refused."""
        return _CLEAN

    def step(self, state: State, now_ns: int) -> State:
        """After a quiet time all is forgotten."""
        return _CLEAN if now_ns >= self.forget_at_ns(state) else state

    def charge(self, state: State, now_ns: int, cost: int) -> State:  # noqa: ARG002 - one shape for all
        """Nothing: what is counted is no cost."""
        return self.step(state, now_ns)

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:  # noqa: ARG002
        """Nothing."""
        return self.step(state, now_ns)

    def scaled(self: _Self, factor: float) -> _Self:  # noqa: ARG002
        """Itself: neither refusals nor blocks are amounts of a limit."""
        return self

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Refusals and blocks stay, whatever the numbers; a block that runs keeps its end."""
        return self.step(state, now_ns) if isinstance(old, _Blocking) and mode != "reset" else _CLEAN

    def used(self, state: State, now_ns: int) -> int:
        """Refusals in a row."""
        return int(self.step(state, now_ns)[0])

    def forget_at_ns(self, state: State) -> int:
        """When the quiet time is over."""
        return max(state[2], state[3]) + self.forget_after_ns if state[0] or state[1] else 0


@dataclass(frozen=True, slots=True)
class Penalty(_Blocking):
    """Admits a request unless its client is blocked; who is admitted has no refusals in a row.

    Args:
        after: refusals in a row after which a client is blocked.
        blocks: seconds, or `timedelta`: the first block, the second, and so on; the last one stays.
        forget_after: a time without refusals, from the end of the last block, after which the next block is
            the first again; refusals further apart are not in a row. By default the longest block.

    Raises:
        InvalidLimitError: a number out of its range, or blocks that become shorter.
    """

    def take(
        self,
        state: State,
        now_ns: int,
        cost: int = 1,  # noqa: ARG002 - costs do not matter
        max_wait_ns: int | None = 0,
        from_ns: int = 0,
    ) -> tuple[Decision, State]:
        """Refuse while the block lasts: the wait is what is left of it."""
        state = self.step(state, now_ns)
        _, level, until_ns, last_ns = state
        at_ns = max(now_ns, from_ns, until_ns)
        if max_wait_ns is not None and at_ns - now_ns > max_wait_ns:
            wait_ns = at_ns - now_ns - max_wait_ns
            return refused(now_ns, wait_ns, self.after, 0, wait_ns), state
        kept = (0, level, until_ns, last_ns) if level else _CLEAN
        return granted(at_ns, now_ns, self.after, self.after, 0), kept

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    @property
    def strike(self) -> Strike:
        """What counts a refusal."""
        return Strike(self.after, self.blocks, self.forget_after)


@dataclass(frozen=True, slots=True)
class Strike(_Blocking):
    """Counts a refusal; taken, it always "admits". The arguments are those of `Penalty`.

    The decision's `reset_after_ns` is what is left of the block that the client is in now, 0 if it is in
    none; `remaining` is how many more refusals are borne. While a block lasts nothing is counted: it ends
    when its client has been told that it ends.
    """

    @property
    def penalty(self) -> Penalty:
        """What blocks."""
        return Penalty(self.after, self.blocks, self.forget_after)

    def take(
        self,
        state: State,
        now_ns: int,
        cost: int = 1,  # noqa: ARG002 - a refusal counts once
        max_wait_ns: int | None = 0,  # noqa: ARG002 - there is nothing to wait for
        from_ns: int = 0,  # noqa: ARG002
    ) -> tuple[Decision, State]:
        """Count, and begin a block if there were enough."""
        refusals, level, until_ns, last_ns = self.step(state, now_ns)
        if now_ns >= until_ns:
            refusals, last_ns = refusals + 1, now_ns
            if refusals >= self.after:
                until_ns = now_ns + self.blocks_ns[min(level, len(self.blocks_ns) - 1)]
                refusals, level = 0, level + 1
        left = max(0, self.after - refusals)
        state = (refusals, level, until_ns, last_ns)
        return granted(now_ns, now_ns, self.after, left, max(0, until_ns - now_ns)), state

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a refusal would tell now."""
        return self.take(state, now_ns, cost)[0]
