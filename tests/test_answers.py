"""From a rule set and a verdict to what is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ratelimit_middleware.algorithms.base import granted, refused
from ratelimit_middleware.answers import Answers
from ratelimit_middleware.decision import Policy, Verdict
from ratelimit_middleware.headers import Field
from ratelimit_middleware.nested import is_tighter
from ratelimit_middleware.request import RequestView, WsgiView
from ratelimit_middleware.responses import Refusal
from ratelimit_middleware.rules.load import load_rules

pytestmark = pytest.mark.arithmetic

SECOND = 1_000_000_000


def answers(rules: dict[str, Any], failures: list[Exception] | None = None) -> Answers:
    return Answers(load_rules(rules), ([] if failures is None else failures).append)


def request(**environ: str) -> WsgiView:
    return WsgiView({"REQUEST_METHOD": "GET", "PATH_INFO": "/", **environ})


def policy(name: str) -> Policy:
    return Policy(name, 5, 60 * SECOND, "5/minute")


def admitted(name: str = "a", remaining: int = 3) -> Verdict:
    return Verdict(True, 0, None, (policy(name),), (granted(0, 0, 5, remaining, SECOND),))  # noqa: FBT003


def denied(*names: str, binding: str = "") -> Verdict:
    """The one that binds has the longest wait."""
    waits_ns = [2 * SECOND if name == binding else SECOND for name in names]
    decisions = [refused(0, wait_ns, 5, 0, SECOND) for wait_ns in waits_ns]
    return Verdict(False, 0, max(waits_ns), [policy(name) for name in names], decisions)  # noqa: FBT003


def refusal(said: Answers, verdict: Verdict, **environ: str) -> Refusal:
    reply = said.answer(request(**environ), verdict)
    assert isinstance(reply, Refusal)
    return reply


def fields(said: Answers, verdict: Verdict, **environ: str) -> list[Field]:
    reply = said.answer(request(**environ), verdict)
    assert not isinstance(reply, Refusal)
    return reply


TWO_RULES: dict[str, Any] = {
    "response": {"detail": "Come back later.", "status": 420},
    "limits": {
        "/a": {"name": "a", "limit": ["5/minute", "9/hour"], "status": 503},
        "/b": {"name": "b", "limit": "5/minute", "response": {"detail": "B is slow."}},
        "/c": {"name": "c", "limit": "5/minute"},
    },
    "always": [{"name": "whole", "limit": "5/minute", "response": {"problem": False}}],
    "default": {"limit": "5/minute", "response": {"status": 403}},
}


@pytest.mark.parametrize(
    ("name", "status", "detail"),
    [
        ("a", 503, "Come back later."),
        ("a-2", 503, "Come back later."),
        ("b", 420, "B is slow."),
        ("c", 420, "Come back later."),
        ("default", 403, "Come back later."),
        ("a policy of older rules", 420, "Come back later."),
    ],
)
def test_a_rule_answers_as_it_says_and_else_as_the_file_does(name: str, status: int, detail: str) -> None:
    reply = refusal(answers(TWO_RULES), denied(name))

    assert reply.status == status
    assert json.loads(reply.body)["detail"] == detail


def test_of_several_rules_that_refuse_the_binding_one_answers() -> None:
    said = answers(TWO_RULES)

    assert refusal(said, denied("a", "b", "whole", binding="b")).status == 420
    assert refusal(said, denied("a", "b", "whole", binding="a")).status == 503
    assert refusal(said, denied("a", "b", "whole", binding="whole")).body.startswith(b"Quota exceeded. ")


def test_fields_on_refusals_only_leave_the_apps_answers_alone() -> None:
    said = answers({"response": {"headers_on": "refused", "expose_cors": True}})

    assert fields(said, admitted(), HTTP_ORIGIN="https://shop.example") == []
    assert dict(refusal(said, denied("a")).headers)["RateLimit"] == '"a";r=0;t=1'


def test_scripts_may_read_the_fields_where_the_request_has_an_origin() -> None:
    said = answers({"response": {"expose_cors": True, "headers": ["draft-7", "legacy"]}})
    names = "RateLimit-Policy, RateLimit, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
    origin = {"HTTP_ORIGIN": "https://shop.example"}

    assert fields(said, admitted(), **origin)[-1] == ("Access-Control-Expose-Headers", names)
    assert refusal(said, denied("a"), **origin).headers[-1] == (
        "Access-Control-Expose-Headers",
        f"{names}, Retry-After",
    )
    assert "Access-Control-Expose-Headers" not in dict(fields(said, admitted()))
    assert "Access-Control-Expose-Headers" not in dict(refusal(said, denied("a")).headers)


def test_what_is_not_sent_is_not_exposed() -> None:
    said = answers({"response": {"expose_cors": True, "headers": "none"}})
    origin = {"HTTP_ORIGIN": "null"}

    assert fields(said, admitted(), **origin) == []
    assert (
        dict(refusal(said, denied("a"), **origin).headers)["Access-Control-Expose-Headers"] == "Retry-After"
    )


def test_the_shared_part_of_the_settings_is_not_changed_by_an_answer() -> None:
    said = answers({"response": {"expose_cors": True}})
    first = refusal(said, denied("a"), HTTP_ORIGIN="null")

    assert refusal(said, denied("a"), HTTP_ORIGIN="null") == first


def polite(view: RequestView, verdict: Verdict) -> tuple[int, dict[str, str], str]:
    """A responder."""
    return 503, {"X-Path": view.path}, f"{verdict.violated[0]} is busy"


def failing(view: RequestView, verdict: Verdict) -> object:
    """A responder with a bug."""
    raise LookupError("lost")


def nonsensical(view: RequestView, verdict: Verdict) -> object:
    """A responder that gives no answer."""
    return "no"


def responding(name: str) -> dict[str, Any]:
    return {
        "response": {"expose_cors": True},
        "default": {
            "limit": "5/minute",
            "response": {"responder": f"python:{__name__}:{name}", "status": 403},
        },
    }


def test_an_own_responder_gives_the_answer() -> None:
    reply = refusal(answers(responding("polite")), denied("default"), HTTP_ORIGIN="null")

    assert (reply.status, reply.body) == (503, b"default is busy")
    assert dict(reply.headers) == {
        "Retry-After": "1",
        "RateLimit-Policy": '"default";q=5;w=60',
        "RateLimit": '"default";r=0;t=1',
        "Cache-Control": "no-store",
        "X-Path": "/",
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": "15",
        "Access-Control-Expose-Headers": "RateLimit-Policy, RateLimit, Retry-After",
    }


@pytest.mark.parametrize(("name", "error"), [("failing", LookupError), ("nonsensical", ValueError)])
def test_a_responder_that_fails_is_reported_and_the_client_refused_all_the_same(
    name: str, error: type[Exception]
) -> None:
    failures: list[Exception] = []
    reply = refusal(answers(responding(name), failures), denied("default"))

    assert reply.status == 403
    assert json.loads(reply.body)["violated-policies"] == ["default"]
    assert [type(failure) for failure in failures] == [error]


def test_the_503_of_a_limiter_that_fails_is_text_where_the_file_says_so() -> None:
    said = answers({"response": {"problem": False, "status": 429, "detail": "x"}})

    assert said.unavailable(request()).status == 503
    assert said.unavailable(request()).body.startswith(b"Temporarily reduced capacity. The server cannot")


def test_less_left_is_tighter_and_nothing_checked_never_is() -> None:
    nothing = Verdict(True, 0, None)  # noqa: FBT003

    assert is_tighter(admitted(remaining=1), admitted(remaining=2))
    assert not is_tighter(admitted(remaining=2), admitted(remaining=2))
    assert is_tighter(admitted(), nothing)
    assert not is_tighter(nothing, admitted())


def test_a_request_over_a_limit_is_told_of_and_no_other() -> None:
    told: list[RequestView] = []
    failures: list[Exception] = []
    said = Answers(load_rules({"default": "5/minute"}), failures.append, told.append)
    view = request()
    said.answer(view, admitted())
    assert told == []
    said.answer(view, denied("a"))
    assert told == [view]
