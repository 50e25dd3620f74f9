"""What every store promises, and the `Check` it is asked."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.store_settings import OnError

__all__ = [
    "AsyncStore",
    "BrowsableStore",
    "Check",
    "ChoosyStore",
    "Look",
    "SpreadStore",
    "Store",
    "StoreStats",
]


class Check(NamedTuple):
    """One limit x one client x one cost.

    Attributes:
        key: the bucket's key, built by `identity`: injective, bounded in length, secrets hashed.
        algorithm: the limit's arithmetic.
        overflow: key of the bucket that new clients of this limit share when the store is full.
        cost: permits wanted.
        max_wait_ns: how long the request may be delayed; 0 = it must be admitted at the start time.
        shadow: decided on its own; never waits, never affects the others.
        on_error: what a guard does when the store does not answer; None = what it does for all. Stores
            themselves need not look at it.
    """

    key: str
    algorithm: Algorithm
    overflow: str
    cost: int = 1
    max_wait_ns: int | None = 0
    shadow: bool = False
    on_error: OnError | None = None


class Look(NamedTuple):
    """What stands in a bucket.

    Attributes:
        algorithm: the numbers that wrote it.
        decision: what a request for one permit would hear now, in those numbers; but `remaining` counts what
            is there before it.
    """

    algorithm: Algorithm
    decision: Decision


class StoreStats(NamedTuple):
    """A snapshot of a store.

    Attributes:
        keys: buckets held now.
        max_keys: the most it holds.
        overflowed: checks that shared an overflow bucket because the store was full.
    """

    keys: int
    max_keys: int
    overflowed: int


@runtime_checkable
class Store(Protocol):
    """A store called from threads. Each method is one atomic step on the store's own clock."""

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        """Decide all checks with one start time, all or nothing; one decision a check, in order.

        The start time is the earliest moment at which every enforcing check admits, within the
        smallest `max_wait_ns` of the delaying ones; a check with `max_wait_ns=0` must admit at it. If
        there is none, nothing is consumed; the checks that would have admitted by themselves say so
        with `allowed=True` and their untouched numbers. Shadow checks are decided apart.

        Raises:
            StoreError: the store cannot answer.
        """

    def charge(self, check: Check) -> None:
        """Consume `check.cost` permits without asking."""

    def give_back(self, check: Check, at_ns: int) -> None:
        """Undo a booking of `check.cost` permits for `at_ns` that was not used."""

    def renew(self, check: Check, at_ns: int) -> None:
        """The lease of a slot booked for `at_ns` begins anew; only for checks of `Concurrency`."""

    def peek(self, check: Check) -> Decision:
        """What a request would hear; nothing changes."""

    def reset(self, key: str) -> bool:
        """Forget a bucket; True if it was there."""

    def close(self) -> None:
        """Let go of everything held; calling it twice is fine."""

    def stats(self) -> StoreStats:
        """A snapshot for metrics."""


@runtime_checkable
class AsyncStore(Protocol):
    """The same promises for a store that must be awaited.

    A call that is cancelled ends soon and leaves no task behind. What it has taken by then is given back, or
    stays taken.
    """

    async def take_async(self, checks: Sequence[Check]) -> list[Decision]:
        """As `Store.take`."""

    async def charge_async(self, check: Check) -> None:
        """As `Store.charge`."""

    async def give_back_async(self, check: Check, at_ns: int) -> None:
        """As `Store.give_back`."""

    async def renew_async(self, check: Check, at_ns: int) -> None:
        """As `Store.renew`."""

    async def peek_async(self, check: Check) -> Decision:
        """As `Store.peek`."""

    async def reset_async(self, key: str) -> bool:
        """As `Store.reset`."""

    async def close_async(self) -> None:
        """As `Store.close`."""


@runtime_checkable
class ChoosyStore(Protocol):
    """A store that cannot count every kind of limit, and says so before the first request."""

    def accept(self, algorithm: Algorithm) -> None:
        """Return if limits of these numbers can be counted.

        Raises:
            StoreError: they cannot.
        """


@runtime_checkable
class SpreadStore(Protocol):
    """A store on several servers, some of which may be gone while the others answer."""

    def places(self, keys: Iterable[str]) -> Collection[Hashable]:
        """What stands for the servers that count these buckets, each of them once; never empty."""


@runtime_checkable
class BrowsableStore(Protocol):
    """A store that can tell which buckets it has."""

    def scan(self, beginning: str = "") -> Iterator[str]:
        """The keys that count for something, as `Check.key` has them, in any order.

        Args:
            beginning: only keys that begin so, such as `"login|"`: all clients of one limit.
        """

    def look(self, key: str) -> Look | None:
        """What stands in a bucket; None if it is not there.

        Raises:
            UnreadableBucketError: something stands there that cannot be read.
        """

    def reset(self, key: str) -> bool:
        """As `Store.reset`."""
