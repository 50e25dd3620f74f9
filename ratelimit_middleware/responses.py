"""Refusals as plain values: status, fields and body, the same under ASGI and WSGI.

Sources: RFC 6585 (429 is never stored by a cache) and RFC 9110 (`Retry-After`).
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import NamedTuple, final

from ratelimit_middleware import problems
from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.field_numbers import seconds_up
from ratelimit_middleware.headers import Field, rate_limit_fields, retry_after_s
from ratelimit_middleware.problems import Problem, prefers_text
from ratelimit_middleware.request import RequestView

__all__ = ["Refusal", "not_allowed", "over_limit", "reason", "unavailable"]

_REASONS = {status.value: status.phrase for status in HTTPStatus}
_new = tuple.__new__
"""Past the constructors of named tuples, which cost several times what they do."""
_NO_STORE = ("Cache-Control", "no-store")


@final
class Refusal(NamedTuple):
    """A complete answer; clients that hear the same share it.

    Attributes:
        status: the status code.
        headers: name and value pairs, `Content-Length` included.
        body: the body; empty for `HEAD`.
    """

    status: int
    headers: tuple[Field, ...]
    body: bytes


def over_limit(
    view: RequestView,
    verdict: Verdict,
    styles: Sequence[str],
    *,
    status: int = 429,
    detail: str = "",
    problem: bool = True,
) -> Refusal:
    """One or more limits are used up.

    Args:
        view: the request.
        verdict: the refusal.
        styles: generations of the RateLimit fields to send.
        status: the status code; 503 says that the server is short, not that the client asks too much.
        detail: said in the place of the limit and the wait, if not empty.
        problem: whether the body may be a JSON problem; False = always plain text.
    """
    binding = verdict.binding
    policy = binding.policy.text if binding else ""
    fields = rate_limit_fields(verdict, styles)
    wait_s = retry_after_s(verdict)
    if wait_s is not None:
        fields = [("Retry-After", str(wait_s)), *fields]
    if detail or wait_s is None:
        said = problems.exceeded_for_good(policy, verdict.violated, status, detail)
    else:
        said = problems.exceeded(policy, verdict.violated, status)
    return _refusal(view, status, said, fields, problem, wait_s)


def not_allowed(view: RequestView, *, status: int = 403, detail: str = "", problem: bool = True) -> Refusal:
    """The request is on a list of those that are refused; waiting does not help.

    Args:
        view: the request.
        status: the status code.
        detail: what the body says, if not empty.
        problem: whether the body may be a JSON problem; False = always plain text.
    """
    said = problems.not_allowed(reason(status), status, detail or "Access from here is not allowed.")
    return _refusal(view, status, said, [], problem)


def unavailable(view: RequestView, *, retry_after_ns: int | None = None, problem: bool = True) -> Refusal:
    """503: the limits cannot be checked, and the request is not let through unchecked.

    Args:
        view: the request.
        retry_after_ns: how long until the store is asked again; None = it is not the store that fails, or
            nobody knows.
        problem: whether the body may be a JSON problem; False = always plain text.
    """
    wait = [] if retry_after_ns is None else [("Retry-After", str(seconds_up(retry_after_ns)))]
    return _refusal(view, 503, problems.unavailable(without_store=bool(wait)), wait, problem)


def reason(status: int) -> str:
    """The phrase that follows a status, also for one that no standard knows."""
    return _REASONS.get(status, "Refused")


def _refusal(
    view: RequestView,
    status: int,
    said: Problem,
    fields: list[Field],
    problem: bool,
    wait_s: int | None = None,
) -> Refusal:
    if problem and not prefers_text(view.header("accept")):
        media_type, body = "application/problem+json", said.as_json
    else:
        media_type, body = "text/plain; charset=utf-8", said.as_text
    if said.lacks_wait:
        body %= wait_s
    headers = (*fields, _NO_STORE, ("Content-Type", media_type), ("Content-Length", str(len(body))))
    return _new(Refusal, (status, headers, b"" if view.is_head else body))
