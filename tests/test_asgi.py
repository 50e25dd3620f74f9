"""The ASGI protocol, message by message, with hand-made scopes."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from starlette.middleware.cors import CORSMiddleware

from ratelimit_middleware._types import ASGIApp, Message, Receive, Scope, Send
from ratelimit_middleware.asgi import RateLimitMiddleware
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.errors import RuleFileError, StoreError
from ratelimit_middleware.nested import Told
from ratelimit_middleware.request import RequestView

pytestmark = pytest.mark.anyio

FIELDS = [(b"ratelimit-policy", b'"all";q=1;w=60'), (b"ratelimit", b'"all";r=0;t=60')]
RULES = {"limits": {"/**": {"name": "all", "limit": "1/minute"}}}
START = {"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"1"), (b"x-app", b"2")]}
BODY = {"type": "http.response.body", "body": b"hello"}


def http(path: str = "/", **more: Any) -> Scope:
    """A scope as a server makes it."""
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "headers": [],
        "client": ("192.0.2.1", 50000),
        **more,
    }


def handshake(**more: Any) -> Scope:
    """A scope of a WebSocket handshake."""
    return {"type": "websocket", "path": "/", "headers": [], "client": ("192.0.2.1", 50000), **more}


def sending(*messages: Message) -> ASGIApp:
    """An app that sends these messages, whatever is asked."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return app


