"""LimiterRegistry: rules x clients -> checks -> verdict.

Everything here is plain computing but the one call of the store, which is why `admit` exists twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from ratelimit_middleware.asking import failures, heard
from ratelimit_middleware.checking import DeniedError, add_varying, is_uncovered
from ratelimit_middleware.clock import Clock
from ratelimit_middleware.decision import UNCHECKED, Decision, Verdict
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.faults import FaultLogs
from ratelimit_middleware.identity import SAID_BY_APP
from ratelimit_middleware.nested import Told, has_asked
from ratelimit_middleware.penalties import Due, blocking, strikes_due, told
from ratelimit_middleware.reporter import note_checks
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.match import Counted, Matcher
from ratelimit_middleware.rules.model import Limit, RuleSet
from ratelimit_middleware.settler import Settler
from ratelimit_middleware.settling import Booking
from ratelimit_middleware.stores.base import AsyncStore, Check, Store
from ratelimit_middleware.verdicts import UNLIMITED, denied, judged, listed, watched

__all__ = ["LimiterRegistry"]

_new = tuple.__new__
"""Past the constructors of named tuples, which cost several times what they do."""


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
        chains: whether it matters what a request was reached from.
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
        self._fallback = matcher.fallback
        limits = [limit for rule in ruleset.rules for limit in rule.limits]
        self._has_lists = ruleset.deny is not None or ruleset.exempt is not None
        self._route_of = route_of if any(limit.by_route for limit in limits) else None
        self.chains = any(limit.chain for rule in ruleset.rules for limit in rule.all_limits)
        self._asks = any(limit.awaited() for limit in limits)
        self.awaits = self._asks or self._async_store is not None
        self._watches = ruleset.shadow
        self._hides = any(limit.penalty or limit.sheds or limit.charging() for limit in limits)
        self._notes = False
        self._is_plain = not (self._watches or self._hides)
        self._settles = any(limit.settle for limit in limits)
        may_fail = any(
            limit.cost_of or limit.choose or any(part.kind in SAID_BY_APP for part in limit.key)
            for limit in limits
        )
        self._checks = self._checks_that_may_fail if may_fail else self._counting

    def admit(self, view: RequestView, outer: Told | None = None) -> Verdict:
        """Decide a request against a store called from threads.

        Args:
            view: the request.
            outer: what instances of the middleware further out have done about it.

        Raises:
            StoreError: the store cannot answer, or must be awaited.
            Exception: what the function of a limit raises, if there is no number to go on with.
        """
        on_list = listed(self.ruleset, view) if self._has_lists else None
        if on_list:
            return on_list
        try:
            limits, checks = self._checks(view)
        except DeniedError as error:
            return watched(denied(error.limit)) if self._watches else denied(error.limit)
        asked = checks
        if outer is not None:
            limits, checks = self._unasked(outer, limits, checks)
        if not checks:
            return UNLIMITED._replace(asked=asked) if asked else UNLIMITED
        decisions = self._take(checks)
        verdict = self._verdict(limits, checks, decisions, asked)
        if self._is_plain:
            return verdict
        due = strikes_due(verdict, limits, checks, decisions)
        strikes: Sequence[Decision] = ()
        if due:
            try:
                strikes = self._take([check for _, check in due])
            except Exception as error:  # noqa: BLE001 - the request is refused all the same
                self._faults.report("penalty", error)
        return self._closed(verdict, due, strikes)

    async def admit_async(self, view: RequestView, outer: Told | None = None) -> Verdict:
        """Decide a request on an event loop.

        Args:
            view: the request.
            outer: what instances of the middleware further out have done about it.

        Raises:
            StoreError: the store cannot answer.
            Exception: what the function of a limit raises, if there is no number to go on with.
        """
        on_list = listed(self.ruleset, view) if self._has_lists else None
        if on_list:
            return on_list
        if self._asks:
            await self._ask(view)
        try:
            limits, checks = self._checks(view)
        except DeniedError as error:
            return watched(denied(error.limit)) if self._watches else denied(error.limit)
        asked = checks
        if outer is not None:
            limits, checks = self._unasked(outer, limits, checks)
        if not checks:
            return UNLIMITED._replace(asked=asked) if asked else UNLIMITED
        store = self._async_store
        decisions = self._take(checks) if store is None else await store.take_async(checks)
        verdict = self._verdict(limits, checks, decisions, asked)
        due = strikes_due(verdict, limits, checks, decisions)
        strikes: Sequence[Decision] = ()
        if due:
            counting = [check for _, check in due]
            try:
                strikes = self._take(counting) if store is None else await store.take_async(counting)
            except Exception as error:  # noqa: BLE001 - the request is refused all the same
                self._faults.report("penalty", error)
        return self._closed(verdict, due, strikes)

    def counted(self, view: RequestView) -> Counted:
        """The limits that count for a request, whatever its key lacks."""
        return self._match(view)

    def note_checks(self) -> None:
        """Leave in the view of each request what is checked, for a `Reporter`."""
        self._notes = True

    @property
    def store(self) -> Store | AsyncStore:
        """Where buckets live."""
        return self._threaded_store if self._async_store is None else self._async_store

    def close(self) -> None:
        """Let go of a store called from threads."""
        self.settler.keeper.close()
        self._threaded_store.close()

    async def close_async(self) -> None:
        """Let go of what the store holds for the running loop, and for threads; it may be asked again."""
        if self._async_store is not None:
            await self._async_store.close_async()
        if self._store is not None:
            self._store.close()

    def _closed(self, verdict: Verdict, due: Sequence[Due], strikes: Sequence[Decision]) -> Verdict:
        """The verdict with all that follows from it."""
        if strikes:
            verdict = blocking(verdict, due, strikes)
        return watched(verdict) if self._watches else verdict

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
        hides = self._hides
        verdict = judged(*told(limits, decisions), asked) if hides else judged(limits, decisions, asked)
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
        may_skip = any(
            limit.missing == "skip" or limit.exempt or limit.share or limit.chain for limit, _ in counted
        )
        for limit, _ in (*counted, *self._default) if may_skip else counted:
            for asked in limit.awaited():
                await heard(asked, view)

    def _checks_that_may_fail(self, view: RequestView) -> tuple[list[Limit], list[Check]]:
        """The same where functions of the app are asked; those that fail are told to the log."""
        try:
            return self._counting(view)
        finally:
            for failure in failures(view):
                self._faults.report(*failure)

    def _counting(self, view: RequestView) -> tuple[list[Limit], list[Check]]:
        """The limits that count for the request, and what to ask the store about each."""
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
            elif not add_varying(limit, view, route, limits, checks):
                skipped.append(limit)
        if skipped and is_uncovered(counted, skipped):
            for limit, pattern in self._fallback(view):
                add_varying(limit, view, template or pattern, limits, checks)
        if self._notes:
            note_checks(view, limits, checks)
        return limits, checks
