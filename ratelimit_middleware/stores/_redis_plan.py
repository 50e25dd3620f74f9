"""Calls of the script and what they answer: pure, for threads and event loops alike."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

from ratelimit_middleware.algorithms.base import AdoptMode, Algorithm, State
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import StoreError, UnreadableBucketError
from ratelimit_middleware.stores._entries import EntryCodec
from ratelimit_middleware.stores._joint import untouched
from ratelimit_middleware.stores._look import look_at
from ratelimit_middleware.stores._redis_decision import decision_of
from ratelimit_middleware.stores._redis_keys import Keys
from ratelimit_middleware.stores._redis_port import US_NS, doubles, exact, whole_us
from ratelimit_middleware.stores._redis_ports import port_of
from ratelimit_middleware.stores.base import Check, Look

__all__ = ["Action", "Ask", "Planner", "bookings", "moment", "whole_time_us"]

_FOREIGN, _CALENDAR, _UNREADABLE = -1, -2, -3
_MOST_CACHED = 4096
_MOST_CHECKS = 255  # their number goes over as a byte
_MAX_ADOPTIONS = 16
_NUMBERS_SIZE = 8 * 8
_WROTE_SIZE = 8  # the moment an entry was written

_Reply = Sequence[Any]


class _Adopted(NamedTuple):
    """An entry with other numbers, and the state in the check's own."""

    entry: bytes
    state: bytes


class _Numbers(NamedTuple):
    """What goes to the script about a limit and a cost, and when it may be used (us)."""

    algorithm: Algorithm
    packed: bytes
    kind: bytes
    head: bytes
    since_us: float
    until_us: float


class Action(NamedTuple):
    """The arguments of a call: the buckets, and what comes after them."""

    keys: list[bytes]
    arguments: list[bytes]

    def words(self) -> list[bytes | int]:
        """As EVALSHA wants them, behind the script's name."""
        return [len(self.keys), *self.keys, *self.arguments]


class Ask:
    """A request's checks on their way: what has been adopted for them so far.

    Args:
        checks: what is asked, in order.
        wait_us: the request does not start sooner than in this time.
    """

    __slots__ = ("adopted", "checks", "rounds", "wait_us")

    def __init__(self, checks: Sequence[Check], wait_us: int = 0) -> None:
        self.checks = checks
        self.wait_us = wait_us
        self.adopted: dict[int, _Adopted] = {}
        self.rounds = 0


