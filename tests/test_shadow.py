"""Watching in the place of refusing: rules, shares of clients, whole files; and what is sent of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ratelimit_middleware.cli.explain import Question, explain
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.shares import Share
from ratelimit_middleware.stores.memory import MemoryStore
from tests.conftest import Ask

pytestmark = pytest.mark.anyio

Limited = Callable[..., Ask]

PEERS = [f"192.0.2.{number}" for number in range(200)]


async def statuses(ask: Ask, times: int, path: str = "/", **how: Any) -> list[int]:
    return [(await ask(path, **how)).status_code for _ in range(times)]


def broken(_view: object) -> str:
    """A function of an app, with a bug."""
    raise LookupError


async def enforced_for(limited: Limited, **rule: Any) -> set[str]:
    """The clients of whom the second request is refused."""
    ask = limited({"limits": {"/": {"limit": "1/minute", "name": "r", **rule}}})
    return {peer for peer in PEERS if await statuses(ask, 2, peer=peer) == [200, 429]}


async def test_a_share_of_the_clients_is_refused_and_a_larger_share_holds_the_smaller(
    limited: Limited,
) -> None:
    quarter = await enforced_for(limited, enforce="25%")
    half = await enforced_for(limited, enforce="50%")
    assert 30 < len(quarter) < 70 < len(half) < 130
    assert quarter < half
    assert await enforced_for(limited, enforce="25%") == quarter
    assert await enforced_for(limited, enforce="100%") == set(PEERS)


async def test_rules_choose_their_clients_apart(limited: Limited) -> None:
    assert await enforced_for(limited, enforce="25%") != await enforced_for(limited, enforce="25%", name="s")


async def test_all_limits_of_a_rule_agree_on_a_client(limited: Limited) -> None:
    ask = limited({"limits": {"/": {"limit": ["2/minute", "4/hour"], "enforce": "50%"}}})
    seen = {tuple(await statuses(ask, 5, peer=peer)) for peer in PEERS[:40]}
    assert seen == {(200,) * 5, (200, 200, 429, 429, 429)}


async def test_clients_that_are_only_watched_fall_under_the_default(limited: Limited) -> None:
    ask = limited({"limits": {"/": {"limit": "1/minute", "enforce": "50%"}}, "default": "3/minute"})
    seen = {tuple(await statuses(ask, 5, peer=peer)) for peer in PEERS[:40]}
    assert seen == {(200, 429, 429, 429, 429), (200, 200, 200, 429, 429)}


async def test_a_share_goes_with_tiers_and_penalties(limited: Limited, clock: ManualClock) -> None:
    rule = {"limit": "1/10s", "enforce": "50%", "tiers": True, "penalty": {"after": 2, "block": "1m"}}
    tiers = {"by": "header:x-plan", "trusted": True, "pro": {"scale": 2}}
    ask = limited({"limits": {"/": rule}, "tiers": tiers})
    seen = set()
    for peer in PEERS[:20]:
        answers = [await ask("/", peer=peer, x_plan="pro") for _ in range(5)]
        seen.add(tuple(int(answer.headers.get("retry-after", "0")) for answer in answers))
    assert seen == {(0, 0, 10, 60, 60), (0,) * 5}


FILE: dict[str, Any] = {
    "mode": "shadow",
    "response": {"shadow_header": True},
    "deny": {"ips": "203.0.113.0/24"},
    "limits": {
        "/a": {"limit": "1/minute", "penalty": {"after": 1, "block": "5m"}},
        "/q": {"limit": "1/second per global", "behavior": "queue", "queue": "2s"},
        "/k": {"limit": "1/minute per user", "missing": "deny", "name": "k"},
    },
    "default": {"limit": "1/hour", "name": "rest"},
}


async def shadows(ask: Ask, times: int, path: str, **how: Any) -> list[str]:
    answers = [await ask(path, **how) for _ in range(times)]
    assert {answer.status_code for answer in answers} == {200}
    assert not any("ratelimit" in answer.headers for answer in answers)
    return [answer.headers.get("x-ratelimit-shadow", "") for answer in answers]


async def test_a_file_that_watches_tells_what_it_would_do_and_does_nothing(limited: Limited) -> None:
    ask = limited(FILE)
    assert await shadows(ask, 3, "/a") == [
        '"a";r=0;t=60',
        '"a";r=0;t=60;refused, "a-penalty";r=0;t=300;refused',
        '"a";r=0;t=60;refused, "a-penalty";r=0;t=300;refused',
    ]
    assert await shadows(ask, 4, "/q") == [
        '"q";r=0;t=1',
        '"q";r=0;t=2;delayed',
        '"q";r=0;t=3;delayed',
        '"q";r=0;t=1;refused',
    ]
    assert await shadows(ask, 2, "/other") == ['"rest";r=0;t=3600', '"rest";r=0;t=3600;refused']
    assert (await shadows(ask, 1, "/k"))[0].endswith(";refused")
    assert await shadows(ask, 1, "/a", peer="203.0.113.1") == [""]


async def test_a_file_that_watches_passes_requests_when_it_cannot_decide(
    limited: Limited, caplog: pytest.LogCaptureFixture
) -> None:
    ask = limited({"mode": "shadow", "default": "python:tests.test_shadow:broken"})
    assert await statuses(ask, 3) == [200] * 3
    assert caplog.text.count("requests pass because the rules only watch") == 1


async def test_a_candidate_beside_a_live_rule_changes_nothing_for_clients(limited: Limited) -> None:
    rules: dict[str, Any] = {
        "limits": {
            "/api": "3/minute",
            "candidate": {"routes": ["/api"], "limit": "1/minute", "mode": "shadow"},
        }
    }
    assert await statuses(limited(rules), 4, "/api") == [200, 200, 200, 429]
    ask = limited({**rules, "response": {"shadow_header": True, "expose_cors": True}})
    answers = [await ask("/api", origin="https://shop.example") for _ in range(4)]
    assert [answer.headers["x-ratelimit-shadow"] for answer in answers] == [
        '"candidate";r=0;t=60',
        *['"candidate";r=0;t=60;refused'] * 3,
    ]
    exposed = answers[3].headers["access-control-expose-headers"]
    assert exposed == "RateLimit-Policy, RateLimit, X-RateLimit-Shadow, Retry-After"


async def test_without_the_setting_no_client_sees_a_shadow(limited: Limited) -> None:
    response = await limited({"default": {"limit": "1/minute", "mode": "shadow"}})()
    assert not [name for name in response.headers if "ratelimit" in name]


def test_explain_marks_the_limits_of_a_file_that_watches(tmp_path: Any) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("mode: shadow\ndeny: {ips: 192.0.2.1}\ndefault: 1/minute\n")
    text, code = explain(str(path), Question("GET", "/", "192.0.2.9", repeat=2))
    assert "default: 1/minute, shadow: never refuses" in text
    assert "requests 1 to 2: admitted" in text
    assert "the file only watches" in explain(str(path), Question("GET", "/", "192.0.2.1"))[0]
    assert code == 0


def test_a_share_is_a_part_of_a_percent_at_least() -> None:
    for number in (0, -1, 10_001):
        with pytest.raises(InvalidLimitError):
            Share(number)
    (rule,) = load_rules({"limits": {"/": {"limit": "1/minute", "enforce": "0.5%"}}}).limits
    assert rule.limits[0].share == Share(50, "/")


def test_a_watched_request_is_settled_as_well(clock: ManualClock) -> None:
    from ratelimit_middleware.wsgi import RateLimitMiddleware

    store = MemoryStore(clock=clock)
    rules = {"mode": "shadow", "default": {"concurrency": "1"}}

    def app(_environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b""]

    limited = RateLimitMiddleware(app, rules, store=store)
    for _ in range(3):
        body: Any = limited({"REMOTE_ADDR": "192.0.2.1"}, lambda *_: lambda _data: None)
        list(body)
        body.close()
    verdict = limited._registry.admit(limited._views.make({"REMOTE_ADDR": "192.0.2.1"}))
    assert [outcome.decision.allowed for outcome in verdict.shadows] == [True]
