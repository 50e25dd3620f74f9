"""The middleware for WSGI apps: Flask, or any callable of (environ, start_response) (PEP 3333)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import finalize

from ratelimit_middleware._types import Environ, StartResponse, Write, WSGIApp
from ratelimit_middleware.answers import Answers
from ratelimit_middleware.build import RulesSource, build_registry, build_reporter, processes_warning
from ratelimit_middleware.clock import NS_PER_SECOND, Clock
from ratelimit_middleware.coverage import warn_of_idle_rules
from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.entrances import WsgiEntrance
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.events import Hook
from ratelimit_middleware.faults import (
    LIMITER_FAILED,
    LIMITER_FAILED_WATCHING,
    RESPONDER_FAILED,
    SETTLING_FAILED,
    FaultLog,
)
from ratelimit_middleware.flows import KeptViews, has_flows
from ratelimit_middleware.headers import Field
from ratelimit_middleware.nested import TOLD, Told, told_of, withdraw
from ratelimit_middleware.overload.sensor import Sensor
from ratelimit_middleware.reporter import Reporter
from ratelimit_middleware.request import RequestView, WsgiView
from ratelimit_middleware.responses import Refusal, reason
from ratelimit_middleware.settling import Stay, Step, undone
from ratelimit_middleware.stores.base import Store
from ratelimit_middleware.verdicts import UNDECIDED, turned_away
from ratelimit_middleware.views import Views
from ratelimit_middleware.wrapping import check_wsgi
from ratelimit_middleware.wsgi_flows import WsgiFlows
from ratelimit_middleware.wsgi_response import end, watched, watched_start

__all__ = ["RateLimitMiddleware"]


class RateLimitMiddleware:
    """Limits HTTP requests.

    An admitted request gets the RateLimit fields when the app starts its response; unless a rule limits its
    bandwidth, the app's iterable is returned as it is, so streaming, `close()`, `wsgi.file_wrapper` and
    lengths work as before. A refused request never reaches the app, and its body is not read.

    Args:
        app: the app to protect.
        rules: path of a rule file, a dict of the same shape, or a `RuleSet`.
        store: where the counts live; by default what the rules say.
        clock: where the store's time comes from; only for a store that the rules name.
        max_waiting_threads: how many requests may wait at a time where rules delay them or their bodies, each
            in a thread of the server; more are refused. Keep it below the server's threads: by default one
            less than waitress has.
        hooks: are told of each verdict.
        sensor: tells rules with `adaptive` how loaded the server is; the system's by default.

    Raises:
        RuleFileError: the rules hold mistakes.
        StoreError: the store cannot be opened, or must be awaited.
    """

    def __init__(
        self,
        app: WSGIApp,
        rules: RulesSource,
        *,
        store: Store | None = None,
        clock: Clock | None = None,
        max_waiting_threads: int = 3,
        hooks: Sequence[Hook] = (),
        sensor: Sensor | None = None,
    ) -> None:
        check_wsgi(app)
        self._app = app
        if store is not None and not isinstance(store, Store):
            raise StoreError(f"WSGI cannot await {type(store).__name__}: give it a store that threads call")
        self._registry = build_registry(rules, store=store, clock=clock, awaits=False, app=app, sensor=sensor)
        if store is None:
            finalize(self, self._registry.close)  # at the end of the process at the latest
        self._processes = processes_warning(self._registry)
        self._is_new = True
        watches = self._registry.ruleset.shadow
        self._faults = FaultLog(LIMITER_FAILED_WATCHING if watches else LIMITER_FAILED, clock=clock)
        self._unsettled = FaultLog(SETTLING_FAILED, clock=clock)
        self._places = threading.Semaphore(max_waiting_threads)
        self._reporter = build_reporter(self._registry, hooks, clock)
        self._views: Views | KeptViews = Views(self._registry.ruleset, WsgiView, clock)
        self._answers = Answers(
            self._registry.ruleset, FaultLog(RESPONDER_FAILED, clock=clock).report, self._views.refused
        )
        if self._registry.chains:
            self._app = WsgiEntrance(app)
        if has_flows(self._registry.ruleset):
            self._views = views = KeptViews(self._views)
            self._app = WsgiFlows(self._app, self._registry, views, self._answers, hooks, self._places, clock)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request."""
        if self._is_new:
            self._is_new = False
            warn_of_idle_rules(self._app, self._registry.ruleset)
        self._processes.look(environ)
        view = self._views.make(environ)
        outer: Told | None = environ.get(TOLD)
        verdict = UNDECIDED
        try:
            verdict = self._registry.admit(view, outer)
            if verdict.wait_ns:
                verdict = self._waited(verdict)
            reply = self._answers.answer(view, verdict)
        except Exception as error:  # noqa: BLE001 - a limiter that fails must not let requests through
            self._faults.report(error)
            reply = self._answers.undecided(view, error)
        if self._reporter is not None:
            self._report(self._reporter, view, verdict)
        if type(reply) is Refusal:  # `isinstance` costs three times as much
            withdraw(outer)
            self._tell(undone(verdict.bookings))
            return _refuse(start_response, reply)
        place = self._registry.place
        told: Told = (
            (verdict, reply, place, [*verdict.asked], None)
            if outer is None
            else told_of(outer, verdict, reply, place)
        )
        environ[TOLD] = told
        telling = _adding(reply, start_response) if reply and told[1] is reply else start_response
        try:
            if verdict.bookings:
                return self._serve(self._registry.settler.begin(verdict, view), environ, telling)
            return self._app(environ, telling)
        finally:
            if outer is None:
                environ.pop(TOLD, None)  # an app may be tried with an environ that was used before
            else:
                environ[TOLD] = outer

    def _waited(self, verdict: Verdict) -> Verdict:
        """The verdict once its moment has come; a refusal if too many threads wait already."""
        if not self._places.acquire(blocking=False):
            self._tell(undone(verdict.bookings))
            return turned_away(verdict)
        try:
            time.sleep(verdict.wait_ns / NS_PER_SECOND)
        except BaseException:
            self._tell(undone(verdict.bookings))
            raise
        finally:
            self._places.release()
        return verdict

    def _serve(self, stay: Stay, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Call the app for a request whose bookings must hear of the response."""
        try:
            body = self._app(environ, watched_start(stay, self._tell, start_response))
        except BaseException as error:
            stay.failed(error)
            end(stay, self._tell)
            raise
        return body if stay.is_settled else watched(stay, self._tell, body)

    def _report(self, reporter: Reporter, view: RequestView, verdict: Verdict) -> None:
        """Tell the hooks; one that raises what is no `Exception` ends a request that nobody has served."""
        try:
            reporter.tell(view, verdict)
        except BaseException:
            self._tell(undone(verdict.bookings))
            raise

    def _tell(self, steps: Sequence[Step]) -> None:
        """Carry out what is due; never raises."""
        try:
            self._registry.settler.carry_out(steps)
        except Exception as error:  # noqa: BLE001 - the answer has been given
            self._unsettled.report(error)


def _adding(fields: list[Field], start_response: StartResponse) -> StartResponse:
    """A `start_response` that adds `fields`, whenever and however often the app calls it."""

    def start_with_fields(status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Write:
        try:
            return start_response(status, [*headers, *fields], exc_info)
        finally:
            del exc_info  # PEP 3333: or the traceback would keep this frame alive

    return start_with_fields


def _refuse(start_response: StartResponse, refusal: Refusal) -> Iterable[bytes]:
    start_response(f"{refusal.status} {reason(refusal.status)}", [*refusal.headers])
    return [refusal.body]
