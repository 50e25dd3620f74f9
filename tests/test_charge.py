"""`charge`, `cost: {reserve, actual}` and `unmatched_routes: skip`, the same in both adapters."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import flask
import httpx
import pytest
from fastapi import APIRouter, FastAPI, HTTPException
from starlette.applications import Starlette
from starlette.routing import Mount

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware._types import Environ, Message, Receive, Scope, Send, StartResponse
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import AsgiView
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.read_yaml import read_yaml
from ratelimit_middleware.stores.memory import MemoryStore
from tests.awaited import AwaitedStore

APP = "python:tests.rules.app_functions"
FAILURES = {"on_status": [401, 403]}
HTTP: Scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": ("192.0.2.1", 1)}


class Stop(BaseException):
    """Not even an Exception."""


class App:
    """An app for both worlds, that answers as it is told."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.pieces = [b"a" * 10]
        self.raises: BaseException | None = None
        self.answers = True
        self.works: Callable[[], object] = lambda: None

    async def asgi(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        if self.answers:
            headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
            await send({"type": "http.response.start", "status": self.status, "headers": headers})
            for piece in self.pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        self.works()
        if self.raises:
            raise self.raises
        await send({"type": "http.response.body", "body": b""})

    def wsgi(self, _environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
        if self.answers:
            start_response(f"{self.status} x", list(self.headers.items()))
            yield from self.pieces
        self.works()
        if self.raises:
            raise self.raises


Ask: TypeAlias = Callable[[], int]
Limited: TypeAlias = Callable[[Any], Ask]
"""From a rule to a function that asks the app once, and gives the status: 0 if there is none."""


async def nothing() -> Message:
    return {"type": "websocket.connect"}


async def status_of(app: Any, scope: Scope = HTTP) -> int:
    seen: list[int] = []

    async def send(message: Message) -> None:
        seen.append(message.get("status", 0))

    with suppress(ArithmeticError, Stop):
        await app(dict(scope), nothing, send)
    return seen[0] if seen else 0


def status_from(app: Any) -> int:
    seen: list[int] = []

    def start_response(status: str, _headers: Any, _exc_info: Any = None) -> Callable[[bytes], object]:
        seen.append(int(status[:3]))
        return lambda _: None

    body = app({"REQUEST_METHOD": "GET", "PATH_INFO": "/", "REMOTE_ADDR": "192.0.2.1"}, start_response)
    with suppress(ArithmeticError, Stop):
        b"".join(body)
    getattr(body, "close", lambda: None)()
    return seen[0] if seen else 0


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture(params=["asgi", "awaited", "wsgi"])
def limited(request: pytest.FixtureRequest, app: App, clock: ManualClock) -> Limited:
    def limit(rule: Any) -> Ask:
        rules = {"limits": {"/": rule}}
        if request.param == "wsgi":
            inside = wsgi.RateLimitMiddleware(app.wsgi, rules, clock=clock)
            return lambda: status_from(inside)
        store = AwaitedStore(MemoryStore(clock=clock)) if request.param == "awaited" else None
        outside = asgi.RateLimitMiddleware(app.asgi, rules, store=store, clock=clock)
        return lambda: anyio.run(status_of, outside)

    return limit


def left(ask: Ask, most: int = 50) -> int:
    """How many more requests pass at this moment."""
    return next((count for count in range(most) if ask() == 429), most)


# Which requests count


@pytest.mark.parametrize(
    "limit",
    [
        *("5/15m", "5/minute burst 5", "5/month"),
        *(
            {"count": 5, "per": "minute", "algorithm": name}
            for name in ("fixed_window", "sliding_counter", "token_bucket")
        ),
        {"count": 5, "per": "second", "algorithm": "sentinel_qps"},
        {"count": 5, "per": "minute", "algorithm": "leaky_bucket", "burst": 4},
        {"count": 5, "per": "minute", "behavior": "warm_up", "warm_up": "2m"},
    ],
    ids=str,
)
def test_wrong_logins_count_and_right_ones_are_free(limited: Limited, app: App, limit: Any) -> None:
    ask = limited({"limit": limit, "charge": FAILURES})
    assert left(ask) == 50
    app.status = 401
    counted = left(ask)
    assert counted == (1 if "warm_up" in str(limit) else 5)
    app.status = 200
    assert ask() == 429


def test_a_status_may_be_a_class_or_a_range(limited: Limited, app: App) -> None:
    for listed in ("4xx", [400, "402-499"], "400-450", [404]):
        ask = limited({"limit": "2/minute", "charge": {"on_status": listed}})
        app.status = 200
        assert left(ask) == 50
        app.status = 404
        assert left(ask) == 2


def test_what_does_not_count_comes_back_to_all_limits_of_the_rule(limited: Limited, app: App) -> None:
    ask = limited({"limit": ["5/minute", "6/hour burst 6", "7/month"], "charge": FAILURES, "cost": 2})
    assert left(ask) == 50
    app.status = 403
    assert left(ask) == 2


def test_a_shadow_rule_counts_failures_too(app: App, clock: ManualClock) -> None:
    rule = {"limit": "2/minute", "charge": FAILURES, "mode": "shadow"}
    inside = wsgi.RateLimitMiddleware(app.wsgi, {"limits": {"/": rule}}, clock=clock)

    def shadow() -> int:
        return inside._registry.admit(view()).shadows[0].decision.remaining

    assert [status_from(inside) for _ in range(9)] == [200] * 9
    assert shadow() == 1
    app.status = 401
    assert [status_from(inside) for _ in range(9)] == [401] * 9
    assert shadow() == 0


def view() -> AsgiView:
    return AsgiView(dict(HTTP))


@pytest.mark.anyio
async def test_of_twenty_wrong_logins_at_once_five_reach_the_app(clock: ManualClock) -> None:
    reached: list[int] = []
    opened = anyio.Event()

    async def login(_scope: Scope, _receive: Receive, send: Send) -> None:
        reached.append(1)
        await opened.wait()
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    rules = {"limits": {"/": {"limit": "5/15m", "charge": FAILURES}}}
    app = asgi.RateLimitMiddleware(login, rules, clock=clock)
    tries = [asyncio.create_task(status_of(app)) for _ in range(20)]
    await anyio.wait_all_tasks_blocked()
    assert len(reached) == 5
    opened.set()
    assert sorted(await asyncio.gather(*tries)) == [401] * 5 + [429] * 15
    assert await status_of(app) == 429


def test_of_twenty_wrong_logins_in_threads_five_reach_the_app(clock: ManualClock) -> None:
    together, opened = threading.Barrier(20), threading.Event()
    refused = threading.Semaphore(0)
    answers: list[int] = []

    def login(_environ: Environ, start_response: StartResponse) -> list[bytes]:
        opened.wait(10)
        start_response("401 Unauthorized", [])
        return [b""]

    rules = {"limits": {"/": {"limit": "5/15m", "charge": FAILURES}}}
    app = wsgi.RateLimitMiddleware(login, rules, clock=clock)

    def attempt() -> None:
        together.wait(10)
        status = status_from(app)
        answers.append(status)
        if status == 429:
            refused.release()

    threads = [threading.Thread(target=attempt) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert all(refused.acquire(timeout=10) for _ in range(15))
    opened.set()
    for thread in threads:
        thread.join(10)
    assert sorted(answers) == [401] * 5 + [429] * 15


def test_a_function_may_say_which_requests_count(limited: Limited, app: App) -> None:
    ask = limited({"limit": "2/minute", "charge": f"{APP}:failed"})
    app.headers = {"x-failed": "no"}
    assert left(ask) == 50
    app.headers = {"x-failed": "yes"}
    assert left(ask) == 2


@pytest.mark.parametrize("says", ["error", "nonsense"])
def test_where_the_function_fails_the_request_counts_and_the_log_tells_it_once(
    limited: Limited, app: App, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither True nor False, or an exception."""
    ask = limited({"limit": "3/minute", "charge": f"{APP}:failed"})
    app.headers = {"x-failed": says}
    assert left(ask) == 3
    (line,) = caplog.messages
    assert line.startswith("what `tests.rules.app_functions:failed` says is of no use, its rule counts")


@pytest.mark.parametrize(
    ("raises", "statuses", "count"), [(ArithmeticError, [500], 2), (ArithmeticError, [401], 50)]
)
def test_an_app_that_raises_has_answered_500(
    limited: Limited, app: App, raises: type[Exception], statuses: list[int], count: int
) -> None:
    ask = limited({"limit": "2/minute", "charge": {"on_status": statuses}})
    app.raises, app.answers = raises(), False
    assert left(ask) == count


@pytest.mark.parametrize("charge", [FAILURES, f"{APP}:failed"], ids=["status", "function"])
def test_a_request_that_is_cut_off_unanswered_counts(limited: Limited, app: App, charge: Any) -> None:
    """Else a client could hang up before each answer, and try for ever."""
    ask = limited({"limit": "2/minute", "charge": charge})
    app.raises, app.answers = Stop(), False
    assert left(ask) == 2


def test_the_status_counts_though_the_stream_breaks(limited: Limited, app: App) -> None:
    ask = limited({"limit": "2/minute", "charge": FAILURES})
    app.raises = ArithmeticError()
    assert left(ask) == 50
    app.status = 401
    assert left(ask) == 2


@pytest.mark.parametrize(("answer", "count"), [("websocket.close", 2), ("websocket.accept", 5)])
@pytest.mark.anyio
async def test_a_handshake_that_the_app_closes_has_answered_403(
    answer: str, count: int, clock: ManualClock
) -> None:
    reached: list[int] = []

    async def answering(_scope: Scope, _receive: Receive, send: Send) -> None:
        reached.append(1)
        await send({"type": answer})

    rules = {"limits": {"/": {"limit": "2/minute", "charge": FAILURES}}}
    app = asgi.RateLimitMiddleware(answering, rules, clock=clock)
    for _ in range(5):
        await status_of(app, {**HTTP, "type": "websocket"})
    assert len(reached) == count


# A cost that is settled later


def reserve(permits: int, actual: str, limit: Any = "100/minute") -> Any:
    return {"limit": limit, "cost": {"reserve": permits, "actual": actual}}


@pytest.mark.parametrize(
    "limit",
    [
        *("100/minute", "100/minute burst 100", "100/month"),
        {"count": 100, "per": "minute", "algorithm": "token_bucket"},
        {"count": 100, "per": "minute", "algorithm": "sliding_counter"},
    ],
    ids=str,
)
@pytest.mark.parametrize(("tokens", "count"), [("10", 8), ("0", 50), ("30", 3), ("50", 2), ("120", 1)])
def test_the_header_of_the_response_settles_the_cost(
    limited: Limited, app: App, limit: Any, tokens: str, count: int
) -> None:
    """30 are taken, so that 30 must be left when a request comes; 50 or 120 in the end leave a debt."""
    ask = limited(reserve(30, "header:X-Tokens", limit))
    app.headers = {"x-tokens": tokens}
    assert left(ask) == count


def test_a_debt_is_carried(limited: Limited, app: App, clock: ManualClock) -> None:
    ask = limited(reserve(10, "header:x-tokens", "60/minute burst 60"))
    app.headers = {"x-tokens": "100"}
    assert ask() == 200
    clock.advance(49)
    assert ask() == 429
    clock.advance(1)
    assert ask() == 200


@pytest.mark.parametrize("tokens", [None, "", "many", "-5", "1.5", "5, 6", "0x10", "\xb2"])
def test_a_header_that_says_nothing_leaves_the_reserve_and_is_told_once(
    limited: Limited, app: App, tokens: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    ask = limited(reserve(30, "header:x-tokens"))
    app.headers = {} if tokens is None else {"x-tokens": tokens}
    assert left(ask) == 3
    (line,) = caplog.messages
    assert line.startswith("what `header:x-tokens` says is of no use")


@pytest.mark.parametrize("tokens", ["9" * 9, "1" + "0" * 9, "9" * 5000])
def test_a_huge_cost_is_bounded_by_the_debt_that_is_carried(
    limited: Limited, app: App, clock: ManualClock, tokens: str
) -> None:
    ask = limited(reserve(1, "header:x-tokens", "60/minute burst 60"))
    app.headers = {"x-tokens": tokens}
    assert ask() == 200
    clock.advance(60)
    assert ask() == 429
    clock.advance(1)
    assert ask() == 200


def test_a_function_may_tell_the_true_cost(limited: Limited, app: App) -> None:
    ask = limited(reserve(30, f"{APP}:tokens"))
    app.headers = {"x-tokens": "0"}
    assert left(ask) == 50
    app.headers = {"x-tokens": "60"}
    assert left(ask) == 2


@pytest.mark.parametrize("tokens", ["-1", "10000000000", "x"])
def test_a_true_cost_that_is_none_leaves_the_reserve(limited: Limited, app: App, tokens: str) -> None:
    ask = limited(reserve(30, f"{APP}:tokens"))
    app.headers = {"x-tokens": tokens}
    assert left(ask) == 3


@pytest.mark.parametrize("raises", [None, ArithmeticError(), Stop()], ids=["whole", "broken", "cut off"])
def test_bytes_that_were_sent_count_also_of_a_stream_that_breaks(
    limited: Limited, app: App, raises: BaseException | None
) -> None:
    ask = limited(reserve(5, "bytes"))
    app.pieces, app.raises = [b"a" * 20, b"", b"b" * 30], raises
    assert left(ask) == 2


def test_seconds_count_from_the_call_of_the_app(limited: Limited, app: App, clock: ManualClock) -> None:
    ask = limited(reserve(1, "seconds", "10/month"))
    app.works = lambda: clock.advance(2.5)
    assert left(ask) == 4


def test_an_app_that_raises_pays_its_reserve_or_what_is_measured(limited: Limited, app: App) -> None:
    app.raises, app.answers = ArithmeticError(), False
    assert left(limited(reserve(30, "header:x-tokens"))) == 3
    assert left(limited(reserve(30, "bytes"))) == 50


@pytest.mark.parametrize(("tokens", "used"), [("100", 100), ("700", 700)])
@pytest.mark.parametrize("limit", ["2000/minute", "2000/minute burst 2000", "900/minute"])
def test_a_request_settles_across_a_reload(limit: str, tokens: str, used: int, clock: ManualClock) -> None:
    """Other numbers, and others who have used them meanwhile; the cost is that of the old rule."""
    store = MemoryStore(clock=clock)
    before, after = (
        LimiterRegistry(load_rules({"limits": {"/": rule}}, env={}), store, clock=clock)
        for rule in (reserve(500, "header:x-tokens", "1000/minute"), limit)
    )
    stay = before.settler.begin(before.admit(view()), view())
    after.admit(view())
    stay.response.status, stay.response.headers = 200, [("x-tokens", tokens)]
    before.settler.carry_out(stay.started())
    before.settler.carry_out(stay.ended())
    quota = int(limit.partition("/")[0])
    assert after.admit(view()).outcomes[0].decision.remaining == max(0, quota - used - 2)


# Requests without a route


UNMATCHED = {"unmatched_routes": "skip", "limits": {"/ruled": "2/minute"}, "default": "2/minute"}


def fastapi_app() -> Any:
    app, items = FastAPI(openapi_url=None), APIRouter(prefix="/items")

    @items.get("/{item_id}")
    def item(item_id: str) -> str:
        raise HTTPException(404, f"no {item_id}")

    app.include_router(items)
    app.add_api_route("/", lambda: "ok")
    app.mount("/mounted", Starlette())
    return app


def flask_app() -> Any:
    app = flask.Flask(__name__)
    app.add_url_rule("/items/<item_id>", "item", lambda item_id: flask.abort(404))
    app.add_url_rule("/", "root", lambda: "ok")
    return app


@pytest.fixture(params=["fastapi", "flask"])
def site(request: pytest.FixtureRequest, clock: ManualClock) -> Callable[[str], int]:
    """Asks for a path of an app with a router: the status of the answer."""
    if request.param == "flask":
        inside = wsgi.RateLimitMiddleware(flask_app(), UNMATCHED, clock=clock)
        transport = httpx.WSGITransport(inside, remote_addr="192.0.2.1")
        client = httpx.Client(transport=transport, base_url="http://test")
        return lambda path: client.get(path).status_code
    outside = asgi.RateLimitMiddleware(fastapi_app(), UNMATCHED, clock=clock)

    async def get(path: str) -> int:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(outside), base_url="http://test"
        ) as client:
            return (await client.get(path)).status_code

    return lambda path: anyio.run(get, path)


def test_requests_without_a_route_of_the_app_are_free(site: Callable[[str], int]) -> None:
    assert {site(path) for path in ("/nowhere", "/items", "/items/1/x") for _ in range(9)} == {404}
    assert [site("/") for _ in range(3)] == [200, 200, 429]
    assert site("/nowhere") == 429, "it is taken first"


def test_a_404_of_the_apps_own_counts(site: Callable[[str], int]) -> None:
    assert [site("/items/1") for _ in range(3)] == [404, 404, 429]


def test_only_the_default_is_given_back(site: Callable[[str], int]) -> None:
    assert [site("/ruled") for _ in range(3)] == [404, 404, 429]


def test_where_it_cannot_be_told_a_404_counts(app: App, clock: ManualClock) -> None:
    app.status = 404
    inside = wsgi.RateLimitMiddleware(app.wsgi, UNMATCHED, clock=clock)
    assert [status_from(inside) for _ in range(3)] == [404, 404, 429]


@pytest.mark.anyio
async def test_inside_of_a_mount_a_404_counts(clock: ManualClock) -> None:
    outside = asgi.RateLimitMiddleware(fastapi_app(), UNMATCHED, clock=clock)
    scope = {**HTTP, "path": "/mounted/nowhere", "root_path": "", "query_string": b""}
    assert [await status_of(outside, scope) for _ in range(3)] == [404, 404, 429]
    inner = asgi.RateLimitMiddleware(Starlette(), UNMATCHED, clock=clock)
    mounted = Starlette(routes=[Mount("/a", inner)])
    scope = {**HTTP, "path": "/a/nowhere", "root_path": "", "query_string": b""}
    assert [await status_of(mounted, scope) for _ in range(3)] == [404, 404, 429]


def test_a_charge_of_the_default_holds_for_the_others(app: App, clock: ManualClock) -> None:
    rules = {"unmatched_routes": "skip", "default": {"limit": "2/minute", "charge": FAILURES}}
    inside = wsgi.RateLimitMiddleware(app.wsgi, rules, clock=clock)
    assert left(lambda: status_from(inside)) == 50
    app.status = 401
    assert left(lambda: status_from(inside)) == 2


# Functions that fail, to the client


@pytest.mark.parametrize(
    "rule",
    [
        f"3/minute per {APP}:broken",
        {"limit": "3/minute", "cost": f"{APP}:broken"},
        {"limit": "3/minute", "charge": f"{APP}:broken"},
        {"limit": "3/minute", "cost": {"reserve": 1, "actual": f"{APP}:broken"}},
    ],
    ids=["key", "cost", "charge", "actual"],
)
def test_a_function_that_fails_is_never_a_500_and_never_a_free_pass(
    limited: Limited, rule: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ask = limited(rule)
    assert [ask() for _ in range(5)] == [200, 200, 200, 429, 429]
    assert len(caplog.messages) == 1


def test_a_limit_that_fails_before_it_has_told_any_is_a_503(limited: Limited) -> None:
    assert limited(f"{APP}:broken")() == 503


# The page, by the clock

PAGE = (Path(__file__).parent.parent / "docs" / "charge.md").read_text("utf-8")
LOGIN, _, CHATS, *_ = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def of_page(text: str, rules: slice = slice(None)) -> Any:
    """The rules of an example, without those whose functions are not here."""
    data = read_yaml(text.encode(), "page", {})[0].data
    data["limits"] = dict(list(data["limits"].items())[rules])
    return data


@pytest.mark.anyio
async def test_the_logins_of_the_page(clock: ManualClock) -> None:
    status, reached = 200, list[int]()
    opened = anyio.Event()

    async def login(_scope: Scope, _receive: Receive, send: Send) -> None:
        reached.append(1)
        if status == 401:
            await opened.wait()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    app = asgi.RateLimitMiddleware(login, of_page(LOGIN), clock=clock)
    scope = {**HTTP, "method": "POST", "path": "/login"}
    assert [await status_of(app, scope) for _ in range(40)] == [200] * 40
    clock.advance(60)
    status = 401
    tries = [asyncio.create_task(status_of(app, scope)) for _ in range(20)]
    await anyio.wait_all_tasks_blocked()
    opened.set()
    assert sorted(await asyncio.gather(*tries)) == [401] * 5 + [429] * 15
    clock.advance(60)
    verdict = await app._registry.admit_async(AsgiView(scope))
    assert (verdict.allowed, verdict.retry_after_ns) == (False, 840 * 10**9)


def test_the_chat_of_the_page(clock: ManualClock) -> None:
    rules = load_rules(of_page(CHATS, slice(0, 3)), env={})
    limiter = LimiterRegistry(rules, MemoryStore(clock=clock), clock=clock)
    request = AsgiView({**HTTP, "method": "POST", "path": "/v1/chat", "user": "ada"})

    def chat(tokens: int) -> int:
        verdict = limiter.admit(request)
        assert verdict.binding
        if verdict.allowed:
            stay = limiter.settler.begin(verdict, request)
            stay.response.status, stay.response.headers = 200, [("X-Tokens-Used", str(tokens))]
            clock.advance(3)
            limiter.settler.carry_out(stay.started())
        return verdict.binding.decision.remaining if verdict.allowed else -1

    assert chat(19_000) == 19_500
    assert chat(3000) == 500
    clock.advance(1)
    assert chat(0) == -1
    assert limiter.admit(request).outcomes[0].decision.remaining == 0
