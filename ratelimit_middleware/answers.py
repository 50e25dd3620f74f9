"""What is said to clients, made ready once from the rules: which fields, and how each rule refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.errors import StoreUnavailableError
from ratelimit_middleware.headers import (
    SHADOW_FIELD,
    Field,
    field_names,
    fields_writer,
    octets,
    octets_writer,
    shadow_field,
)
from ratelimit_middleware.refusals import Refusals
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.responder import replaced
from ratelimit_middleware.responses import Refusal, not_allowed, unavailable
from ratelimit_middleware.rules.model import Responder, RuleSet
from ratelimit_middleware.verdicts import DENIED

__all__ = ["Answers"]


class Answers:
    """Says in HTTP what a verdict means.

    Args:
        ruleset: the rules with their settings.
        report: is told what went wrong when an own responder fails.
        refused: is told of each request that is over a limit.
        in_octets: the fields of admitted requests are given as ASGI wants them.
    """

    __slots__ = (
        "_common",
        "_denied",
        "_exposed",
        "_formed",
        "_refusals",
        "_refused",
        "_refused_exposed",
        "_report",
        "_responds",
        "_shadow_header",
        "_watches",
        "_write",
    )

    def __init__(
        self,
        ruleset: RuleSet,
        report: Callable[[Exception], object],
        refused: Callable[[RequestView], object] | None = None,
        *,
        in_octets: bool = False,
    ) -> None:
        self._report = report
        self._refused = refused
        self._common = ruleset.answer
        self._denied = ruleset.denied
        self._refusals = Refusals(ruleset)
        self._responds = self._refusals.have_responders
        self._watches = ruleset.shadow
        self._shadow_header = ruleset.shadow_header
        styles = ruleset.headers if ruleset.headers_on == "all" else ()
        self._write: Callable[..., list[Any]] = (octets_writer if in_octets else fields_writer)(styles)
        self._formed: Callable[[list[Field]], list[Any]] = octets if in_octets else list
        names = field_names(ruleset.headers) + [SHADOW_FIELD] * ruleset.shadow_header
        self._exposed = _exposing(names) if ruleset.expose_cors else None
        self._refused_exposed = _exposing([*names, "Retry-After"]) if ruleset.expose_cors else None

    def answer(self, view: RequestView, verdict: Verdict) -> Refusal | list[Any]:
        """A refusal to send, or the fields to add to the app's own response."""
        if not verdict.allowed:
            return self._denial(view) if verdict is DENIED else self._refusal(view, verdict)
        policies = verdict.policies
        if len(policies) == 1:  # the common case, without the search for the one that binds
            fields = self._write(policies, policies[0], verdict.decisions[0])
        else:
            binding = verdict.binding
            fields = [] if binding is None else self._write(policies, *binding)
        if self._shadow_header and verdict.shadows:
            fields += self._formed([shadow_field(verdict.shadows)])
        if self._exposed and fields and view.header("origin") is not None:
            fields += self._formed([self._exposed])
        return fields

    def undecided(self, view: RequestView, error: Exception) -> Refusal | list[Any]:
        """The limits cannot be checked: 503, and nothing where rules only watch."""
        return [] if self._watches else self.unavailable(view, error)

    def unavailable(self, view: RequestView, error: Exception | None = None) -> Refusal:
        """503: the limits cannot be checked, for the reason of `error`."""
        retry_after_ns = error.retry_after_ns if isinstance(error, StoreUnavailableError) else None
        return unavailable(view, retry_after_ns=retry_after_ns, problem=self._common.problem)

    def _denial(self, view: RequestView) -> Refusal:
        """For a request on the list `deny`."""
        return not_allowed(
            view, status=self._denied.status, detail=self._denied.detail, problem=self._common.problem
        )

    def _refusal(self, view: RequestView, verdict: Verdict) -> Refusal:
        """In the words of the rule that binds."""
        if self._refused:
            self._refused(view)
        refusal = self._refusals.refusal(view, verdict)
        if self._responds:
            responder = self._refusals.answer(verdict).responder
            refusal = self._asked(responder, view, verdict, refusal) if responder else refusal
        added = []
        if self._shadow_header and verdict.shadows:
            added.append(shadow_field(verdict.shadows))
        if self._refused_exposed and view.header("origin") is not None:
            added.append(self._refused_exposed)
        return refusal._replace(headers=(*refusal.headers, *added)) if added else refusal

    def _asked(self, responder: Responder, view: RequestView, verdict: Verdict, refusal: Refusal) -> Refusal:
        try:
            return replaced(view, refusal, responder(view, verdict))
        except Exception as error:  # noqa: BLE001 - the app's code; the client must be refused all the same
            self._report(error)
            return refusal


def _exposing(names: Sequence[str]) -> Field:
    return "Access-Control-Expose-Headers", ", ".join(names)
