"""MemoryStore: buckets in this process, exact under any number of threads, bounded.

One lock around plain arithmetic: a call takes microseconds and never waits for anything else, so it may
also be made on an event loop.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence

from ratelimit_middleware.algorithms.base import AdoptMode, Algorithm, State, positive_int
from ratelimit_middleware.algorithms.concurrency import renewed
from ratelimit_middleware.clock import Clock, reading
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.stores._joint import take_together
from ratelimit_middleware.stores._look import look_at
from ratelimit_middleware.stores.base import Check, Look, StoreStats

__all__ = ["MemoryStore"]

logger = logging.getLogger("ratelimit_middleware.stores")

_SWEEP_KEYS = 2
_SWEEP_KEYS_WHEN_FULL = 4
_NEVER_NS = 2**63


class _Bucket:
    """A state, and the numbers that wrote it, so that a reload adopts it when it is next used.

    Whoever has the same numbers puts the next state in place: that costs half of what a new entry does. With
    other numbers it is a new one, so that both are read together without the lock.
    """

    __slots__ = ("algorithm", "state")

    def __init__(self, algorithm: Algorithm, state: State) -> None:
        self.algorithm = algorithm
        self.state = state


class MemoryStore:
    """Buckets of this process.

    Bounded: whoever makes a new bucket looks at two old ones and drops those that have expired (no thread,
    no timer, nothing to do for clients that are known). When `max_keys` are all in use, new clients of a
    limit share one overflow bucket of that limit: a key that still counts for something is never evicted,
    so nobody can push a blocked client out.

    Args:
        max_keys: the most buckets held (besides one overflow bucket a limit, and a few where a request is
            checked against several limits, which ask for room one after the other).
        clock: where time comes from; a step back is absorbed.
        keep_state: what happens to a bucket whose limit got other numbers.

    Raises:
        InvalidLimitError: `max_keys` is not a whole number above 0.
    """

    def __init__(
        self, *, max_keys: int = 100_000, clock: Clock | None = None, keep_state: AdoptMode = "keep"
    ) -> None:
        self._max_keys = positive_int("max_keys", max_keys)
        self._keep_state: AdoptMode = keep_state
        self._read_ns, self._offset_ns = reading(clock)
        # Of the kind that knows its owner, see `take`.
        self._lock = threading.RLock()
        self._acquire, self._release = self._lock.acquire, self._lock.release
        self._buckets: dict[str, _Bucket] = {}
        self._to_sweep: list[str] = []
        # The first moment at which a bucket expires: of those seen in this pass, and of all, after a pass.
        self._soonest_ns = 0
        self._none_before_ns = 0
        self._overflowed = 0

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        """Decide all checks with one start time, all or nothing; see `Store.take`."""
        # A `with` by hand, which costs half as much. The lock is taken inside of the block, so that nothing
        # that a signal raises comes between; if that happens before it is held, it refuses to be released.
        # (Called as `self._acquire()` Python 3.11 would look for a method of that name at each call.)
        acquire, release = self._acquire, self._release
        try:
            acquire()
            now_ns = self._read_ns() + self._offset_ns
            if len(checks) != 1:
                return self._take_together(checks, now_ns)
            # Added to nothing it is a plain tuple, which unpacks without an iterator.
            key, algorithm, _, cost, max_wait_ns, shadow, _ = checks[0] + ()
            bucket = self._buckets.get(key)
            if bucket is None or bucket.algorithm is not algorithm:
                return [self._take_first(checks[0], now_ns)]
            decision, bucket.state = algorithm.take(bucket.state, now_ns, cost, 0 if shadow else max_wait_ns)
            return [decision]
        finally:
            release()

    def _take_first(self, check: Check, now_ns: int) -> Decision:
        """Take from a bucket that is new, or that other numbers have written."""
        key = self._key(check, now_ns)
        state = self._state(key, check, now_ns)
        decision, state = check.algorithm.take(
            state, now_ns, check.cost, 0 if check.shadow else check.max_wait_ns
        )
        if decision.allowed or key in self._buckets:
            self._keep(key, check.algorithm, state)
        return decision

    def _take_together(self, checks: Sequence[Check], now_ns: int) -> list[Decision]:
        keys = [self._key(check, now_ns) for check in checks]
        taken = take_together(checks, keys, self._state, now_ns)
        for kept in taken.states:
            self._keep(*kept)
        return taken.decisions

    def charge(self, check: Check) -> None:
        """Consume without asking."""
        with self._lock:
            now_ns = self._now_ns()
            key = self._key(check, now_ns)
            state = check.algorithm.charge(self._state(key, check, now_ns), now_ns, check.cost)
            self._keep(key, check.algorithm, state)

    def give_back(self, check: Check, at_ns: int) -> None:
        """Undo a booking; nothing if its bucket has been forgotten."""
        with self._lock:
            now_ns = self._now_ns()
            key = check.key if check.key in self._buckets else check.overflow
            if key not in self._buckets:
                return
            state = self._state(key, check, now_ns)
            state = check.algorithm.give_back(state, now_ns, check.cost, at_ns)
            self._buckets[key] = _Bucket(check.algorithm, state)
            self._may_expire_sooner()

    def renew(self, check: Check, at_ns: int) -> None:
        """The lease of a slot begins anew; see `Store.renew`."""
        with self._lock:
            now_ns = self._now_ns()
            key = check.key if check.key in self._buckets else self._key(check, now_ns)
            state = renewed(check.algorithm, self._state(key, check, now_ns), now_ns, check.cost, at_ns)
            self._keep(key, check.algorithm, state)

    def peek(self, check: Check) -> Decision:
        """What a request would hear; nothing changes."""
        with self._lock:
            now_ns = self._now_ns()
            return check.algorithm.peek(self._state(check.key, check, now_ns), now_ns, check.cost)

    def reset(self, key: str) -> bool:
        """Forget a bucket; True if it was there."""
        with self._lock:
            return self._buckets.pop(key, None) is not None

    def scan(self, beginning: str = "") -> Iterator[str]:
        """The keys that count for something, as of now; see `BrowsableStore.scan`."""
        with self._lock:
            now_ns, buckets = self._now_ns(), list(self._buckets.items())
        return (
            key
            for key, bucket in buckets
            if key.startswith(beginning) and bucket.algorithm.forget_at_ns(bucket.state) > now_ns
        )

    def look(self, key: str) -> Look | None:
        """What stands in a bucket; None if it is not there."""
        with self._lock:
            bucket = self._buckets.get(key)
            if bucket is None:
                return None
            return look_at(bucket.algorithm, bucket.state, self._now_ns())

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._buckets.clear()
            self._to_sweep.clear()

    def stats(self) -> StoreStats:
        """A snapshot for metrics."""
        with self._lock:
            return StoreStats(len(self._buckets), self._max_keys, self._overflowed)

    def _now_ns(self) -> int:
        return self._read_ns() + self._offset_ns

    def _state(self, key: str, check: Check, now_ns: int) -> State:
        """The bucket's state in the check's own numbers.

        While the overflow bucket of the limit still counts, a new bucket begins where that one stands: its
        client may have been counted there, and must not get the limit once more.
        """
        bucket = self._buckets.get(key) or self._buckets.get(check.overflow)
        algorithm = check.algorithm
        if bucket is None:
            return algorithm.start(now_ns)
        if bucket.algorithm is algorithm or bucket.algorithm == algorithm:
            return bucket.state
        self._may_expire_sooner()
        return algorithm.adopt(bucket.state, now_ns, bucket.algorithm, self._keep_state)

    def _key(self, check: Check, now_ns: int) -> str:
        """The key to use: the check's own, or its limit's overflow bucket when there is no room."""
        if check.key in self._buckets:
            return check.key
        is_full = len(self._buckets) >= self._max_keys
        dropped = self._sweep(now_ns, _SWEEP_KEYS_WHEN_FULL if is_full else _SWEEP_KEYS)
        if dropped or not is_full:
            return check.key
        if not self._overflowed:
            logger.warning(
                "memory store is full: all of its %d keys are in use; new clients of a limit share one "
                "bucket until keys expire (max_keys can be raised)",
                self._max_keys,
            )
        self._overflowed += 1
        return check.overflow

    def _keep(self, key: str, algorithm: Algorithm, state: State) -> None:
        """Put what has become of a bucket that may be new."""
        if key not in self._buckets:
            self._may_expire_sooner()
        self._buckets[key] = _Bucket(algorithm, state)

    def _sweep(self, now_ns: int, most: int) -> int:
        """Look at up to `most` keys in turn, drop the expired ones; how many were dropped.

        After a pass over all of them that has found none, there is nothing to look for until the first of
        them expires: a flood of new clients that meets a full store has a cheap refusal.
        """
        if now_ns < self._none_before_ns:
            return 0
        buckets, to_sweep, soonest_ns = self._buckets, self._to_sweep, self._soonest_ns
        if not to_sweep:
            to_sweep = self._to_sweep = list(reversed(buckets))  # taken from the end, the oldest first
            soonest_ns = _NEVER_NS
        dropped = 0
        for _ in range(min(most, len(to_sweep))):
            key = to_sweep.pop()
            bucket = buckets.get(key)
            if bucket is None:
                continue
            forget_at_ns = bucket.algorithm.forget_at_ns(bucket.state)
            if forget_at_ns <= now_ns:
                del buckets[key]
                dropped += 1
                if dropped == _SWEEP_KEYS:  # one makes room for the new bucket, and one for another
                    break
            elif forget_at_ns < soonest_ns:
                soonest_ns = forget_at_ns
        self._soonest_ns = soonest_ns
        if not to_sweep:
            self._none_before_ns = soonest_ns
        return dropped

    def _may_expire_sooner(self) -> None:
        """A bucket has been made or changed, so what is known of the first one to expire holds no more."""
        self._soonest_ns = self._none_before_ns = 0