async def unreachable(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """An app that must not be called."""
    pytest.fail("the app was called")


async def run(app: ASGIApp, scope: Scope, received: Sequence[Message] = ()) -> list[Message]:
    """Call `app` and return what it sent; more reads than `received` fail."""
    sent: list[Message] = []
    waiting = list(received)

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert not waiting, "not all messages were read"
    return sent


@pytest.fixture
def limited(clock: ManualClock) -> Callable[[ASGIApp], RateLimitMiddleware]:
    """A function that puts an app behind one request a minute."""
    return lambda app: RateLimitMiddleware(app, RULES, clock=clock)


Limited = Callable[[ASGIApp], RateLimitMiddleware]


async def test_the_start_message_gets_the_fields_behind_those_of_the_app(limited: Limited) -> None:
    sent = await run(limited(sending(START, BODY)), http())

    assert sent[0] == {**START, "headers": [(b"x-app", b"1"), (b"x-app", b"2"), *FIELDS]}


async def test_the_message_of_the_app_is_not_changed_in_place(limited: Limited) -> None:
    headers = [(b"x-app", b"1")]
    start: Message = {"type": "http.response.start", "status": 200, "headers": headers}
    await run(limited(sending(start, BODY)), http())

    assert start == {"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"1")]}
    assert start["headers"] is headers


@pytest.mark.parametrize(
    "headers", [{}, {"headers": ((b"x-app", b"1"),)}, {"headers": iter([(b"x-app", b"1")])}]
)
async def test_headers_may_be_missing_or_any_iterable(limited: Limited, headers: dict[str, Any]) -> None:
    sent = await run(
        limited(sending({"type": "http.response.start", "status": 204, **headers}, BODY)), http()
    )

    assert sent[0]["headers"][-2:] == FIELDS
    assert len(sent[0]["headers"]) == 2 + len(headers)


MESSAGES: dict[str, list[Message]] = {
    "streaming": [
        START,
        {"type": "http.response.body", "body": b"1", "more_body": True},
        {"type": "http.response.body", "body": b"2", "more_body": True},
        {"type": "http.response.body", "body": b"3"},
    ],
    "pathsend": [START, {"type": "http.response.pathsend", "path": "/srv/film.mp4"}],
    "zerocopysend": [
        START,
        {"type": "http.response.zerocopysend", "file": 7, "offset": 0, "count": 9, "more_body": True},
        BODY,
    ],
    "trailers": [
        {**START, "trailers": True},
        BODY,
        {"type": "http.response.trailers", "headers": [(b"x-sum", b"abc")]},
    ],
    "early hints": [{"type": "http.response.early_hint", "links": [b"</a.css>"]}, START, BODY],
    "push": [{"type": "http.response.push", "path": "/a.css", "headers": []}, START, BODY],
    "debug": [{"type": "http.response.debug", "info": {"template": "a.html"}}, START, BODY],
    "not yet invented": [
        {"type": "http.response.smoke"},
        START,
        {"type": "http.response.signal", "body": b"x"},
    ],
}


@pytest.mark.parametrize("messages", MESSAGES.values(), ids=MESSAGES.keys())
async def test_every_message_but_the_start_is_forwarded_as_it_is(
    limited: Limited, messages: list[Message]
) -> None:
    sent = await run(limited(sending(*messages)), http())

    assert [message["type"] for message in sent] == [message["type"] for message in messages]
    for original, forwarded in zip(messages, sent, strict=True):
        if original["type"] == "http.response.start":
            assert forwarded == {**original, "headers": [*original["headers"], *FIELDS]}
        else:
            assert forwarded is original


async def test_each_message_is_forwarded_before_the_app_goes_on(limited: Limited) -> None:
    order: list[str] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in MESSAGES["streaming"]:
            order.append("app")
            await send(message)

    async def send(_: Message) -> None:
        order.append("server")

    await limited(app)(http(), unread, send)

    assert order == ["app", "server"] * 4


async def unread() -> Message:
    """A `receive` that must not be called."""
    pytest.fail("the body was read")


async def test_scope_and_receive_reach_the_app_as_they_are(limited: Limited) -> None:
    """Outer layers look at what the app leaves in its scope (`route`, `endpoint`), so it is no copy."""
    seen: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend([scope, receive])
        await sending(START, BODY)(scope, receive, send)

    scope = http()

    async def discard(_: Message) -> None:
        return

    await limited(app)(scope, unread, discard)

    assert seen[0] is scope
    assert seen[1] is unread


@pytest.mark.parametrize("kind", ["lifespan", "webtransport"])
async def test_other_scopes_pass_with_the_very_same_callables(limited: Limited, kind: str) -> None:
    seen: list[object] = []

    async def app(*arguments: object) -> None:
        seen.extend(arguments)

    async def send(_: Message) -> None:
        return

    scope: Scope = {"type": kind}
    await limited(app)(scope, unread, send)

    assert [id(thing) for thing in seen] == [id(scope), id(unread), id(send)]


async def test_a_lifespan_counts_nothing(limited: Limited) -> None:
    app = limited(sending(START, BODY))
    await run(app, {"type": "lifespan"})

    assert (await run(app, http()))[0]["status"] == 200


async def test_without_fields_the_app_gets_the_servers_own_send(clock: ManualClock) -> None:
    seen: list[Send] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        seen.append(send)

    async def send(_: Message) -> None:
        return

    await RateLimitMiddleware(app, {"limits": {"/": "unlimited"}}, clock=clock)(http(), unread, send)

    assert seen == [send]


async def test_an_app_that_raises_before_its_start_sends_nothing(limited: Limited) -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise LookupError("lost")

    async def send(_: Message) -> None:
        pytest.fail("something was sent")

    with pytest.raises(LookupError, match="lost"):
        await limited(app)(http(), unread, send)


async def test_an_app_that_raises_after_its_start_sends_no_second_one(limited: Limited) -> None:
    sent: list[Message] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(START)
        raise LookupError("lost")

    async def send(message: Message) -> None:
        sent.append(message)

    with pytest.raises(LookupError, match="lost"):
        await limited(app)(http(), unread, send)

    assert [message["type"] for message in sent] == ["http.response.start"]


async def test_a_refused_request_reaches_no_app_and_its_body_is_not_read(clock: ManualClock) -> None:
    calls: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        calls.append(scope["path"])
        await sending(START, BODY)(scope, receive, send)

    limited = RateLimitMiddleware(app, RULES, clock=clock)
    await run(limited, http("/first"))
    start, body = await run(limited, http("/second", method="POST"))

    assert calls == ["/first"]
    assert start["status"] == 429
    assert dict(start["headers"]) == {
        b"retry-after": b"60",
        b"ratelimit-policy": b'"all";q=1;w=60',
        b"ratelimit": b'"all";r=0;t=60',
        b"cache-control": b"no-store",
        b"content-type": b"application/problem+json",
        b"content-length": str(len(body["body"])).encode(),
    }
    assert json.loads(body["body"])["violated-policies"] == ["all"]
    assert not body.get("more_body")


async def test_a_refused_client_that_waits_retry_after_is_admitted(
    clock: ManualClock, limited: Limited
) -> None:
    app = limited(sending(START, BODY))
    await run(app, http())
    refused = await run(app, http())
    clock.advance(int(dict(refused[0]["headers"])[b"retry-after"]))

    assert (await run(app, http()))[0]["status"] == 200


async def test_a_refused_head_has_no_body(limited: Limited) -> None:
    app = limited(sending(START, BODY))
    await run(app, http())
    start, body = await run(app, http(method="HEAD"))

    assert start["status"] == 429
    assert int(dict(start["headers"])[b"content-length"]) > 0
    assert body["body"] == b""


async def test_twice_installed_counts_once_for_each_instance(clock: ManualClock) -> None:
    rules = {"limits": {"/**": {"name": "all", "limit": "2/minute"}}}
    twice = RateLimitMiddleware(
        RateLimitMiddleware(sending(START, BODY), rules, clock=clock), rules, clock=clock
    )
    statuses = [(await run(twice, http()))[0]["status"] for _ in range(3)]

    assert statuses == [200, 200, 429]


def nested(clock: ManualClock, outer: Any, inner: Any, *messages: Message) -> ASGIApp:
    """One instance around another, as when a mounted app has limits of its own."""
    return RateLimitMiddleware(
        RateLimitMiddleware(sending(*messages), inner, clock=clock), outer, clock=clock
    )


def limiting(name: str, count: int, **response: Any) -> dict[str, Any]:
    """One rule for everything."""
    return {"limits": {"/**": {"name": name, "limit": f"{count}/minute"}}, "response": response}


@pytest.mark.parametrize(("outer", "inner", "shown"), [(2, 9, "outer"), (9, 2, "inner"), (5, 5, "outer")])
async def test_nested_instances_say_once_which_of_them_is_tighter(
    clock: ManualClock, outer: int, inner: int, shown: str
) -> None:
    app = nested(clock, limiting("outer", outer), limiting("inner", inner), START, BODY)
    headers = (await run(app, http()))[0]["headers"]

    assert [name for name, _ in headers] == [b"x-app", b"x-app", b"ratelimit-policy", b"ratelimit"]
    assert dict(headers)[b"ratelimit"].startswith(f'"{shown}"'.encode())


async def test_an_outer_instance_adds_nothing_to_an_inner_refusal(clock: ManualClock) -> None:
    app = nested(clock, limiting("outer", 9, headers="legacy"), limiting("inner", 1), START, BODY)
    await run(app, http())
    start = (await run(app, http()))[0]

    assert start["status"] == 429
    assert [name for name, _ in start["headers"]] == [
        b"retry-after",
        b"ratelimit-policy",
        b"ratelimit",
        b"cache-control",
        b"content-type",
        b"content-length",
    ]


@pytest.mark.parametrize("silent", ["outer", "inner"])
async def test_of_nested_instances_one_without_fields_leaves_those_of_the_other(
    clock: ManualClock, silent: str
) -> None:
    rules = {
        name: limiting(name, 5, headers="none" if name == silent else "draft-11")
        for name in ("outer", "inner")
    }
    start = (await run(nested(clock, rules["outer"], rules["inner"], START, BODY), http()))[0]

    assert [name for name, _ in start["headers"]].count(b"ratelimit") == 1


async def test_of_three_nested_instances_the_tightest_is_told(clock: ManualClock) -> None:
    app = RateLimitMiddleware(
        nested(clock, limiting("middle", 2), limiting("inner", 4), START, BODY),
        limiting("outer", 6),
        clock=clock,
    )
    fields = [value for name, value in (await run(app, http()))[0]["headers"] if name == b"ratelimit"]

    assert fields == [b'"middle";r=1;t=60']


async def test_a_scope_that_is_used_again_gets_its_fields_again(clock: ManualClock) -> None:
    """A cascade tries one app after the other with the same scope."""
    app = RateLimitMiddleware(sending(START, BODY), limiting("all", 5), clock=clock)
    scope = http()

    for _ in range(2):
        headers = (await run(app, scope))[0]["headers"]
        assert [name for name, _ in headers].count(b"ratelimit") == 1


async def test_exposed_fields_stand_beside_those_that_the_app_exposes(clock: ManualClock) -> None:
    exposing: Message = {**START, "headers": [(b"access-control-expose-headers", b"X-App")]}
    app = RateLimitMiddleware(sending(exposing, BODY), limiting("all", 5, expose_cors=True), clock=clock)
    start = (await run(app, http(headers=[(b"origin", b"https://shop.example")])))[0]
    exposed = [value for name, value in start["headers"] if name == b"access-control-expose-headers"]

    assert exposed == [b"X-App", b"RateLimit-Policy, RateLimit"]


async def test_a_responder_that_fails_is_one_line_in_the_log(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    rules = limiting("all", 1, responder=f"python:{__name__}:lose")
    app = RateLimitMiddleware(sending(START, BODY), rules, clock=clock)
    statuses = [(await run(app, http()))[0]["status"] for _ in range(5)]

    assert statuses == [200, 429, 429, 429, 429]
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("an own responder failed")


def lose(_view: RequestView, _verdict: Verdict) -> object:
    """A responder with a bug."""
    raise LookupError("lost")


ACCEPT = {"type": "websocket.accept", "headers": [(b"x-app", b"1")]}
CONNECT = {"type": "websocket.connect"}


async def test_an_allowed_handshake_gets_the_fields_when_it_is_accepted(limited: Limited) -> None:
    messages: list[Message] = [ACCEPT, {"type": "websocket.send", "text": "hi"}, {"type": "websocket.close"}]
    sent = await run(limited(sending(*messages)), handshake())

    assert sent[0] == {"type": "websocket.accept", "headers": [(b"x-app", b"1"), *FIELDS]}
    assert [a is b for a, b in zip(sent[1:], messages[1:], strict=True)] == [True, True]


async def test_a_handshake_that_the_app_denies_carries_the_fields(limited: Limited) -> None:
    denial: list[Message] = [
        {"type": "websocket.http.response.start", "status": 401, "headers": []},
        {"type": "websocket.http.response.body", "body": b"who?"},
    ]
    sent = await run(limited(sending(*denial)), handshake())

    assert sent == [{**denial[0], "headers": FIELDS}, denial[1]]


async def refused_handshake(app: ASGIApp, received: Message, **more: Any) -> list[Message]:
    """What is sent for the second handshake in a minute."""
    await run(app, handshake())
    return await run(app, handshake(**more), [received])


@pytest.mark.parametrize("extensions", [{}, {"extensions": {}}, {"extensions": None}])
async def test_a_refused_handshake_is_closed_before_it_is_accepted(
    limited: Limited, extensions: dict[str, Any]
) -> None:
    sent = await refused_handshake(limited(sending(ACCEPT)), CONNECT, **extensions)

    assert sent == [{"type": "websocket.close", "code": 1008, "reason": "rate limit"}]


async def test_a_refused_handshake_gets_a_429_where_the_server_can_send_one(limited: Limited) -> None:
    start, body = await refused_handshake(
        limited(sending(ACCEPT)), CONNECT, extensions={"websocket.http.response": {}}
    )

    assert start["type"] == "websocket.http.response.start"
    assert start["status"] == 429
    assert dict(start["headers"])[b"retry-after"] == b"60"
    assert body["type"] == "websocket.http.response.body"
    assert json.loads(body["body"])["violated-policies"] == ["all"]


async def test_nothing_is_sent_to_a_handshake_whose_client_has_gone(limited: Limited) -> None:
    gone = {"type": "websocket.disconnect", "code": 1006}

    assert await refused_handshake(limited(sending(ACCEPT)), gone) == []


def failing(error: Exception) -> Callable[[RequestView, Told | None], Verdict]:
    """A registry's `admit` that fails."""

    def admit(_: RequestView, __: Told | None) -> Verdict:
        raise error

    return admit


@pytest.mark.parametrize("error", [StoreError("the store is gone"), ZeroDivisionError("a bug")])
async def test_a_limiter_that_fails_answers_503_and_lets_nothing_through(
    limited: Limited,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = limited(unreachable)
    monkeypatch.setattr(app._registry, "admit", failing(error))
    start, body = await run(app, http())

    assert start["status"] == 503
    assert json.loads(body["body"])["type"].endswith("#temporary-reduced-capacity")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is error


async def test_a_limiter_that_fails_refuses_handshakes(
    limited: Limited, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = limited(unreachable)
    monkeypatch.setattr(app._registry, "admit", failing(StoreError("gone")))
    sent = await run(app, handshake(extensions={"websocket.http.response": {}}), [CONNECT])

    assert sent[0]["status"] == 503


async def test_without_anyio_a_rule_that_delays_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ratelimit_middleware.asgi_queue", None)
    with pytest.raises(ImportError, match=r"ratelimit-middleware\[asgi\]"):
        RateLimitMiddleware(unreachable, {"default": {"limit": "5/s", "behavior": "queue"}})
    RateLimitMiddleware(unreachable, {"default": "5/s"})


async def test_a_rule_is_about_the_path_after_the_proxy_prefix(clock: ManualClock) -> None:
    app = RateLimitMiddleware(sending(START, BODY), {"limits": {"/page": "1/minute"}}, clock=clock)
    scope = http("/proxy/page", root_path="/proxy")

    assert [(await run(app, scope))[0]["status"] for _ in range(2)] == [200, 429]


async def test_inside_cors_a_refusal_can_be_read_by_scripts(limited: Limited) -> None:
    app = CORSMiddleware(
        limited(sending(START, BODY)),
        allow_origins=["https://shop.example"],
        expose_headers=["RateLimit", "Retry-After"],
    )
    scope = http(headers=[(b"origin", b"https://shop.example")])
    await run(app, scope)
    headers = dict((await run(app, scope))[0]["headers"])

    assert headers[b"retry-after"] == b"60"
    assert headers[b"access-control-allow-origin"] == b"https://shop.example"
    assert headers[b"access-control-expose-headers"] == b"RateLimit, Retry-After"


def test_mistakes_in_the_rules_surface_when_the_middleware_is_built() -> None:
    with pytest.raises(RuleFileError, match="minuet"):
        RateLimitMiddleware(unreachable, {"limits": {"/": "1/minuet"}})
