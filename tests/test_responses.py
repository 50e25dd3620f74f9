"""Refusals as plain values."""

from __future__ import annotations

import json

import pytest

from ratelimit_middleware.algorithms.base import granted, refused
from ratelimit_middleware.decision import Outcome, Policy, Verdict
from ratelimit_middleware.request import WsgiView
from ratelimit_middleware.responses import Refusal, over_limit, unavailable

pytestmark = pytest.mark.arithmetic

SECOND = 1_000_000_000
POLICY = Policy("login", 5, 60 * SECOND, "5/minute")
STYLES = ("draft-11",)


def request(accept: str | None = None, method: str = "GET") -> WsgiView:
    """A view of a request with this `Accept`."""
    environ = {"REQUEST_METHOD": method, "PATH_INFO": "/login"}
    return WsgiView(environ if accept is None else {**environ, "HTTP_ACCEPT": accept})


def verdict(retry_ns: int | None, *passing: Outcome) -> Verdict:
    """A refusal by one limit, beside others that let the request pass."""
    refusing = Outcome(POLICY, refused(0, retry_ns, 5, 0, SECOND))
    policies, decisions = zip(*passing, refusing, strict=True)
    return Verdict(allowed=False, wait_ns=0, retry_after_ns=retry_ns, policies=policies, decisions=decisions)


def media_type(refusal: Refusal) -> str:
    """The media type without parameters."""
    return dict(refusal.headers)["Content-Type"].partition(";")[0]


def test_over_limit_is_a_429_with_the_drafts_problem() -> None:
    refusal = over_limit(request(), verdict(8_200_000_000), STYLES)

    assert refusal.status == 429
    assert json.loads(refusal.body) == {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota exceeded",
        "status": 429,
        "detail": "The limit of 5/minute is reached; try again in 9 s.",
        "violated-policies": ["login"],
    }
    assert refusal.headers == (
        ("Retry-After", "9"),
        ("RateLimit-Policy", '"login";q=5;w=60'),
        ("RateLimit", '"login";r=0;t=9'),
        ("Cache-Control", "no-store"),
        ("Content-Type", "application/problem+json"),
        ("Content-Length", str(len(refusal.body))),
    )


def test_without_hope_there_is_no_retry_after_and_the_body_says_so() -> None:
    refusal = over_limit(request(), verdict(None), STYLES)

    assert "Retry-After" not in dict(refusal.headers)
    assert json.loads(refusal.body)["detail"] == (
        "The limit of 5/minute can never admit this request; waiting does not help."
    )


def test_violated_policies_names_the_refusing_limits_only() -> None:
    passing = Outcome(POLICY._replace(name="hour"), granted(0, 0, 20, 9, SECOND))
    refusal = over_limit(request(), verdict(SECOND, passing), STYLES)

    assert json.loads(refusal.body)["violated-policies"] == ["login"]


def test_unavailable_is_a_503_that_promises_no_time() -> None:
    refusal = unavailable(request())

    assert refusal.status == 503
    assert json.loads(refusal.body) == {
        "type": "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
        "title": "Temporarily reduced capacity",
        "status": 503,
        "detail": "The server cannot check its limits at the moment; try again later.",
    }
    assert [name for name, _ in refusal.headers] == ["Cache-Control", "Content-Type", "Content-Length"]


@pytest.mark.parametrize(("wait_ns", "seconds"), [(0, "1"), (1, "1"), (SECOND, "1"), (SECOND + 1, "2")])
def test_an_outage_of_the_store_has_a_type_of_its_own_and_a_wait(wait_ns: int, seconds: str) -> None:
    refusal = unavailable(request(), retry_after_ns=wait_ns)

    assert refusal.status == 503
    assert json.loads(refusal.body) == {
        "type": "urn:problem-type:ratelimit-middleware:limits-unavailable",
        "title": "Limits unavailable",
        "status": 503,
        "detail": "The server cannot check its limits at the moment; try again later.",
    }
    assert refusal.headers[0] == ("Retry-After", seconds)


def test_a_status_of_503_says_that_the_server_is_short() -> None:
    refusal = over_limit(request(), verdict(SECOND), STYLES, status=503)
    problem = json.loads(refusal.body)

    assert refusal.status == problem["status"] == 503
    assert problem["type"].endswith("#temporary-reduced-capacity")
    assert problem["title"] == "Temporarily reduced capacity"
    assert problem["violated-policies"] == ["login"]
    assert dict(refusal.headers)["Retry-After"] == "1"


def test_any_other_status_is_a_quota_exceeded() -> None:
    problem = json.loads(over_limit(request(), verdict(SECOND), STYLES, status=403).body)

    assert (problem["status"], problem["title"]) == (403, "Quota exceeded")


@pytest.mark.parametrize(("accept", "body"), [(None, None), ("text/plain", b"Quota exceeded. Slow down.\n")])
def test_an_own_detail_is_said_in_both_forms(accept: str | None, body: bytes | None) -> None:
    refusal = over_limit(request(accept), verdict(SECOND), STYLES, detail="Slow down.")

    assert refusal.body == body or json.loads(refusal.body)["detail"] == "Slow down."


@pytest.mark.parametrize("accept", [None, "application/json", "application/problem+json"])
def test_without_problems_everybody_gets_text(accept: str | None) -> None:
    for refusal in (
        over_limit(request(accept), verdict(SECOND), STYLES, problem=False),
        unavailable(request(accept), problem=False),
    ):
        assert media_type(refusal) == "text/plain"
        assert b"{" not in refusal.body


@pytest.mark.parametrize("accept", [None, "text/plain"])
def test_head_has_the_headers_of_get_and_no_body(accept: str | None) -> None:
    get = over_limit(request(accept), verdict(SECOND), STYLES)
    head = over_limit(request(accept, "HEAD"), verdict(SECOND), STYLES)

    assert head == Refusal(get.status, get.headers, b"")
    assert dict(head.headers)["Content-Length"] == str(len(get.body))


def test_a_method_spelled_head_keeps_its_body_as_servers_send_one_for_it() -> None:
    assert over_limit(request(None, "head"), verdict(SECOND), STYLES).body


def test_the_text_form_says_the_same() -> None:
    refusal = over_limit(request("text/plain"), verdict(8 * SECOND), STYLES)

    assert refusal.body == b"Quota exceeded. The limit of 5/minute is reached; try again in 8 s.\n"
    assert dict(refusal.headers)["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain",
        "text/html",
        "TEXT/*",
        "text/plain;q=0.5, */*;q=0.1",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "text/html;level=1;q=0.7, application/json;q=0.3",
        "application/json;q=0, text/plain;q=0.001",
    ],
)
def test_text_is_sent_to_those_who_ask_for_it_first(accept: str) -> None:
    assert media_type(over_limit(request(accept), verdict(SECOND), STYLES)) == "text/plain"


@pytest.mark.parametrize(
    "accept",
    [
        None,
        "",
        "*/*",
        "application/json",
        "application/problem+json",
        "text/html, */*",
        "text/plain;q=0.4, application/*;q=0.5",
        "text/plain;q=0, text/html;q=0",
        "image/png",
        "text/plain;q=2",
        "text/plain;q=nan",
        "text/plain;q=",
        ",;,=/;q=1;",
        "text/plain, text/*;q=0.5, application/problem+json",
    ],
)
def test_json_is_sent_to_everybody_else(accept: str | None) -> None:
    refusal = over_limit(request(accept), verdict(SECOND), STYLES)

    assert media_type(refusal) == "application/problem+json"
