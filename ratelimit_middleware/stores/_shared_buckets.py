"""The buckets of a shared store: what a call does to them within its transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

from ratelimit_middleware.algorithms.base import AdoptMode, Algorithm, State
from ratelimit_middleware.algorithms.concurrency import renewed
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.stores._entries import EntryCodec
from ratelimit_middleware.stores._joint import take_together
from ratelimit_middleware.stores._look import look_at
from ratelimit_middleware.stores._shared_file import FullError
from ratelimit_middleware.stores._shared_place import HEADER
from ratelimit_middleware.stores._shared_room import Room
from ratelimit_middleware.stores._shared_states import pack_state, unpack_state
from ratelimit_middleware.stores.base import Check, Look

if TYPE_CHECKING:
    import lmdb

__all__ = ["SharedBuckets"]

_LONGEST_KEY = 511  # LMDB's

_SWEEP_EVERY = 64
_SWEEP_KEYS = 8
_SWEEP_KEYS_FOR_A_NEW_ONE = 4
_SWEEP_KEYS_WHEN_FULL = 32
_KEYS_TOGETHER = 500


class SharedBuckets:
    """States by key; used by one transaction at a time, which `enter` begins.

    Args:
        max_keys: the most buckets held.
        keep_state: what happens to a bucket whose limit got other numbers.

    Attributes:
        overflowed: checks that shared an overflow bucket because the store was full.
    """

    def __init__(self, max_keys: int, keep_state: AdoptMode) -> None:
        self._max_keys = max_keys
        self._keep_state: AdoptMode = keep_state
        self._codec = EntryCodec()
        self._calls = 0
        self._sweep_from = b""
        self.overflowed = 0

    def use(self, room: Room, now_ns: Callable[[], int]) -> None:
        """What follows happens in another file.

        Args:
            room: what is left in it.
            now_ns: tells the time; called within a transaction, so that no two processes see it go back.
        """
        self._room, self._read_clock = room, now_ns

    def enter(self, transaction: lmdb.Transaction[bytes]) -> None:
        """What follows happens in this transaction, at this moment."""
        self._transaction = transaction
        self._now_ns = self._read_clock()
        self._found: dict[str, tuple[bytes, bytes]] = {}

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        """As `Store.take`."""
        self._calls += 1
        if not self._calls % _SWEEP_EVERY:
            self.sweep(_SWEEP_KEYS)
        if len(checks) == 1:
            return [self._take_one(checks[0])]
        keys = [self._key(check) for check in checks]
        taken = take_together(checks, keys, self._load, self._now_ns)
        for key, algorithm, state in taken.states:
            self._keep(key, algorithm, state)
        return taken.decisions

    def _take_one(self, check: Check) -> Decision:
        """The common case of `take`: a bucket that is there, and no search for a common start time."""
        key, algorithm, _, cost, max_wait_ns, shadow, _ = check
        now_ns, head = self._now_ns, self._codec.head(algorithm)
        packed_key = _packed(key)
        entry = self._transaction.get(packed_key)
        if entry is None:
            key = self._key(check)
            packed_key = _packed(key)
            entry = self._transaction.get(packed_key)
        state = self._load(key, check, now_ns) if entry is None else self._read(entry, head, algorithm)
        decision, state = algorithm.take(state, now_ns, cost, 0 if shadow else max_wait_ns)
        if decision.allowed or entry is not None:
            self._write(packed_key, entry or b"", head + pack_state(state))
        return decision

    def charge(self, check: Check) -> None:
        """As `Store.charge`."""
        key = self._key(check)
        state = self._load(key, check, self._now_ns)
        self._keep(key, check.algorithm, check.algorithm.charge(state, self._now_ns, check.cost))

    def give_back(self, check: Check, at_ns: int) -> None:
        """As `Store.give_back`."""
        key = check.key if self._has(check.key) else check.overflow
        state = self._find(key, check.algorithm)
        if state is not None:
            state = check.algorithm.give_back(state, self._now_ns, check.cost, at_ns)
            self._keep(key, check.algorithm, state)

    def renew(self, check: Check, at_ns: int) -> None:
        """As `Store.renew`."""
        key = self._key(check)
        state = self._load(key, check, self._now_ns)
        state = renewed(check.algorithm, state, self._now_ns, check.cost, at_ns)
        self._keep(key, check.algorithm, state)

    def peek(self, check: Check) -> Decision:
        """As `Store.peek`."""
        state = self._load(check.key, check, self._now_ns)
        return check.algorithm.peek(state, self._now_ns, check.cost)

    def reset(self, key: str) -> bool:
        """As `Store.reset`."""
        return self._transaction.delete(_packed(key))

    def keys(self, beginning: str, after: str | None) -> tuple[list[str], str | None]:
        """Those of the next few keys that begin so and count for something; and the last one looked at.

        Long keys are kept by their hash: nobody can tell them.

        Args:
            beginning: what they begin with.
            after: the last one that has been looked at; None = none.

        Returns:
            The keys, and what to go on after: None if there are no more.
        """
        found: list[str] = []
        first = _plain(beginning)
        behind = first if after is None else _plain(after) + b"\0"
        with self._transaction.cursor() as cursor:
            there = cursor.set_range(behind)
            for _ in range(_KEYS_TOGETHER):
                if not there or not cursor.key().startswith(first):
                    return found, None
                after = cursor.key()[1:].decode("utf-8", "surrogatepass")
                if self._counts(cursor.value()):
                    found.append(after)
                there = cursor.next()
        return found, after

    def _counts(self, entry: bytes) -> bool:
        """Whether dropping it would change anything."""
        known = self._codec.decode(entry)
        return known is not None and known[0].forget_at_ns(known[1]) > self._now_ns

    def look(self, key: str) -> Look | None:
        """As `BrowsableStore.look`."""
        entry = self._transaction.get(_packed(key))
        known = None if entry is None else self._codec.decode(entry)
        if known is None:
            return None
        return look_at(*known, self._now_ns)

    def count(self) -> int:
        """How many buckets there are."""
        return self._transaction.stat()["entries"] - 1

    def sweep(self, most: int = _SWEEP_KEYS_WHEN_FULL) -> int:
        """Look at up to `most` buckets in turn, drop the expired ones; how many were dropped."""
        dropped = 0
        with self._transaction.cursor() as cursor:
            found = cursor.set_range(self._sweep_from or HEADER + HEADER)
            for _ in range(most):
                if not found:
                    break
                known = self._codec.decode(cursor.value())
                if known is None or known[0].forget_at_ns(known[1]) <= self._now_ns:
                    found = cursor.delete() and bool(cursor.key())
                    dropped += 1
                else:
                    found = cursor.next()
            self._sweep_from = cursor.key() if found else b""
        return dropped

    def _has(self, key: str) -> bool:
        return self._transaction.get(_packed(key)) is not None

    def _find(self, key: str, algorithm: Algorithm) -> State | None:
        """The bucket's state in the algorithm's own numbers; None if there is no such bucket."""
        packed_key = _packed(key)
        entry = self._transaction.get(packed_key)
        if entry is None:
            return None
        self._found[key] = packed_key, entry
        return self._read(entry, self._codec.head(algorithm), algorithm)

    def _read(self, entry: bytes, head: bytes, algorithm: Algorithm) -> State:
        """The state in an entry, in the own numbers of an algorithm and its head."""
        if entry.startswith(head):
            return unpack_state(entry, len(head))
        known = self._codec.decode(entry)
        if known is None:
            return algorithm.start(self._now_ns)
        writer, state = known
        if writer == algorithm:
            return state
        return algorithm.adopt(state, self._now_ns, writer, self._keep_state)

    def _load(self, key: str, check: Check, now_ns: int) -> State:
        """The bucket's state, or that of a key never seen.

        While the overflow bucket of the limit still counts, a new bucket begins where that one stands: its
        client may have been counted there, and must not get the limit once more.
        """
        state = self._find(key, check.algorithm)
        if state is None and key != check.overflow:
            state = self._find(check.overflow, check.algorithm)
        return check.algorithm.start(now_ns) if state is None else state

    def _keep(self, key: str, algorithm: Algorithm, state: State) -> None:
        """Write the bucket's state; see `_write`."""
        packed_key, found = self._found.get(key) or (_packed(key), b"")
        self._write(packed_key, found, self._codec.encode(algorithm, state))

    def _write(self, packed_key: bytes, found: bytes, entry: bytes) -> None:
        """Put an entry in the place of the one that was found.

        Raises:
            FullError: it has grown, and the file is full.
        """
        if entry == found:
            return
        if len(entry) > len(found) and not self._room.for_growth(self._transaction):
            raise FullError("the file of the shared store is too small for the buckets in it")
        self._transaction.put(packed_key, entry)

    def _key(self, check: Check) -> str:
        """The key to use: the check's own, or its limit's overflow bucket when there is no room."""
        if self._has(check.key):
            return check.key
        if self._room.for_a_key(self._transaction, self._max_keys):
            self.sweep(_SWEEP_KEYS_FOR_A_NEW_ONE)
            return check.key
        if self.sweep(_SWEEP_KEYS_WHEN_FULL):
            return check.key
        self.overflowed += 1
        return check.overflow


def _packed(key: str) -> bytes:
    """The key as LMDB keeps it: never that of the header, never too long."""
    data = _plain(key)
    return data if len(data) <= _LONGEST_KEY else b"#" + blake2b(data, digest_size=32).digest()


def _plain(key: str) -> bytes:
    return b"=" + key.encode("utf-8", "surrogatepass")
