"""Refusals as plain values: status, fields and body, the same under ASGI and WSGI.

Sources: RFC 6585 (429 is never stored by a cache), RFC 9457 (problem details), RFC 9110 (`Retry-After`,
`Accept`) and the problem types of draft-ietf-httpapi-ratelimit-headers-11.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.headers import Field, rate_limit_fields, retry_after_s, seconds_up
from ratelimit_middleware.request import RequestView

__all__ = ["Refusal", "not_allowed", "over_limit", "reason", "unavailable"]

_TYPES = "https://iana.org/assignments/http-problem-types#"
_EXCEEDED = ("quota-exceeded", "Quota exceeded")
_SHORT = ("temporary-reduced-capacity", "Temporarily reduced capacity")
# None of the registered types says this: neither has the client asked too much, nor has the server shrunk.
_UNCHECKABLE = {
    "type": "urn:problem-type:ratelimit-middleware:limits-unavailable",
    "title": "Limits unavailable",
}
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_WEIGHT = re.compile(r"q=(0(\.\d{0,3})?|1(\.0{0,3})?)")


class Refusal(NamedTuple):
    """A complete answer.

    Attributes:
        status: the status code.
        headers: name and value pairs, `Content-Length` included.
        body: the body; empty for `HEAD`.
    """

    status: int
    headers: list[Field]
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
    wait_s = retry_after_s(verdict)
    kind, title = _SHORT if status == HTTPStatus.SERVICE_UNAVAILABLE else _EXCEEDED
    members = {
        "type": f"{_TYPES}{kind}",
        "title": title,
        "status": status,
        "detail": detail or _detail(verdict, wait_s),
        "violated-policies": list(verdict.violated),
    }
    retry_after = [] if wait_s is None else [("Retry-After", str(wait_s))]
    return _refusal(view, members, [*retry_after, *rate_limit_fields(verdict, styles)], problem=problem)


def not_allowed(view: RequestView, *, status: int = 403, detail: str = "", problem: bool = True) -> Refusal:
    """The request is on a list of those that are refused; waiting does not help.

    Args:
        view: the request.
        status: the status code.
        detail: what the body says, if not empty.
        problem: whether the body may be a JSON problem; False = always plain text.
    """
    members = {
        "type": "about:blank",
        "title": reason(status),
        "status": status,
        "detail": detail or "Access from here is not allowed.",
    }
    return _refusal(view, members, [], problem=problem)


def unavailable(view: RequestView, *, retry_after_ns: int | None = None, problem: bool = True) -> Refusal:
    """503: the limits cannot be checked, and the request is not let through unchecked.

    Args:
        view: the request.
        retry_after_ns: how long until the store is asked again; None = it is not the store that fails, or
            nobody knows.
        problem: whether the body may be a JSON problem; False = always plain text.
    """
    kind, title = _SHORT
    fields: list[Field] = []
    detail = "The server cannot check its limits at the moment; try again later."
    members = {"type": f"{_TYPES}{kind}", "title": title, "status": 503, "detail": detail}
    if retry_after_ns is not None:
        members.update(_UNCHECKABLE)
        fields.append(("Retry-After", str(seconds_up(retry_after_ns))))
    return _refusal(view, members, fields, problem=problem)


def reason(status: int) -> str:
    """The phrase that follows a status, also for one that no standard knows."""
    return _REASONS.get(status, "Refused")


def _detail(verdict: Verdict, wait_s: int | None) -> str:
    limit = f"The limit of {verdict.binding.policy.text}" if verdict.binding else "A limit"
    if wait_s is None:
        return f"{limit} can never admit this request; waiting does not help."
    return f"{limit} is reached; try again in {wait_s} s."


def _refusal(view: RequestView, members: dict[str, Any], fields: list[Field], *, problem: bool) -> Refusal:
    if problem and not _prefers_text(view.header("accept")):
        media_type = "application/problem+json"
        body = json.dumps(members).encode()
    else:
        media_type = "text/plain; charset=utf-8"
        body = f"{members['title']}. {members['detail']}\n".encode()
    headers = [
        *fields,
        ("Cache-Control", "no-store"),
        ("Content-Type", media_type),
        ("Content-Length", str(len(body))),
    ]
    return Refusal(members["status"], headers, b"" if view.is_head else body)


def _prefers_text(accept: str | None) -> bool:
    """Whether text is asked for above JSON; `*/*`, a tie or no `Accept` at all mean JSON."""
    if accept is None:
        return False
    weights = _weights(accept)
    text = max(_weight(weights, "text", "plain"), _weight(weights, "text", "html"))
    problem = max(_weight(weights, "application", "problem+json"), _weight(weights, "application", "json"))
    return text > problem


def _weights(accept: str) -> dict[str, float]:
    """The media ranges of an `Accept` field with their weights; a malformed weight drops its range."""
    weights = {}
    for member in accept.lower().split(","):
        media_range, *parameters = (part.strip() for part in member.split(";"))
        weight = next((parameter for parameter in parameters if parameter.startswith("q=")), "q=1")
        if _WEIGHT.fullmatch(weight):
            weights[media_range] = float(weight[2:])
    return weights


def _weight(weights: dict[str, float], kind: str, name: str) -> float:
    """The weight of the most specific range that matches (RFC 9110, section 12.5.1)."""
    for media_range in (f"{kind}/{name}", f"{kind}/*", "*/*"):
        if media_range in weights:
            return weights[media_range]
    return 0.0