class Planner:
    """Turns checks into calls of the script and its replies into decisions.

    Args:
        keys: what buckets are called in Redis.
        keep_state: what happens to a bucket whose limit got other numbers.
    """

    def __init__(self, keys: Keys, keep_state: AdoptMode) -> None:
        self.keys = keys
        self._key = keys.key
        self._keep_state: AdoptMode = keep_state
        self._codec = EntryCodec()
        # By identity: an algorithm is frozen, and hashing its fields costs more than the look-up.
        self._numbers: dict[tuple[int, int], _Numbers] = {}
        self._seen_us = 0  # the server's time when it last answered

    def take(self, asks: Sequence[Ask], time_us: int | None) -> Action:
        """One call that takes for all, each all or nothing on its own; one that starts later goes alone."""
        sizes = bytes(len(ask.checks) for ask in asks)
        if asks[0].wait_us:
            return self.call("take_later", asks, sizes + doubles([asks[0].wait_us]), time_us)
        return self.call("take", asks, sizes, time_us)

    def look(self, entry: bytes, now_us: int) -> Look:
        """What an entry says.

        Raises:
            UnreadableBucketError: it cannot be read, or holds numbers that cannot be.
        """
        writer, state = self._read(entry)
        if writer is None:
            raise UnreadableBucketError("what stands in the place of a bucket is no entry")
        try:
            return look_at(writer, state, now_us * US_NS)
        except Exception as error:
            raise UnreadableBucketError("a bucket holds numbers that cannot be") from error

    def ask(self, checks: Sequence[Check]) -> Ask:
        """Checks to be asked about; whatever is wrong with them is said here.

        Raises:
            StoreError: an algorithm has no script, or its numbers are too large for one; or there are more
                than 255 checks.
        """
        if len(checks) > _MOST_CHECKS:
            raise StoreError(f"{len(checks)} checks of one request: Redis is asked {_MOST_CHECKS} at most")
        for check in checks:
            self._numbers_of(check.algorithm, check.cost, self._seen_us)
        return Ask(checks)

    def call(self, name: str, asks: Sequence[Ask], detail: bytes, time_us: int | None) -> Action:
        """The call that does `name` for the asks.

        Args:
            name: `take`, `peek`, `charge`, `give_back` or `renew`.
            asks: for whom; only `take` knows more than one.
            detail: what `name` needs to know.
            time_us: a time for tests; None = the server's.
        """
        places: dict[bytes, int] = {}
        about_us = self._seen_us if time_us is None else time_us
        arguments = [b"" if time_us is None else doubles([time_us]), name.encode(), detail]
        for ask in asks:
            for index, check in enumerate(ask.checks):
                place = places.setdefault(self._key(check.key), len(places) + 1)
                arguments += self._arguments(check, place, ask.adopted.get(index), about_us)
        return Action(list(places), arguments)

    def _arguments(self, check: Check, place: int, adopted: _Adopted | None, about_us: int) -> list[bytes]:
        algorithm, wait_ns = check.algorithm, check.max_wait_ns
        max_wait_us = inf if wait_ns is None else wait_ns // US_NS
        if wait_ns and not max_wait_us:
            max_wait_us = 0.5  # less than a microsecond is still a wait
        common = doubles((place, check.cost, max_wait_us, check.shadow, adopted is not None))
        known = self._numbers_of(algorithm, check.cost, about_us)
        return [common + known.packed, known.kind, known.head, *(adopted or ())]

    def _numbers_of(self, algorithm: Algorithm, cost: int, about_us: int) -> _Numbers:
        known = self._numbers.get((id(algorithm), cost))
        if known is None or not known.since_us <= about_us < known.until_us:
            if len(self._numbers) >= _MOST_CACHED:
                self._numbers.clear()
            known = self._numbers[id(algorithm), cost] = self._worked_out(algorithm, cost, about_us)
        return known

    def _worked_out(self, algorithm: Algorithm, cost: int, about_us: int) -> _Numbers:
        port = port_of(algorithm)
        numbers = port.numbers(algorithm, cost, about_us)
        packed = exact(algorithm, numbers).ljust(_NUMBERS_SIZE, b"\0")
        head = self._codec.head(port.writer(algorithm))
        return _Numbers(algorithm, packed, port.kind.encode(), head, *port.holds(numbers))

    def is_settled(self, ask: Ask, reply: _Reply, now_us: int) -> bool:
        """Whether the reply is an answer; if not, what it says is heeded and the ask goes out again.

        Raises:
            StoreError: others keep changing the bucket.
            UnreadableBucketError: what stands under the key is no entry.
        """
        self._seen_us = now_us
        if reply[0] == _UNREADABLE:
            raise _unreadable(ask, reply[1].decode("utf-8", "replace"))
        if reply[0] not in (_FOREIGN, _CALENDAR):
            return True
        ask.rounds += 1
        if ask.rounds > _MAX_ADOPTIONS:
            raise StoreError("a bucket was changed by others with other numbers time and again")
        for place, entry in zip(reply[1::2], reply[2::2], strict=True):
            ask.adopted[place - 1] = self._adopted(ask.checks[place - 1].algorithm, entry, now_us)
        return False

    def _adopted(self, algorithm: Algorithm, entry: bytes, now_us: int) -> _Adopted:
        """An entry in the algorithm's own numbers; one that cannot be read counts as none."""
        now_ns = now_us * US_NS
        encode = port_of(algorithm).encode
        writer, found = self._read(entry)
        if writer is None:
            packed = encode(algorithm, algorithm.start(now_ns))
        else:
            own = writer == algorithm
            try:
                state = found if own else algorithm.adopt(found, now_ns, writer, self._keep_state)
                packed = encode(algorithm, state)
            except Exception:  # noqa: BLE001 - whatever numbers that cannot be lead to
                packed = encode(algorithm, algorithm.start(now_ns))
        return _Adopted(entry, doubles([now_us]) + packed)

    def _read(self, entry: bytes) -> tuple[Algorithm | None, State]:
        """Who wrote an entry, None if this cannot be told; and the state."""
        writer, packed = self._codec.split(entry)
        if writer is not None:
            try:
                return writer, port_of(writer).decode(writer, packed[_WROTE_SIZE:])
            except (StoreError, ValueError, ArithmeticError, struct.error):
                pass
        return None, ()

    def settled(self, ask: Ask, reply: _Reply, now_us: int) -> list[Decision] | StoreError | None:
        """The answer to one request; None if it has to ask again."""
        try:
            return self.decisions(ask, now_us, reply) if self.is_settled(ask, reply, now_us) else None
        except StoreError as error:
            return error

    def decisions(self, ask: Ask, now_us: int, reply: _Reply) -> list[Decision]:
        """The decisions of one request.

        Raises:
            UnreadableBucketError: a bucket holds numbers that cannot be.
        """
        try:
            return self._decisions(ask, now_us, reply)
        except Exception as error:
            raise _unreadable(ask, error) from error

    def _decisions(self, ask: Ask, now_us: int, reply: _Reply) -> list[Decision]:
        is_granted, start_us = reply[:2]
        checks, now_ns, start_ns = ask.checks, now_us * US_NS, start_us * US_NS
        waits = [check.max_wait_ns for check in checks if not check.shadow and check.max_wait_ns != 0]
        bounded = [wait_ns for wait_ns in waits if wait_ns is not None]
        decided = []
        for check, at_us, told in zip(checks, reply[2::2], reply[3::2], strict=True):
            patience_ns: int | None = min(bounded) if bounded else None
            from_ns = start_ns
            if check.shadow:
                patience_ns, from_ns = 0, now_ns
            elif check.max_wait_ns == 0:
                patience_ns = start_ns - now_ns
            at_ns = None if at_us < 0 else at_us * US_NS
            decision = decision_of(check, told, now_ns, at_ns, patience_ns, from_ns)
            if not is_granted and not check.shadow:
                decision = untouched(decision, check, start_ns)
            decided.append(decision)
        return decided


def bookings(
    checks: Sequence[Check], decisions: Sequence[Decision], *, shadows: bool = True
) -> list[tuple[Check, int]]:
    """What a request has booked: checks and the moments they are booked for.

    Args:
        checks: of the request.
        decisions: what it got.
        shadows: shadow checks too, which are booked each by itself.
    """
    pairs = list(zip(checks, decisions, strict=True))
    granted = all(decision.allowed for check, decision in pairs if not check.shadow)
    return [
        (check, decision.at_ns)
        for check, decision in pairs
        if ((shadows and decision.allowed) if check.shadow else granted)
    ]


def whole_time_us(reply: Sequence[bytes | int]) -> int:
    """What TIME has answered, in us."""
    seconds, us = map(int, reply)
    return seconds * 10**6 + us


def _unreadable(ask: Ask, why: object) -> UnreadableBucketError:
    keys = ", ".join(f"`{check.key}`" for check in ask.checks)
    return UnreadableBucketError(f"{keys}: what stands there cannot be read: {why}")


def moment(at_ns: int) -> bytes:
    """A moment that a booking was made for."""
    return doubles([whole_us(at_ns)])
