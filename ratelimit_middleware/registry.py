"""LimiterRegistry: rules x clients -> checks -> verdict.

Everything here is plain computing but the one call of the store, which is why `admit` exists twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from ratelimit_middleware.asking import failures, heard
from ratelimit_middleware.clock import Clock
from ratelimit_middleware.decision import UNCHECKED, Decision, Verdict
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.faults import FaultLogs
from ratelimit_middleware.identity import SAID_BY_APP
from ratelimit_middleware.nested import Told, has_asked
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.match import Counted, Matcher
from ratelimit_middleware.rules.model import Limit, RuleSet
from ratelimit_middleware.settler import Settler
from ratelimit_middleware.settling import Booking
from ratelimit_middleware.stores.base import AsyncStore, Check, Store
from ratelimit_middleware.verdicts import denied, judged

__all__ = ["LimiterRegistry"]

_new = tuple.__new__
"""Past the constructors of named tuples, which cost several times what they do."""
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
        clock: tells how long a response took; the system's by default.
        place: what tells where the counts live, if other objects than `store` lead there too.
        route_of: gives the app's own template for a request, for keys with `route`.

    Attributes:
        ruleset: the rules.
        settler: hears what becomes of bookings.
        awaits: whether anything is awaited by `admit_async`; if not, `admit` is the same on an event loop.
    """

    def __init__(
        self,
        ruleset: RuleSet,
        store: Store | AsyncStore,
        *,
        clock: Clock | None = None,
        place: object = None,
        route_of: Callable[[RequestView], str | None] | None = None,
    ) -> None:
        self.ruleset = ruleset
        self.place = store if place is None else place
        self._faults = FaultLogs(clock=clock)
        self.settler = Settler(store, self._faults, clock)
        self._async_store = store if isinstance(store, AsyncStore) else None
        self._store = store if isinstance(store, Store) else None
        self._take = self._store.take if self._store is not None else self._refuse_to_call
        matcher = Matcher(ruleset)
        self._match = matcher.match
        self._default = matcher.default
        limits = [limit for rule in ruleset.rules for limit in rule.limits]
        self._route_of = route_of if any(limit.by_route for limit in limits) else None
        self._asks = any(limit.awaited() for limit in limits)
        self.awaits = self._asks or self._async_store is not None
        self._settles = any(limit.settle for limit in limits)
        self._may_fail = any(
            limit.cost_of or limit.choose or any(part.kind in SAID_BY_APP for part in limit.key)
            for limit in limits
        )

    def admit(self, view: RequestView, outer: Told | None = None) -> Verdict:
        """Decide a request against a store called from threads.

        Args:
            view: the request.
            outer: what instances of the middleware further out have done about it.

        Raises:
            StoreError: the store cannot answer, or must be awaited.
            Exception: what the function of a limit raises, if there is no number to go on with.
        """
        try:
            limits, checks = self._checks(view)
        except _DeniedError as error:
            return denied(error.limit)
        asked = checks
        if outer is not None:
            limits, checks = self._unasked(outer, limits, checks)
        if not checks:
            return _UNLIMITED._replace(asked=asked) if asked else _UNLIMITED
        return self._verdict(limits, checks, self._take(checks), asked)

    async def admit_async(self, view: RequestView, outer: Told | None = None) -> Verdict:
        """Decide a request on an event loop.

        Args:
            view: the request.
            outer: what instances of the middleware further out have done about it.

        Raises:
            StoreError: the store cannot answer.
            Exception: what the function of a limit raises, if there is no number to go on with.
        """
        if self._asks:
            await self._ask(view)
        try:
            limits, checks = self._checks(view)
        except _DeniedError as error:
            return denied(error.limit)
        asked = checks
        if outer is not None:
            limits, checks = self._unasked(outer, limits, checks)
        if not checks:
            return _UNLIMITED._replace(asked=asked) if asked else _UNLIMITED
        if self._async_store is not None:
            return self._verdict(limits, checks, await self._async_store.take_async(checks), asked)
        return self._verdict(limits, checks, self._take(checks), asked)

    @property
    def store(self) -> Store | AsyncStore:
        """Where buckets live."""
        return self._threaded_store if self._async_store is None else self._async_store

    def close(self) -> None:
        """Let go of a store called from threads."""
        self.settler.keeper.close()
        self._threaded_store.close()

    def _unasked(
        self, outer: Told, limits: Sequence[Limit], checks: Sequence[Check]
    ) -> tuple[list[Limit], list[Check]]:
        """What no instance of the middleware further out has asked."""
        left = [
            pair for pair in zip(limits, checks, strict=True) if not has_asked(outer, self.place, pair[1])
        ]
        return [limit for limit, _ in left], [check for _, check in left]

    def _verdict(
        self,
        limits: Sequence[Limit],
        checks: Sequence[Check],
        decisions: Sequence[Decision],
        asked: list[Check],
    ) -> Verdict:
        """The verdict, with what must be heard of again."""
        verdict = judged(limits, decisions, asked)
        if not (verdict.wait_ns or self._settles):
            return verdict
        bookings = tuple(
            Booking(check, decision.at_ns, limit.settle)
            for limit, check, decision in zip(limits, checks, decisions, strict=True)
            if decision.allowed and (verdict.allowed or check.shadow) and (verdict.wait_ns or limit.settle)
            if decision is not UNCHECKED
        )
        return verdict._replace(bookings=bookings)

    @property
    def _threaded_store(self) -> Store:
        return self._refuse_to_call(()) if self._store is None else self._store

    def _refuse_to_call(self, _: Sequence[Check]) -> NoReturn:
        raise StoreError("this store must be awaited: use it under ASGI, or give WSGI a store for threads")

    async def _ask(self, view: RequestView) -> None:
        """Await the functions of the app, so that all that follows is plain computing."""
        counted = self._match(view)
        may_skip = any(limit.missing == "skip" for limit, _ in counted)
        for limit, _ in (*counted, *self._default) if may_skip else counted:
            for asked in limit.awaited():
                await heard(asked, view)

    def _checks(self, view: RequestView) -> tuple[list[Limit], list[Check]]:
        """The limits that count for the request, and what to ask the store about each.

        Functions of the app that fail are told to the log.
        """
        try:
            return self._counting(view)
        finally:
            if self._may_fail:
                for failure in failures(view):
                    self._faults.report(*failure)

    def _counting(self, view: RequestView) -> tuple[list[Limit], list[Check]]:
        limits: list[Limit] = []
        checks: list[Check] = []
        skipped: list[Limit] = []
        counted = self._match(view)
        template = None if self._route_of is None else self._route_of(view)
        for limit, pattern in counted:
            route = template or pattern
            if limit.plain:
                key = limit.build_key(view, route)
                limits.append(limit)
                # fmt: off
                checks.append(_new(Check, (
                    key, limit.algorithm, limit.overflow, limit.cost, limit.max_wait_ns, limit.shadow,
                    limit.on_error,
                )))
                # fmt: on
            elif not _add_varying(limit, view, route, limits, checks):
                skipped.append(limit)
        if skipped and _is_uncovered(counted, skipped):
            for limit, pattern in self._default:
                _add_varying(limit, view, template or pattern, limits, checks)
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
        checks.append(
            Check(
                key,
                chosen.algorithm,
                limit.overflow,
                cost,
                chosen.max_wait_ns,
                limit.shadow,
                limit.on_error,
            )
        )
    return True


def _is_uncovered(counted: Counted, skipped: Sequence[Limit]) -> bool:
    """Whether skipping has left a request without any enforcing limit of a route, so `default` counts."""
    covering = [limit for limit, route in counted if route and limit.covers]
    return bool(covering) and all(any(limit is other for other in skipped) for limit in covering)
