"""Events, hooks, counters and the log of refusals, under ASGI and WSGI."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.counters import Counters, RuleCounts
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError, StoreError
from ratelimit_middleware.events import Hook, Shadow, VerdictEvent
from ratelimit_middleware.refusal_log import RefusalLog
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import RequestView, WsgiView
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.stores.memory import MemoryStore
from tests.conftest import Ask

pytestmark = pytest.mark.anyio

Limited = Callable[..., Ask]


class Recorder:
    """A hook that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[VerdictEvent] = []

    def on_verdict(self, event: VerdictEvent) -> None:
        self.events.append(event)


class Broken:
    """A hook with a bug."""

    def on_verdict(self, event: VerdictEvent) -> None:
        raise LookupError(event.rule)


class Deaf(MemoryStore):
    """A store that does not answer."""

    def take(self, checks: Any) -> list[Decision]:
        raise StoreError("no answer")


def plan_of(view: RequestView) -> str | None:
    """A function of an app."""
    return view.header("x-plan")


RULES: dict[str, Any] = {
    "deny": {"ips": "203.0.113.0/24"},
    "exempt": {"ips": "198.51.100.0/24"},
    "tiers": {"by": "python:tests.test_events:plan_of", "pro": {"scale": 2}},
    "limits": {
        "GET /items/{id}": {"limit": "2/minute", "name": "items", "tiers": True},
        "candidate": {"routes": "/items/**", "limit": "1/minute", "mode": "shadow"},
        "/queue": {"limit": "10/second per global", "behavior": "queue"},
        "/key": ["1/minute per header:X-Key", "9/minute"],
        "/ban": {"limit": "1/minute", "name": "ban", "penalty": {"after": 1, "block": "5m"}},
    },
}


async def events(limited: Limited, *asked: dict[str, Any], rules: Any = RULES, **settings: Any) -> list[Any]:
    """What a hook is told of some requests."""
    recorder = Recorder()
    ask = limited(rules, hooks=[recorder], **settings)
    for how in asked:
        await ask(**how)
    return recorder.events


async def test_an_event_tells_all_of_an_admission(limited: Limited, clock: ManualClock) -> None:
    (event,) = await events(limited, {"path": "/items/7", "x_plan": "pro"})
    assert event == VerdictEvent(
        at_ns=clock.now_ns(),
        kind="admitted",
        rules=("items",),
        rule="items",
        policy="items",
        route="GET /items/{id}",
        key="items|192.0.2.1",
        method="GET",
        tier="pro",
        shadows=(Shadow("candidate", "candidate", "candidate|192.0.2.1", would_refuse=False),),
    )


async def test_an_event_tells_who_refused_and_what_shadows_say(limited: Limited) -> None:
    *_, event = await events(limited, *[{"path": "/items/7"}] * 3)
    assert (event.kind, event.refused_by, event.rule, event.tier) == ("refused", ("items",), "items", None)
    assert event.retry_after_ns == 60 * 10**9
    assert [shadow.would_refuse for shadow in event.shadows] == [True]


@pytest.mark.parametrize(
    ("how", "kind", "key"),
    [
        ({"peer": "203.0.113.9"}, "denied", "203.0.113.9"),
        ({"peer": "198.51.100.9"}, "exempt", "198.51.100.9"),
        ({"path": "/nowhere"}, "uncounted", "192.0.2.1"),
        ({"path": "/queue"}, "admitted", "%2Fqueue|*global"),
    ],
)
async def test_each_kind_of_verdict_is_told(
    limited: Limited, how: dict[str, Any], kind: str, key: str
) -> None:
    (event,) = await events(limited, how)
    assert event.kind == kind
    assert event.key.replace("/queue", "%2Fqueue") == key


