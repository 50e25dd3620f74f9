"""Refusals as plain values: status, fields and body, the same under ASGI and WSGI.

Sources: RFC 6585 (429 is never stored by a cache), RFC 9457 (problem details), RFC 9110 (`Retry-After`,
`Accept`) and the problem types of draft-ietf-httpapi-ratelimit-headers-11.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.headers import Field, rate_limit_fields, retry_after_s
from ratelimit_middleware.request import RequestView

__all__ = ["Refusal", "answer", "over_limit", "unavailable"]

_TYPES = "https://iana.org/assignments/http-problem-types#"
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


def answer(view: RequestView, verdict: Verdict, styles: Sequence[str]) -> Refusal | list[Field]:
    """What a verdict means in HTTP: a refusal to send, or the fields to add to the app's own response.

    Args:
        view: the request.
        verdict: admitted or refused.
        styles: generations of the RateLimit fields to send.
    """
    return rate_limit_fields(verdict, styles) if verdict.allowed else over_limit(view, verdict, styles)


def over_limit(view: RequestView, verdict: Verdict, styles: Sequence[str]) -> Refusal:
    """429: one or more limits are used up.

    Args:
        view: the request.
        verdict: the refusal.
        styles: generations of the RateLimit fields to send.
    """
    wait_s = retry_after_s(verdict)
    problem = {
        "type": f"{_TYPES}quota-exceeded",
        "title": "Quota exceeded",
        "status": 429,
        "detail": _detail(verdict, wait_s),
        "violated-policies": list(verdict.violated),
    }
    retry_after = [] if wait_s is None else [("Retry-After", str(wait_s))]
    return _refusal(view, problem, [*retry_after, *rate_limit_fields(verdict, styles)])


def unavailable(view: RequestView) -> Refusal:
    """503: the limits cannot be checked, and the request is not let through unchecked."""
    problem = {
        "type": f"{_TYPES}temporary-reduced-capacity",
        "title": "Temporarily reduced capacity",
        "status": 503,
        "detail": "The server cannot check its limits at the moment; try again later.",
    }
    return _refusal(view, problem, [])


def _detail(verdict: Verdict, wait_s: int | None) -> str:
    limit = f"The limit of {verdict.binding.policy.text}" if verdict.binding else "A limit"
    if wait_s is None:
        return f"{limit} can never admit this request; waiting does not help."
    return f"{limit} is reached; try again in {wait_s} s."


def _refusal(view: RequestView, problem: dict[str, Any], fields: list[Field]) -> Refusal:
    if _prefers_text(view.header("accept")):
        media_type = "text/plain; charset=utf-8"
        body = f"{problem['title']}. {problem['detail']}\n".encode()
    else:
        media_type = "application/problem+json"
        body = json.dumps(problem).encode()
    headers = [
        *fields,
        ("Cache-Control", "no-store"),
        ("Content-Type", media_type),
        ("Content-Length", str(len(body))),
    ]
    return Refusal(problem["status"], headers, b"" if view.method == "HEAD" else body)


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
