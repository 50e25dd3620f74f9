"""Rules that shed requests, under ASGI and WSGI, with a sensor that the test tells what to say."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware.build import build_registry
from ratelimit_middleware.cli.explain import Question, explain
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.counters import Counters
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.events import VerdictEvent
from ratelimit_middleware.overload.adaptive import Senses
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import WsgiView
from ratelimit_middleware.stores.base import Check, Store
from ratelimit_middleware.stores.memory import MemoryStore
from tests.awaited import AwaitedStore
from tests.conftest import Ask

pytestmark = pytest.mark.anyio

if TYPE_CHECKING:
    import httpx

Limited = Callable[..., Ask]

BBR = {"adaptive": {"max_in_flight": "bbr", "cpu": 0.9}, "name": "overload"}
THREE = {"adaptive": {"max_in_flight": 3}, "name": "overload"}
BUSY = Senses(cpu=0.95)


class Told:
    """A sensor that says what it is told."""

    def __init__(self, senses: Senses = BUSY) -> None:
        self.senses = senses

    def request_came(self) -> Senses:
        return self.senses


def meter(registry: LimiterRegistry) -> Any:
    (found,) = registry.store._meters.values()  # type: ignore[union-attr]
    return found


def view(path: str = "/a", method: str = "GET") -> WsgiView:
    return WsgiView({"REQUEST_METHOD": method, "PATH_INFO": path, "REMOTE_ADDR": "192.0.2.1"})


def registry(
    rules: Any, *, sensor: Told | None = None, store: Any = None, clock: Any = None
) -> LimiterRegistry:
    return build_registry(rules, sensor=sensor or Told(), store=store, clock=clock)


async def test_who_finds_nobody_in_progress_is_served_however_loaded_the_server_is(limited: Limited) -> None:
    ask = limited({"always": {"adaptive": {"cpu": 0.9}}}, sensor=Told())
    assert [(await ask("/")).status_code for _ in range(5)] == [200] * 5


async def test_no_request_is_held_where_the_server_is_calm(limited: Limited) -> None:
    ask = limited({"always": BBR, "default": "100/minute"}, sensor=Told(Senses()))
    for _ in range(30):
        response = await ask("/")
        assert response.status_code == 200
        assert response.headers["ratelimit-policy"] == '"default";q=100;w=60'


def test_the_fourth_of_three_is_shed_and_costs_nothing_elsewhere(clock: ManualClock) -> None:
    rules = {"always": [THREE, {"limit": "9/minute per global", "name": "whole"}]}
    limiter = registry(rules, clock=clock)
    verdicts = [limiter.admit(view()) for _ in range(5)]
    assert [verdict.allowed for verdict in verdicts] == [True, True, True, False, False]
    assert verdicts[3].violated == ("overload",)
    assert verdicts[3].retry_after_ns == 10**9
    assert verdicts[2].outcomes[0].decision.remaining == 6
    for verdict in verdicts[:3]:
        limiter.settler.carry_out(limiter.settler.begin(verdict, view()).ended())
    assert meter(limiter).in_flight == 0
    assert limiter.admit(view()).outcomes[0].decision.remaining == 5


def test_who_is_refused_by_another_limit_is_not_in_progress(clock: ManualClock) -> None:
    limiter = registry({"always": [{"adaptive": {"max_in_flight": 9}}, "2/minute"]}, clock=clock)
    verdicts = [limiter.admit(view()) for _ in range(6)]
    assert [verdict.allowed for verdict in verdicts] == [True, True, False, False, False, False]
    assert meter(limiter).in_flight == 2
    assert not verdicts[5].bookings


def test_a_sensor_that_fails_leaves_nobody_in_progress() -> None:
    class Failing(Told):
        def request_came(self) -> Senses:
            self.senses = BUSY if self.senses is not BUSY else Senses()
            if self.senses is BUSY:
                raise OSError("no sensor")
            return self.senses

    second = {"adaptive": {"max_in_flight": 4}, "name": "other"}
    limiter = registry({"always": [THREE, second]}, sensor=Failing())
    for _ in range(3):
        with pytest.raises(OSError, match="no sensor"):
            limiter.admit(view())
    assert [one.in_flight for one in limiter.store._meters.values()] == [0, 0]  # type: ignore[union-attr]


async def test_a_place_is_left_though_the_store_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(AwaitedStore):
        async def charge_async(self, check: Check) -> None:
            await asyncio.sleep(60)

    monkeypatch.setattr("ratelimit_middleware.shielding._LONGEST_S", 0.01)
    costly = {"limit": "9/minute", "cost": {"reserve": 1, "actual": "bytes"}}
    rules = {"limits": {"/": costly}, "always": [THREE]}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"abc"})

    async def nothing(*_: Any) -> Any:
        return {"type": "http.disconnect"}

    limited = asgi.RateLimitMiddleware(app, rules, store=Hanging(MemoryStore()), sensor=Told())
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": ("192.0.2.1", 1)}
    await limited(scope, nothing, nothing)
    assert meter(limited._registry).in_flight == 0


async def test_a_store_that_fails_or_a_call_that_is_cancelled_leaves_nobody_in_progress() -> None:
    class Failing(MemoryStore):
        def take(self, checks: Any) -> Any:
            raise StoreError("gone")

    limiter = registry({"always": [THREE, "9/minute"]}, store=Failing())
    for _ in range(5):
        with pytest.raises(StoreError):
            limiter.admit(view())
    assert meter(limiter).in_flight == 0

    class Slow(AwaitedStore):
        async def take_async(self, checks: Any) -> Any:
            await asyncio.Event().wait()

    limiter = registry({"always": [THREE, "9/minute"]}, store=Slow(MemoryStore()))
    waiting = [asyncio.create_task(limiter.admit_async(view())) for _ in range(3)]
    await asyncio.sleep(0)
    assert meter(limiter).in_flight == 3
    assert not (await limiter.admit_async(view())).allowed
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert meter(limiter).in_flight == 0


def in_progress(middleware: Any) -> int:
    return int(meter(middleware._registry).in_flight)


@pytest.mark.parametrize("mode", ["served", "raises", "cut off", "cancelled"])
async def test_a_place_is_left_once_however_the_response_ends(mode: str) -> None:
    seen: list[int] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        seen.append(in_progress(limiting))
        if mode == "raises":
            raise RuntimeError("app")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if mode == "cancelled":
            await asyncio.Event().wait()
        await send({"type": "http.response.body", "body": b"", "more_body": mode == "cut off"})

    limiting = asgi.RateLimitMiddleware(app, {"always": THREE}, sensor=Told())
    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}

    async def nothing(*_: Any) -> Any:
        return {"type": "http.disconnect"}

    for _ in range(5):
        task = asyncio.create_task(limiting(dict(scope), nothing, nothing))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert seen == [1] * 5
    assert in_progress(limiting) == 0


async def test_under_asgi_a_refusal_is_a_503_with_its_type(asgi_client: Callable[..., Any]) -> None:
    go = asyncio.Event()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    events: list[VerdictEvent] = []
    counters = Counters()

    class Seen:
        def on_verdict(self, event: VerdictEvent) -> None:
            events.append(event)

    limiting = asgi.RateLimitMiddleware(app, {"always": THREE}, sensor=Told(), hooks=[Seen(), counters])
    client = asgi_client(limiting)
    waiting = [asyncio.create_task(client.get("/")) for _ in range(3)]
    while in_progress(limiting) < 3:  # noqa: ASYNC110 - it is not the app that tells
        await asyncio.sleep(0)
    refused = await client.get("/")
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert "ratelimit" not in refused.headers
    assert refused.json() == {
        "type": "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
        "title": "Temporarily reduced capacity",
        "status": 503,
        "detail": "The server has too much to do; try again in a moment.",
        "violated-policies": ["overload"],
    }
    go.set()
    assert [response.status_code for response in await asyncio.gather(*waiting)] == [200] * 3
    assert in_progress(limiting) == 0
    assert [(event.kind, event.rule) for event in events if event.kind != "uncounted"] == [
        ("shed", "overload")
    ]
    assert counters.snapshot().verdicts["shed"] == 1


def test_under_wsgi_threads_do_not_pass_the_bound(wsgi_client: Callable[..., httpx.Client]) -> None:
    most = 0
    barrier = threading.Barrier(3)

    def app(_environ: Any, start_response: Any) -> list[bytes]:
        nonlocal most
        most = max(most, in_progress(limiting))
        barrier.wait(10)
        start_response("200 OK", [])
        return [b"served"]

    limiting = wsgi.RateLimitMiddleware(app, {"always": THREE}, sensor=Told())
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(wsgi_client(limiting).get("/").status_code)

    for _ in range(2):
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == [200] * 6
    assert most == 3
    assert in_progress(limiting) == 0


def test_with_bbr_it_sheds_what_it_has_been_measured_not_to_serve(clock: ManualClock) -> None:
    sensor = Told(Senses())
    limiter = registry({"always": BBR}, sensor=sensor, clock=clock)
    for _ in range(200):  # one after the other, 40 ms each: 25 a second, one at a time
        stay = limiter.settler.begin(limiter.admit(view()), view())
        stay.response.status = 200
        clock.advance(0.04)
        limiter.settler.carry_out(stay.ended())
    sensor.senses = BUSY
    assert [limiter.admit(view()).allowed for _ in range(4)] == [True, True, False, False]
    sensor.senses = Senses()
    assert limiter.admit(view()).allowed


def test_what_fails_quickly_is_no_measure(clock: ManualClock) -> None:
    limiter = registry({"always": BBR}, clock=clock)
    for status in (404, 500, 200):
        stay = limiter.settler.begin(limiter.admit(view()), view())
        stay.response.status = status
        clock.advance(0.5 if status == 200 else 0.001)
        limiter.settler.carry_out(stay.ended())
    assert meter(limiter)._capacity.at(clock.now_ns()) == 5  # one in a tenth of a second, half a second each


async def test_a_shadow_rule_only_tells(limited: Limited) -> None:
    shadow = {**THREE, "mode": "shadow"}
    limiter = registry({"always": shadow})
    verdicts = [limiter.admit(view()) for _ in range(5)]
    assert all(verdict.allowed for verdict in verdicts)
    assert [len(verdict.shadows) for verdict in verdicts] == [0, 0, 0, 1, 1]
    assert not verdicts[4].shadows[0].decision.allowed
    for verdict in verdicts:
        if verdict.bookings:
            limiter.settler.carry_out(limiter.settler.begin(verdict, view()).ended())
    assert meter(limiter).in_flight == 0
    whole = registry({"always": THREE, "mode": "shadow"})
    verdicts = [whole.admit(view()) for _ in range(5)]
    assert all(verdict.allowed for verdict in verdicts)
    assert (await limited({"always": shadow}, sensor=Told())("/")).status_code == 200


def test_a_shadow_rule_is_left_also_by_who_is_refused_otherwise() -> None:
    limiter = registry({"always": [{**THREE, "mode": "shadow"}, "1/minute"]})
    limiter.admit(view())
    for _ in range(5):
        verdict = limiter.admit(view())
        assert not verdict.allowed
        for booking in verdict.bookings:
            limiter.store.give_back(booking.check, booking.at_ns)  # type: ignore[union-attr]
    assert meter(limiter).in_flight == 1


def test_it_may_hold_for_some_routes_and_leave_some_clients_out() -> None:
    rules = {
        "limits": {
            "/reports/**": {"adaptive": {"max_in_flight": 1}, "exempt": {"methods": "DELETE"}},
            "/health": "unlimited",
        },
        "default": "99/s",
    }
    limiter = registry(rules)
    assert limiter.admit(view("/reports/1")).allowed
    assert not limiter.admit(view("/reports/2")).allowed
    assert limiter.admit(view("/reports/2", "DELETE")).allowed
    assert limiter.admit(view("/other")).allowed
    assert limiter.admit(view("/reports/1", "DELETE")).outcomes[0].policy.name == "default"


async def test_websockets_are_neither_counted_nor_turned_away() -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    limiting = asgi.RateLimitMiddleware(app, {"always": {"adaptive": {"max_in_flight": 1}}}, sensor=Told())
    meter(limiting._registry).enter()
    await limiting({"type": "websocket", "path": "/", "headers": []}, send, send)  # type: ignore[arg-type]
    assert sent == ["websocket.accept"]


async def test_a_rule_may_answer_in_its_own_words() -> None:
    rule = {**THREE, "status": 429, "response": {"detail": "Later."}}
    limiting = wsgi.RateLimitMiddleware(
        lambda *_: [], {"always": rule, "response": {"detail": "x"}}, sensor=Told()
    )
    for _ in range(3):
        meter(limiting._registry).enter()
    started: list[Any] = []
    (body,) = limiting({"PATH_INFO": "/"}, lambda *start: started.append(start))  # type: ignore[arg-type]
    assert started[0][0] == "429 Too Many Requests"
    assert b'"detail": "Later."' in body


def test_under_wsgi_the_lag_of_a_loop_has_no_effect_and_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rules = {"always": {"adaptive": {"max_in_flight": 9, "loop_lag": "100ms"}, "name": "overload"}}
    with caplog.at_level(logging.WARNING):
        wsgi.RateLimitMiddleware(lambda *_: [], rules)
    (message,) = caplog.messages
    assert message.startswith("`loop_lag` of `overload` has no effect under WSGI, where no event loop runs: ")


def test_what_sheds_is_logged_once_a_minute(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    limiter = registry({"always": THREE}, clock=clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(9):
            limiter.admit(view())
        clock.advance(60)
        limiter.admit(view())
    told = (
        "overload: `overload` sheds requests, by max_in_flight (3 in progress; event loop 0 ms late,"
        " cpu 0.95, load 0.00)"
    )
    assert caplog.messages == [told, told]


def test_an_outer_and_an_inner_instance_count_once() -> None:
    from ratelimit_middleware import load_rules

    store, rules = MemoryStore(), load_rules({"always": THREE})
    seen: list[int] = []

    def app(_environ: Any, start_response: Any) -> list[bytes]:
        seen.append(in_progress(outer) + in_progress(inner))
        start_response("200 OK", [])
        return []

    inner = wsgi.RateLimitMiddleware(app, rules, store=store, sensor=Told())
    outer = wsgi.RateLimitMiddleware(inner, rules, store=store, sensor=Told())
    list(outer({"PATH_INFO": "/"}, lambda *_: None))  # type: ignore[arg-type]
    assert seen == [1]
    assert in_progress(outer) == in_progress(inner) == 0


def test_a_store_of_one_kind_stays_of_that_kind() -> None:
    from ratelimit_middleware.stores.base import AsyncStore

    awaited = registry({"always": THREE}, store=AwaitedStore(MemoryStore())).store
    assert isinstance(awaited, AsyncStore)
    assert not isinstance(awaited, Store)
    plain = registry({"always": THREE}, store=MemoryStore()).store
    assert isinstance(plain, Store)
    assert not isinstance(plain, AsyncStore)


def test_all_else_goes_to_the_store_behind() -> None:
    store = MemoryStore()
    limiter = registry({"always": [THREE, "5/minute"]}, store=store)
    limiter.admit(view())
    shedding: Any = limiter.store
    assert shedding.stats() == store.stats()
    (key,) = store._buckets
    check = Check(key, store._buckets[key].algorithm, key)
    shedding.charge(check)
    assert shedding.peek(check).remaining == 2
    shedding.renew(check, 0)
    assert shedding.reset(key)
    shedding.close()
    assert store.stats().keys == 0


def test_explain_tells_when_it_sheds(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(
        "always: {name: overload, adaptive: {max_in_flight: bbr, loop_lag: 100ms, cpu: 0.9}}\n", "utf-8"
    )
    told, code = explain(str(file), Question("GET", "/"))
    assert code == 0
    assert (
        "\noverload: what the server can do\n  rule    overload\n  sheds   more in progress than are served"
        " without a queue, while event loop more than 100 ms late or cpu above 0.9\n"
    ) in told