async def test_a_delay_is_told_with_its_wait(limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ratelimit_middleware.wsgi.time.sleep", lambda _seconds: None)
    first, second = await events(limited, *[{"path": "/queue"}] * 2)
    assert (first.kind, second.kind, second.wait_ns) == ("admitted", "delayed", 10**8)


async def test_a_queue_without_places_is_told_as_a_refusal(
    clock: ManualClock, wsgi_client: Callable[..., Any]
) -> None:
    from ratelimit_middleware.wsgi import RateLimitMiddleware

    def app(_environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b""]

    recorder = Recorder()
    client = wsgi_client(
        RateLimitMiddleware(app, RULES, clock=clock, hooks=[recorder], max_waiting_threads=0)
    )
    assert [client.get("/queue").status_code for _ in range(2)] == [200, 429]
    assert [event.kind for event in recorder.events] == ["admitted", "refused"]


async def test_limits_that_cannot_be_checked_are_told(limited: Limited, clock: ManualClock) -> None:
    (event,) = await events(limited, {"path": "/key"}, store=Deaf(clock=clock), clock=clock)
    assert (event.kind, event.rules) == ("unavailable", ())


async def test_a_block_is_told_under_its_rule(limited: Limited) -> None:
    *_, event = await events(limited, *[{"path": "/ban"}] * 3)
    assert (event.rule, event.policy, event.key) == ("ban", "ban-penalty", "ban%23penalty|192.0.2.1")
    assert (event.refused_by, event.retry_after_ns) == (("ban",), 300 * 10**9)


async def test_secrets_and_made_up_methods_are_not_told(limited: Limited) -> None:
    *_, event = await events(limited, *[{"path": "/key", "x_key": "very-secret", "method": "BREW"}] * 2)
    assert event.policy == "key"
    assert "very-secret" not in repr(event)
    assert event.method == "*other"


async def test_a_file_that_watches_tells_of_what_it_would_have_denied(limited: Limited) -> None:
    rules = {"mode": "shadow", "deny": {"ips": "203.0.113.0/24"}, "default": "1/minute"}
    watched, denied = await events(limited, {}, {"peer": "203.0.113.9"}, rules=rules)
    assert (watched.kind, watched.would_deny, watched.shadows[0].rule) == ("uncounted", False, "default")
    assert (denied.kind, denied.would_deny, denied.shadows) == ("uncounted", True, ())


async def test_a_hook_that_fails_disturbs_neither_the_request_nor_other_hooks(
    limited: Limited, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    ask = limited(RULES, hooks=[Broken(), recorder])
    for _ in range(5):
        assert (await ask("/nowhere")).status_code == 200
    assert len(recorder.events) == 5
    assert caplog.text.count("a hook for verdicts failed") == 1
    clock.advance(60)
    await ask("/nowhere")
    assert caplog.text.count("a hook for verdicts failed") == 2


def test_what_is_no_hook_is_refused_when_the_middleware_is_built(limited: Limited) -> None:
    with pytest.raises(InvalidLimitError, match="on_verdict"):
        limited(RULES, hooks=[print])
    with pytest.raises(InvalidLimitError, match=r"hooks=\[Counters\(\)\]"):
        limited(RULES, hooks=Counters())


def test_without_hooks_nothing_is_noted(clock: ManualClock) -> None:
    registry = LimiterRegistry(load_rules({"default": "1/minute"}), MemoryStore(clock=clock))
    view = WsgiView({"REMOTE_ADDR": "192.0.2.1"})
    registry.admit(view)
    assert view._memo is None


def test_an_event_cannot_be_changed_and_holds_no_dict() -> None:
    event = VerdictEvent(0, "admitted")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.rule = "x"  # type: ignore[misc]  # that is the point
    assert not hasattr(event, "__dict__")
    assert all(isinstance(hook, Hook) for hook in (Counters(), RefusalLog(), Recorder()))


async def test_counters_compare_a_candidate_with_a_live_rule(limited: Limited) -> None:
    counters = Counters()
    ask = limited(RULES, hooks=[counters])
    for _ in range(5):
        await ask("/items/7")
    await ask("/items/7", peer="203.0.113.9")
    await ask("/nowhere")
    counts = counters.snapshot()
    assert counts.rules == {
        "items": RuleCounts(checked=5, admitted=2, refused=3),
        "candidate": RuleCounts(checked=5, would_refuse=4),
    }
    assert counts.verdicts == {"admitted": 2, "refused": 3, "denied": 1, "uncounted": 1}
    assert counts.would_deny == 0


def test_a_rule_is_counted_once_a_request_whatever_its_limits() -> None:
    counters = Counters()
    shadows = tuple(Shadow("s", f"s-{n}", "", would_refuse=True) for n in (1, 2))
    counters.on_verdict(VerdictEvent(0, "delayed", rules=("a",), shadows=shadows, would_deny=True))
    assert counters.snapshot().rules == {
        "a": RuleCounts(checked=1, delayed=1),
        "s": RuleCounts(checked=1, would_refuse=1),
    }
    assert counters.snapshot().would_deny == 1


def test_counters_miss_nothing_that_threads_tell() -> None:
    counters, event = Counters(), VerdictEvent(0, "admitted", rules=("a",))

    def tell() -> None:
        for _ in range(500):
            counters.on_verdict(event)

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.snapshot().rules["a"].admitted == 2000


async def test_refusals_are_logged_a_few_a_minute_without_secrets(
    limited: Limited, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ratelimit_middleware.refusals")
    ask = limited(RULES, hooks=[RefusalLog(per_minute=2)])
    for _ in range(30):
        await ask("/key", x_key="very-secret")
    clock.advance(60)
    await ask("/nowhere")
    await ask("/nowhere", peer="203.0.113.9")
    lines = [record.getMessage() for record in caplog.records if record.name.endswith("refusals")]
    assert lines[0].startswith("refused by key of /key: /key|#")
    assert lines[0].endswith(", 60.000 s to wait")
    assert lines[2:] == ["denied by the list `deny`: 203.0.113.9 (27 more since the last line)"]
    assert "very-secret" not in caplog.text
