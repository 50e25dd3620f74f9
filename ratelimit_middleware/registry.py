"""LimiterRegistry: rules x clients -> checks -> verdict.

Everything here is plain computing but the one call of the store, which is why `admit` exists twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from ratelimit_middleware.asking import failures, heard
from ratelimit_middleware.checking import Asked, Checking, DeniedError
from ratelimit_middleware.clock import Clock
from ratelimit_middleware.decision import UNCHECKED, Decision, Verdict
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.faults import FaultLogs
from ratelimit_middleware.identity import SAID_BY_APP
from ratelimit_middleware.nested import Told, has_asked
from ratelimit_middleware.penalties import Due, blocking, strikes_due, told
from ratelimit_middleware.reporter import note_checks
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.match import Matcher
from ratelimit_middleware.rules.model import Limit, RuleSet
from ratelimit_middleware.rules.plan import Counted
from ratelimit_middleware.settler import Settler
from ratelimit_middleware.settling import Booking
from ratelimit_middleware.stores.base import AsyncStore, Check, Store
from ratelimit_middleware.verdicts import UNLIMITED, denied, judged, listed, watched

__all__ = ["LimiterRegistry"]


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
        limits = [limit for rule in ruleset.rules for limit in rule.limits]
        self._has_lists = ruleset.deny is not None or ruleset.exempt is not None
        self._checking = Checking(matcher, route_of if any(limit.by_route for limit in limits) else None)
        self.chains = any(limit.chain for rule in ruleset.rules for limit in rule.all_limits)
        self._asks = any(limit.awaited() for limit in limits)
        self.awaits = self._asks or self._async_store is not None
        self._watches = ruleset.shadow
        hides = any(limit.penalty or limit.sheds or limit.charging() for limit in limits)
        self._judge = _judged_by_what_is_told if hides else judged
        self._is_plain = not (self._watches or hides)
        self._settles = any(limit.settle for limit in limits)
        may_fail = any(
            limit.cost_of or limit.choose or any(part.kind in SAID_BY_APP for part in limit.key)
            for limit in limits
        )
        self._checks = self._unnoted_checks = self._checks_that_may_fail if may_fail else self._checking.asked

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
        verdict = self._judge(limits, decisions, asked)
        if verdict.wait_ns or self._settles:
            verdict = _booked(verdict, limits, checks, decisions)
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
        verdict = self._judge(limits, decisions, asked)
        if verdict.wait_ns or self._settles:
            verdict = _booked(verdict, limits, checks, decisions)
        if self._is_plain:
            return verdict
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
        self._checks = self._noted_checks

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

    def _checks_that_may_fail(self, view: RequestView) -> Asked:
        """The same where functions of the app are asked; those that fail are told to the log."""
        try:
            return self._checking.asked(view)
        finally:
            for failure in failures(view):
                self._faults.report(*failure)

    def _noted_checks(self, view: RequestView) -> Asked:
        """The same, left in the view."""
        asked = self._unnoted_checks(view)
        note_checks(view, *asked)
        return asked


def _judged_by_what_is_told(
    limits: Sequence[Limit], decisions: Sequence[Decision], asked: Sequence[Check]
) -> Verdict:
    """One verdict where some limits say nothing to clients."""
    return judged(*told(limits, decisions), asked)


def _booked(
    verdict: Verdict, limits: Sequence[Limit], checks: Sequence[Check], decisions: Sequence[Decision]
) -> Verdict:
    """The verdict, with what must be heard of again."""
    bookings = tuple(
        Booking(check, decision.at_ns, limit.settle)
        for limit, check, decision in zip(limits, checks, decisions, strict=True)
        if decision.allowed and (verdict.allowed or check.shadow) and (verdict.wait_ns or limit.settle)
        if decision is not UNCHECKED
    )
    return verdict._replace(bookings=bookings)
