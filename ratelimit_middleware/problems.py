"""The bodies of refusals: what can be written of them before a client is refused is written once.

Sources: RFC 9457 (problem details), RFC 9110 (`Accept`) and the problem types of
draft-ietf-httpapi-ratelimit-headers-11.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

__all__ = ["Problem", "exceeded", "exceeded_for_good", "not_allowed", "prefers_text", "unavailable"]

_TYPES = "https://iana.org/assignments/http-problem-types#"
_EXCEEDED = (f"{_TYPES}quota-exceeded", "Quota exceeded")
_SHORT = (f"{_TYPES}temporary-reduced-capacity", "Temporarily reduced capacity")
# None of the registered types says this: neither has the client asked too much, nor has the server shrunk.
_UNCHECKABLE = ("urn:problem-type:ratelimit-middleware:limits-unavailable", "Limits unavailable")
_WEIGHT = re.compile(r"q=(0(\.\d{0,3})?|1(\.0{0,3})?)")
_MOST_PROBLEMS = 1024
_MOST_ACCEPTS = 256
_LONGEST_ACCEPT = 256  # browsers send some 150 characters


class Problem(NamedTuple):
    """What a refusal says, in both of its forms.

    Attributes:
        as_json: a problem document.
        as_text: its title and detail.
        lacks_wait: whether the seconds to wait must be put in by `%`.
    """

    as_json: bytes
    as_text: bytes
    lacks_wait: bool = False


@lru_cache(maxsize=_MOST_PROBLEMS)
def exceeded(policy: str, violated: tuple[str, ...], status: int) -> Problem:
    """Limits are used up; it lacks the wait.

    Args:
        policy: the limit that binds, in the words of the rule file; empty if there is none.
        violated: names of the policies that refuse.
        status: the status code; 503 says that the server is short, not that the client asks too much.
    """
    detail = f"{_limit(_literal(policy))} is reached; try again in %d s."
    names = [_literal(name) for name in violated]
    return _problem(*_kind(status), status, detail, names)._replace(lacks_wait=True)


@lru_cache(maxsize=_MOST_PROBLEMS)
def exceeded_for_good(policy: str, violated: tuple[str, ...], status: int, detail: str) -> Problem:
    """Limits are used up, and no wait is told.

    Args:
        policy: as above.
        violated: as above.
        status: as above.
        detail: what is said, if not empty; else that waiting does not help.
    """
    detail = detail or f"{_limit(policy)} can never admit this request; waiting does not help."
    return _problem(*_kind(status), status, detail, violated)


@lru_cache(maxsize=_MOST_PROBLEMS)
def not_allowed(title: str, status: int, detail: str) -> Problem:
    """The request is on a list of those that are refused."""
    return _problem("about:blank", title, status, detail)


@lru_cache(maxsize=2)
def unavailable(*, without_store: bool) -> Problem:
    """The limits cannot be checked: the store does not answer, or nobody knows why."""
    kind = _UNCHECKABLE if without_store else _SHORT
    detail = "The server cannot check its limits at the moment; try again later."
    return _problem(*kind, HTTPStatus.SERVICE_UNAVAILABLE.value, detail)


def _kind(status: int) -> tuple[str, str]:
    return _SHORT if status == HTTPStatus.SERVICE_UNAVAILABLE else _EXCEEDED


def _limit(policy: str) -> str:
    return f"The limit of {policy}" if policy else "A limit"


def _problem(
    kind: str, title: str, status: int, detail: str, violated: Sequence[str] | None = None
) -> Problem:
    members: dict[str, object] = {"type": kind, "title": title, "status": status, "detail": detail}
    if violated is not None:
        members["violated-policies"] = violated
    return Problem(json.dumps(members).encode(), f"{title}. {detail}\n".encode())


def _literal(text: str) -> str:
    """What `%` leaves as `text`."""
    return text.replace("%", "%%")


def prefers_text(accept: str | None) -> bool:
    """Whether text is asked for above JSON; `*/*`, a tie or no `Accept` at all mean JSON.

    Asked as often as requests are refused, so answers are remembered, but not of long fields, with which a
    client could fill the memory.
    """
    if accept is None:
        return False
    return (_remembered if len(accept) <= _LONGEST_ACCEPT else _is_text_above_json)(accept)


def _is_text_above_json(accept: str) -> bool:
    weights = _weights(accept)
    text = max(_weight(weights, "text", "plain"), _weight(weights, "text", "html"))
    problem = max(_weight(weights, "application", "problem+json"), _weight(weights, "application", "json"))
    return text > problem


_remembered = lru_cache(maxsize=_MOST_ACCEPTS)(_is_text_above_json)


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
