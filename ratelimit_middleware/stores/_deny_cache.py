"""DenyCache: refusals that are known to hold for a moment, so that a hammering client costs no call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from contextlib import suppress

from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.stores.base import Check

__all__ = ["DenyCache"]

_LONGEST_NS = NS_PER_SECOND


class DenyCache:
    """The last refusals, each until its `Retry-After`, and for a second at most.

    A refusal stands for the same checks with the same costs. Checks that may wait, shadow checks and slots
    are never answered from here: the first may be admitted sooner, the second have to be counted, and a
    slot may come back at any moment. One that was asked for before permits came back here is not used; those
    that other processes give back are noticed a second late.

    Safe in threads: each operation is one of `OrderedDict`'s own, and a lost update costs one call.

    Args:
        size: how many refusals are kept, the newest; 0 = none.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._refusals: OrderedDict[Hashable, tuple[int, int, list[Decision]]] = OrderedDict()
        self._given_back_ns: OrderedDict[str, int] = OrderedDict()

    def find(self, checks: Sequence[Check], now_ns: int) -> list[Decision] | None:
        """The decisions of a refusal that still holds, as of `now_ns`."""
        refusals = self._refusals
        if not refusals or not _may_be_kept(checks):
            return None
        name = _name(checks)
        known = refusals.get(name)
        if known is None:
            return None
        since_ns, until_ns, decisions = known
        given_ns = max(self._given_back_ns.get(check.key, -1) for check in checks)
        if given_ns >= since_ns or not since_ns <= now_ns < until_ns:
            refusals.pop(name, None)
            return None
        elapsed_ns = now_ns - since_ns
        return [_aged(decision, elapsed_ns) for decision in decisions]

    def keep(self, checks: Sequence[Check], decisions: list[Decision], now_ns: int) -> None:
        """Remember the decisions if they are a refusal."""
        refusing = [decision.retry_after_ns for decision in decisions if not decision.allowed]
        if not refusing or not self._size or not _may_be_kept(checks):
            return
        holds_ns = max(_LONGEST_NS if retry_ns is None else retry_ns for retry_ns in refusing)
        self._refusals[_name(checks)] = (now_ns, now_ns + min(holds_ns, _LONGEST_NS), decisions)
        if len(self._refusals) > self._size:
            with suppress(KeyError):  # other threads make room too
                self._refusals.popitem(last=False)

    def given_back(self, check: Check, now_ns: int) -> None:
        """Permits have come back: what was refused before, for that bucket, may be admitted."""
        if not self._size or isinstance(check.algorithm, Concurrency):
            return
        self._given_back_ns[check.key] = now_ns
        if len(self._given_back_ns) > self._size:
            with suppress(KeyError):
                self._given_back_ns.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        self._refusals.clear()
        self._given_back_ns.clear()


def _may_be_kept(checks: Sequence[Check]) -> bool:
    return not any(
        check.shadow or check.max_wait_ns != 0 or isinstance(check.algorithm, Concurrency) for check in checks
    )


def _name(checks: Sequence[Check]) -> Hashable:
    return tuple((check.key, check.algorithm, check.cost) for check in checks)


def _aged(decision: Decision, elapsed_ns: int) -> Decision:
    retry_ns = decision.retry_after_ns
    return decision._replace(
        at_ns=decision.at_ns + elapsed_ns,
        retry_after_ns=None if retry_ns is None else max(1, retry_ns - elapsed_ns),
        reset_after_ns=max(0, decision.reset_after_ns - elapsed_ns),
    )
