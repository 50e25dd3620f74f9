"""Permits that a process has taken in blocks, to be spent without asking: plain computing.

A limit `n/period` that is leased is counted in a window that is `max_age` longer: a block counts from the
moment it is taken until a period after the last moment at which it may be spent. So whatever is spent in any
period stands in blocks that all counted at once, when the last of them was taken: they are n at most.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from ratelimit_middleware.algorithms.base import Algorithm, ceil_div
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.store_settings import LeaseSettings
from ratelimit_middleware.stores.base import Check

__all__ = ["Ask", "Blocks"]

_MOST_BLOCKS = 10_000
_MOST_CACHED = 4096
_LONGEST_SHARE = 10  # a block may be as old as a tenth of the period


@dataclass(slots=True)
class _Block:
    """Permits of one bucket.

    `check` is what took them; `left` of its cost are not spent yet; `wanted` are those and what was asked for
    while they were on their way.
    """

    check: Check
    left: int
    wanted: int
    since_ns: int
    until_ns: int
    decision: Decision


@dataclass(slots=True)
class Ask:
    """A request that the store must be asked about.

    Attributes:
        checks: of the request.
        asked: what the store is to be asked, in order.
    """

    checks: Sequence[Check]
    since_ns: int
    asked: list[Check] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    spent: dict[int, _Block] = field(default_factory=dict)
    fetched: set[int] = field(default_factory=set)


class Blocks:
    """The blocks of one process. Not safe in threads by itself.

    A bucket that is asked for again within `max_age` gets a block twice as large as what it wanted before, up
    to `size`; one whose block was not used up gets as much as it has spent. So a bucket that is seldom asked
    for takes single permits, as without leases. While a block is on its way, others ask for themselves.

    Args:
        lease: how large, and how old, blocks may become.
    """

    def __init__(self, lease: LeaseSettings) -> None:
        self._lease = lease
        self._blocks: OrderedDict[str, _Block] = OrderedDict()
        self._fetching: dict[str, int] = {}  # and what else has been asked for meanwhile
        self._due: list[tuple[Check, int]] = []
        # By identity: an algorithm is frozen, and hashing its fields costs as much as its arithmetic.
        self._counted: dict[int, tuple[Algorithm, Algorithm]] = {}

    def counted(self, check: Check) -> Check:
        """The check in the numbers that the store counts in."""
        known = self._counted.get(id(check.algorithm))
        if known is None:
            if len(self._counted) >= _MOST_CACHED:
                self._counted.clear()
            known = check.algorithm, self._longer(check.algorithm)
            self._counted[id(check.algorithm)] = known
        return check if known[1] is check.algorithm else check._replace(algorithm=known[1])

    def begin(self, checks: Sequence[Check], now_ns: int, *, modest: bool = False) -> Ask | list[Decision]:
        """Spend what is here; the decisions if that was all.

        Args:
            checks: of a request.
            now_ns: the present moment, by a clock of this process.
            modest: take no blocks.

        Returns:
            The decisions, or what the store must be asked; then `end` or `abandon` has to follow.
        """
        ask = Ask(checks, now_ns)
        may_lease = not any(check.max_wait_ns != 0 for check in checks)
        may_lease = may_lease and len({check.key for check in checks}) == len(checks)
        for place, check in enumerate(checks):
            counted = self.counted(check)
            if may_lease and counted is not check and not check.shadow:
                block = self._blocks.get(check.key)
                if self._is_spent_from(block, counted, now_ns):
                    ask.spent[place] = block  # type: ignore[assignment]  # there is one
                    continue
                if check.key in self._fetching:
                    self._fetching[check.key] += check.cost
                elif not modest:
                    counted = counted._replace(cost=self._size(block, check.cost, now_ns))
                    self._fetching[check.key] = 0
                    ask.fetched.add(place)
            ask.asked.append(counted)
            ask.places.append(place)
        if ask.asked:
            return ask
        return [self._decision(block, now_ns) for block in ask.spent.values()]

    def end(self, ask: Ask, decisions: Sequence[Decision], now_ns: int) -> list[Decision] | None:
        """What the request hears; None if it has to be asked again, modestly.

        Args:
            ask: what `begin` has returned.
            decisions: the store's, on what was asked.
            now_ns: the present moment.
        """
        answered = zip(ask.places, ask.asked, decisions, strict=True)
        told = {place: (asked, decision) for place, asked, decision in answered}
        is_refused = any(not (decision.allowed or asked.shadow) for asked, decision in told.values())
        if is_refused:
            self.abandon(ask)
        too_large = False
        for place in sorted(ask.fetched):
            asked, decision = told[place]
            spare = asked.cost - ask.checks[place].cost
            if not is_refused:
                self._keep(asked, spare, ask.since_ns, decision)
                told[place] = asked, decision._replace(remaining=decision.remaining + spare)
            elif not decision.allowed and spare:
                too_large = True
        if too_large:
            return None
        here = {place: self._decision(block, now_ns) for place, block in ask.spent.items()}
        return [here[place] if place in here else told[place][1] for place in range(len(ask.checks))]

    def abandon(self, ask: Ask) -> None:
        """Nothing has come of it: what was spent here is here again."""
        for place, block in ask.spent.items():
            cost = ask.checks[place].cost
            if self._blocks.get(block.check.key) is block:
                block.left += cost
            else:
                self._due.append((block.check._replace(cost=cost), block.decision.at_ns))
        for place in ask.fetched:
            self._fetching.pop(ask.checks[place].key, None)

    def give_back(self, check: Check, at_ns: int, now_ns: int) -> Check | None:
        """Put permits back into their block; what the store must be told if that is gone."""
        block = self._blocks.get(check.key)
        counted = self.counted(check)
        if block is None or counted.algorithm != block.check.algorithm:
            return counted
        if block.decision.at_ns != at_ns or now_ns >= block.until_ns:
            return counted
        block.left = min(block.check.cost, block.left + check.cost)
        return None

    def forget(self, key: str) -> None:
        """The bucket is gone: its block counts nowhere any more."""
        self._blocks.pop(key, None)

    def due(self, most: int) -> list[tuple[Check, int]]:
        """What is left of blocks that nobody may spend any more, as `give_back` of a store wants it."""
        due, self._due = self._due[:most], self._due[most:]
        return due

    def empty(self) -> list[tuple[Check, int]]:
        """All that is left, to be given back."""
        self._drop(list(self._blocks))
        return self.due(len(self._due))

    def _longer(self, algorithm: Algorithm) -> Algorithm:
        if not isinstance(algorithm, SlidingWindow):
            return algorithm
        if algorithm.limit < 2 or algorithm.period_ns < _LONGEST_SHARE * self._lease.max_age_ns:
            return algorithm
        longer_us = ceil_div(algorithm.period_ns + self._lease.max_age_ns, 1000)
        return SlidingWindow(algorithm.limit, timedelta(microseconds=longer_us))

    def _is_spent_from(self, block: _Block | None, counted: Check, now_ns: int) -> bool:
        if block is None or now_ns >= block.until_ns or block.left < counted.cost:
            return False
        if now_ns < block.since_ns or block.check.algorithm != counted.algorithm:
            return False
        block.left -= counted.cost
        return True

    def _size(self, block: _Block | None, cost: int, now_ns: int) -> int:
        """How many permits to take, by what became of the block before."""
        size = 1
        if block is not None:
            in_time = now_ns < block.until_ns
            size = 2 * block.wanted if in_time else block.wanted - block.left
        return max(cost, min(size, self._lease.size))

    def _keep(self, asked: Check, left: int, since_ns: int, decision: Decision) -> None:
        wanted = asked.cost + self._fetching.pop(asked.key, 0)
        self._drop([asked.key])
        until_ns = since_ns + self._lease.max_age_ns
        self._blocks[asked.key] = _Block(asked, left, wanted, since_ns, until_ns, decision)
        if len(self._blocks) > _MOST_BLOCKS:
            self._drop([next(iter(self._blocks))])

    def _drop(self, keys: Iterable[str]) -> None:
        for key in keys:
            block = self._blocks.pop(key, None)
            if block is not None and block.left:
                self._due.append((block.check._replace(cost=block.left), block.decision.at_ns))

    def _decision(self, block: _Block, now_ns: int) -> Decision:
        """An admission out of a block."""
        decision = block.decision
        return decision._replace(
            remaining=decision.remaining + block.left,
            reset_after_ns=max(0, decision.reset_after_ns - (now_ns - block.since_ns)),
        )
