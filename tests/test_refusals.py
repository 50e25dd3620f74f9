"""Refusals that are remembered say what they would say if they were written anew."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import granted, refused
from ratelimit_middleware.decision import Decision, Outcome, Policy, Verdict
from ratelimit_middleware.refusals import Refusals
from ratelimit_middleware.request import WsgiView
from ratelimit_middleware.responses import over_limit
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.verdicts import refused_too

pytestmark = pytest.mark.arithmetic

SECOND = 1_000_000_000
STYLES = ("draft-11", "draft-7", "draft-6", "legacy", "legacy-seconds")
ACCEPTS = ("", "*/*", "text/html", "application/json", "text/plain;q=0.4, application/json;q=0.3")
POLICIES = [Policy(name, quota, 60 * SECOND, f"{quota}/minute") for name, quota in (("a", 5), ("b", 9))]
TIMES = st.integers(0, 3 * SECOND) | st.integers(0, 10**30)
REFUSED = st.builds(
    refused, TIMES, TIMES | st.none(), st.integers(1, 9), st.integers(-1, 9) | st.just(10**18), TIMES
)
GRANTED = st.builds(granted, TIMES, st.just(0), st.just(9), st.integers(0, 9), TIMES)


def request(accept: str = "", method: str = "GET") -> WsgiView:
    return WsgiView({"REQUEST_METHOD": method, "PATH_INFO": "/", "HTTP_ACCEPT": accept})


def verdict(*outcomes: tuple[Policy, Decision]) -> Verdict:
    return refused_too(Verdict(False, 0, None), [Outcome(*outcome) for outcome in outcomes])  # noqa: FBT003


def refusals(*styles: str, **rule: Any) -> Refusals:
    named = {"/a": {"name": "a", "limit": "5/minute", **rule}, "/b": {"name": "b", "limit": "9/minute"}}
    return Refusals(load_rules({"response": {"headers": list(styles or STYLES[:1])}, "limits": named}))


@pytest.mark.parametrize("styles", [STYLES[:1], ("legacy",), ("draft-7", "draft-6"), ("legacy-seconds",)])
def test_a_remembered_refusal_is_what_would_be_written_now(styles: tuple[str, ...]) -> None:
    asked = refusals(*styles)

    @given(REFUSED, REFUSED | GRANTED | st.none(), st.sampled_from(ACCEPTS), st.sampled_from(["GET", "HEAD"]))
    def same(first: Decision, second: Decision | None, accept: str, method: str) -> None:
        found = [(POLICIES[0], first)] + ([(POLICIES[1], second)] if second else [])
        for outcomes in (found, found[::-1]):
            heard, view = verdict(*outcomes), request(accept, method)
            assert asked.refusal(view, heard) == over_limit(view, heard, styles)
            assert asked.refusal(view, heard) == over_limit(view, heard, styles)

    same()


def test_clients_that_are_told_the_same_share_one_refusal() -> None:
    asked = refusals()
    first = asked.refusal(request(), verdict((POLICIES[0], refused(0, 2 * SECOND, 5, 0, SECOND))))
    second = asked.refusal(request(), verdict((POLICIES[0], refused(777, 2 * SECOND - 5, 5, 0, 1))))

    assert second is first


@pytest.mark.parametrize(
    "other",
    [
        refused(0, 2 * SECOND + 1, 5, 0, SECOND),
        refused(0, 2 * SECOND, 5, 1, SECOND),
        refused(0, None, 5, 0, 2 * SECOND),
    ],
)
def test_another_wait_or_remainder_is_another_refusal(other: Decision) -> None:
    asked = refusals()
    first = asked.refusal(request(), verdict((POLICIES[0], refused(0, 2 * SECOND, 5, 0, SECOND))))

    assert asked.refusal(request(), verdict((POLICIES[0], other))) != first


def test_the_moment_matters_where_it_is_told() -> None:
    asked = refusals("legacy")
    moments = [
        dict(asked.refusal(request(), verdict((POLICIES[0], refused(at_ns, SECOND, 5, 0, SECOND)))).headers)[
            "X-RateLimit-Reset"
        ]
        for at_ns in (10 * SECOND, 10 * SECOND + 1)
    ]

    assert moments == ["11", "12"]


def test_rules_that_are_told_alike_keep_their_own_words() -> None:
    asked = refusals(response={"detail": "Not so fast.", "status": 420})
    told = refused(0, SECOND, 5, 0, SECOND)
    own, common = (asked.refusal(request(), verdict((policy, told))) for policy in POLICIES)

    assert (own.status, common.status) == (420, 429)
    assert b"Not so fast." in own.body
    assert b"9/minute" in common.body


def test_a_flood_of_different_waits_is_not_kept() -> None:
    asked = refusals()
    for wait_s in range(1, 5000):
        asked.refusal(request(), verdict((POLICIES[0], refused(0, wait_s * SECOND, 5, 0, SECOND))))

    assert len(asked._written) <= 1024
