"""LimiterRegistry: rules x clients -> checks -> verdict.

Everything here is plain computing but the one call of the store, which is why `admit` exists twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from ratelimit_middleware.decision import UNCHECKED, Decision, Outcome, Verdict
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.match import Counted, Matcher
from ratelimit_middleware.rules.model import Limit, RuleSet
from ratelimit_middleware.stores.base import AsyncStore, Check, Store

__all__ = ["LimiterRegistry", "settle"]

_UNLIMITED = Verdict(True, 0, None, (), None, ())  # noqa: FBT003 - fields in order


class _DeniedError(Exception):
    """Raised inside this module for a request that lacks a part of a key which it must have."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit.policy.name)
        self.limit = limit


class LimiterRegistry:
    """The heart: turns a request view into checks, asks the store once, turns decisions into a verdict.

    Args:
        ruleset: the rules.
        store: where buckets live; a store that must be awaited serves `admit_async` only, one that can be
            both awaited and called is awaited there.
    """

    def __init__(self, ruleset: RuleSet, store: Store | AsyncStore) -> None:
        self.ruleset = ruleset
        self._async_store = store if isinstance(store, AsyncStore) else None
        self._store = store if isinstance(store, Store) else None
        matcher = Matcher(ruleset)
        self._match = matcher.match
        self._default = matcher.default
        self._awaits = any(limit.awaited() for rule in ruleset.rules for limit in rule.limits)

    def admit(self, view: RequestView) -> Verdict:
        """Decide a request against a store called from threads.

        Raises:
            StoreError: the store cannot answer, or must be awaited.
            Exception: whatever a function of the app raises, or TypeError for what it gives.
        """
        try:
            limits, checks = self._checks(view)
        except _DeniedError as denied:
            return _denied(denied.limit)
        if not checks:
            return _UNLIMITED
        return settle(limits, self._threaded_store.take(checks))

    async def admit_async(self, view: RequestView) -> Verdict:
        """Decide a request on an event loop.

        Raises:
            StoreError: the store cannot answer.
            Exception: whatever a function of the app raises, or TypeError for what it gives.
        """
        if self._awaits:
            await self._ask(view)
        try:
            limits, checks = self._checks(view)
        except _DeniedError as denied:
            return _denied(denied.limit)
        if not checks:
            return _UNLIMITED
        if self._async_store is not None:
            return settle(limits, await self._async_store.take_async(checks))
        return settle(limits, self._threaded_store.take(checks))

    @property
    def store(self) -> Store | AsyncStore:
        """Where buckets live."""
        return self._threaded_store if self._async_store is None else self._async_store

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

    async def _ask(self, view: RequestView) -> None:
        """Await the functions of the app, so that all that follows is plain computing."""
        counted = self._match(view)
        may_skip = any(limit.missing == "skip" for limit, _ in counted)
        for limit, _ in (*counted, *self._default) if may_skip else counted:
            for asked in limit.awaited():
                await asked.ask(view)

    def _checks(self, view: RequestView) -> tuple[list[Limit], list[Check]]:
        """The limits that count for the request, and what to ask the store about each."""
        limits: list[Limit] = []
        checks: list[Check] = []
        skipped: list[Limit] = []
        counted = self._match(view)
        for limit, route in counted:
            if limit.plain:
                key = limit.build_key(view, route) or limit.overflow  # a plain limit always has a key
                limits.append(limit)
                checks.append(
                    Check(key, limit.algorithm, limit.overflow, limit.cost, 0, limit.shadow, limit.on_error)
                )
            elif not _add_varying(limit, view, route, limits, checks):
                skipped.append(limit)
        if skipped and _is_uncovered(counted, skipped):
            for limit, route in self._default:
                _add_varying(limit, view, route, limits, checks)
        return limits, checks


def _add_varying(
    limit: Limit, view: RequestView, route: str, limits: list[Limit], checks: list[Check]
) -> bool:
    """Add a limit whose numbers depend on the request; False if it is skipped.

    Raises:
        _DeniedError: the request lacks a part of the key, and the rule does not admit that.
    """
    key = limit.build_key(view, route)
    if key is None:
        if limit.missing == "deny" and not limit.shadow:
            raise _DeniedError(limit)
        return False
    chosen = limit.choose(limit, view, route) if limit.choose else limit
    if chosen:  # else unlimited for this request, which is an answer too
        cost = limit.cost_of(view) if limit.cost_of else limit.cost
        limits.append(chosen)
        checks.append(Check(key, chosen.algorithm, limit.overflow, cost, 0, limit.shadow, limit.on_error))
    return True


def _is_uncovered(counted: Counted, skipped: Sequence[Limit]) -> bool:
    """Whether skipping has left a request without any enforcing limit of a route, so `default` counts."""
    covering = [limit for limit, route in counted if route and not limit.shadow]
    return bool(covering) and all(any(limit is other for other in skipped) for limit in covering)


def _denied(limit: Limit) -> Verdict:
    """The refusal of a request that lacks a part of the key; nothing was taken, no waiting helps."""
    decision = Decision(False, 0, 0, None, limit.policy.quota, 0, 0)  # noqa: FBT003 - fields in order
    outcome = Outcome(limit.policy, decision)
    return Verdict(False, 0, None, (outcome,), outcome, ())  # noqa: FBT003


def settle(limits: Sequence[Limit], decisions: Sequence[Decision]) -> Verdict:
    """One verdict from the decisions of all limits that count, in the same order.

    A limit that was let through unchecked has nothing to tell: it is not among the outcomes.
    """
    outcomes: list[Outcome] = []
    shadows: list[Outcome] = []
    for limit, decision in zip(limits, decisions, strict=True):
        if decision is UNCHECKED:
            continue
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
