"""LimiterRegistry: rules x clients -> checks -> verdict.

Everything here is plain computing but the one call of the store, which is why `admit` exists twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from ratelimit_middleware.decision import Decision, Outcome, Verdict
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.identity import bucket_key, overflow_key
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.match import Matcher
from ratelimit_middleware.rules.model import Limit, RuleSet
from ratelimit_middleware.stores.base import AsyncStore, Check, Store

__all__ = ["LimiterRegistry", "settle"]

_UNLIMITED = Verdict(True, 0, None, (), None, ())  # noqa: FBT003 - fields in order


class LimiterRegistry:
    """The heart: turns a request view into checks, asks the store once, turns decisions into a verdict.

    Args:
        ruleset: the rules.
        store: where buckets live; a store that must be awaited serves `admit_async` only.
    """

    def __init__(self, ruleset: RuleSet, store: Store | AsyncStore) -> None:
        self.ruleset = ruleset
        self._async_store = store if isinstance(store, AsyncStore) else None
        self._store = None if isinstance(store, AsyncStore) else store
        self._match = Matcher(ruleset).match

    def admit(self, view: RequestView) -> Verdict:
        """Decide a request against a store called from threads.

        Raises:
            StoreError: the store cannot answer, or must be awaited.
        """
        limits, checks = self._checks(view)
        if not checks:
            return _UNLIMITED
        return settle(limits, self._threaded_store.take(checks))

    async def admit_async(self, view: RequestView) -> Verdict:
        """Decide a request on an event loop.

        Raises:
            StoreError: the store cannot answer.
        """
        limits, checks = self._checks(view)
        if not checks:
            return _UNLIMITED
        if self._async_store is not None:
            return settle(limits, await self._async_store.take_async(checks))
        return settle(limits, self._threaded_store.take(checks))

    def close(self) -> None:
        """Let go of a store called from threads."""
        self._threaded_store.close()

    @property
    def _threaded_store(self) -> Store:
        if self._store is None:
            raise StoreError(
                "this store must be awaited: use it under ASGI, or give WSGI a store for threads"
            )
        return self._store

    def _checks(self, view: RequestView) -> tuple[list[Limit], list[Check]]:
        """The limits that count for the request, and what to ask the store about each."""
        limits, checks = [], []
        for limit, route in self._match(view):
            key = bucket_key(limit.rule_id, limit.key, view, route)
            limits.append(limit)
            checks.append(Check(key, limit.algorithm, overflow_key(limit.rule_id), shadow=limit.shadow))
        return limits, checks


def settle(limits: Sequence[Limit], decisions: Sequence[Decision]) -> Verdict:
    """One verdict from the decisions of all limits that count, in the same order."""
    outcomes: list[Outcome] = []
    shadows: list[Outcome] = []
    for limit, decision in zip(limits, decisions, strict=True):
        (shadows if limit.shadow else outcomes).append(Outcome(limit.policy, decision))
    refusing = [outcome for outcome in outcomes if not outcome.decision.allowed]
    if refusing:
        binding = max(refusing, key=_wait)
        retry_after_ns = binding.decision.retry_after_ns
        return Verdict(False, 0, retry_after_ns, tuple(outcomes), binding, tuple(shadows))  # noqa: FBT003
    wait_ns = max((outcome.decision.wait_ns for outcome in outcomes), default=0)
    binding_if_any = min(outcomes, key=_share_left, default=None)
    return Verdict(True, wait_ns, None, tuple(outcomes), binding_if_any, tuple(shadows))  # noqa: FBT003


def _wait(outcome: Outcome) -> float:
    """The wait of a refusing outcome; one that no waiting helps is the longest."""
    retry_after_ns = outcome.decision.retry_after_ns
    return inf if retry_after_ns is None else retry_after_ns


def _share_left(outcome: Outcome) -> float:
    return outcome.decision.remaining / outcome.decision.limit
