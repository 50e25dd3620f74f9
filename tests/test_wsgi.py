"""PEP 3333, call by call, with hand-made environs."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from ratelimit_middleware._types import Environ, StartResponse, Write, WSGIApp
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.errors import RuleFileError, StoreError
from ratelimit_middleware.nested import Told
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.wsgi import RateLimitMiddleware
from tests.awaited import AwaitedStore

RULES = {"limits": {"/**": {"name": "all", "limit": "1/minute"}}}
FIELDS = [("RateLimit-Policy", '"all";q=1;w=60'), ("RateLimit", '"all";r=0;t=60')]
Limited = Callable[[WSGIApp], RateLimitMiddleware]


class UnreadInput:
    """A `wsgi.input` that must not be touched."""

    def __getattr__(self, name: str) -> object:
        pytest.fail(f"wsgi.input.{name} was used")


class Server:
    """A server's `start_response`: remembers its calls, and holds to the rule about `exc_info`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[tuple[str, str]], Any]] = []
        self.written: list[bytes] = []
        self.sent = False

    def start_response(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Write:
        """Begin the response, or begin it again after an error."""
        assert type(headers) is list
        if exc_info and self.sent:
            raise exc_info[1]
        assert not self.calls or exc_info, "started twice"
        self.calls.append((status, headers, exc_info))
        return self.written.append


def environ(path: str = "/", method: str = "GET") -> Environ:
    """An environ as a server makes it."""
    return {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "REMOTE_ADDR": "192.0.2.1",
        "wsgi.input": UnreadInput(),
    }


def hello(_: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """The tiniest app."""
    start_response("200 OK", [("X-App", "1"), ("X-App", "2")])
    return [b"hello"]


def lose() -> None:
    """Fail as an app may."""
    raise LookupError("lost")


def unreachable(_: Environ, __: StartResponse) -> Iterable[bytes]:
    """An app that must not be called."""
    pytest.fail("the app was called")


@pytest.fixture
def server() -> Server:
    """A fresh server for one response."""
    return Server()


@pytest.fixture
def limited(clock: ManualClock) -> Limited:
    """A function that puts an app behind one request a minute."""
    return lambda app: RateLimitMiddleware(app, RULES, clock=clock)


def second_answer(app: WSGIApp, server: Server, method: str = "GET") -> bytes:
    """Ask twice; the body of the second answer, whose start is in `server`."""
    app(environ(), Server().start_response)
    return b"".join(app(environ(method=method), server.start_response))


def test_the_fields_come_behind_those_of_the_app(limited: Limited, server: Server) -> None:
    body = limited(hello)(environ(), server.start_response)

    assert server.calls == [("200 OK", [("X-App", "1"), ("X-App", "2"), *FIELDS], None)]
    assert body == [b"hello"]


def test_the_list_of_the_app_is_not_changed_in_place(limited: Limited, server: Server) -> None:
    headers = [("X-App", "1")]

    def app(_: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", headers)
        return []

    limited(app)(environ(), server.start_response)

    assert headers == [("X-App", "1")]


def test_the_iterable_of_the_app_is_returned_as_it_is(limited: Limited, server: Server) -> None:
    """So its length, its `close()` and the server's file wrapper work as without a middleware."""
    body = [b"hello"]

    def app(_: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        return body

    assert limited(app)(environ(), server.start_response) is body


def test_environ_is_handed_on_as_it_is(limited: Limited, server: Server) -> None:
    seen: list[Environ] = []

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        seen.append(environ)
        return hello(environ, start_response)

    original = environ()
    keys = set(original)
    limited(app)(original, server.start_response)

    assert seen[0] is original
    assert set(original) == keys


def test_an_app_may_start_late_and_nothing_is_pulled_before_the_server_asks(
    limited: Limited, server: Server
) -> None:
    events: list[str] = []

    def app(_: Environ, start_response: StartResponse) -> Iterator[bytes]:
        events.append("started")
        start_response("200 OK", [])
        for part in (b"1", b"2"):
            events.append(part.decode())
            yield part

    body = iter(limited(app)(environ(), server.start_response))

    assert events == []
    assert next(body) == b"1"
    assert events == ["started", "1"]
    assert server.calls == [("200 OK", FIELDS, None)]
    assert next(body) == b"2"


def test_a_second_start_with_exc_info_is_handed_on_with_the_fields(limited: Limited, server: Server) -> None:
    seen: list[Any] = []

    def app(_: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        try:
            lose()
        except LookupError:
            seen.append(sys.exc_info())
            start_response("500 Oops", [("X-App", "error")], seen[0])
        return [b"error"]

    limited(app)(environ(), server.start_response)

    assert server.calls[1] == ("500 Oops", [("X-App", "error"), *FIELDS], seen[0])


def test_a_server_that_has_sent_its_headers_raises_the_error_again(limited: Limited, server: Server) -> None:
    def app(_: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        server.sent = True
        try:
            lose()
        except LookupError:
            start_response("500 Oops", [], sys.exc_info())
        return []

    with pytest.raises(LookupError, match="lost"):
        limited(app)(environ(), server.start_response)


def test_the_servers_write_is_returned(limited: Limited, server: Server) -> None:
    def app(_: Environ, start_response: StartResponse) -> Iterable[bytes]:
        write = start_response("200 OK", [])
        write(b"one")
        write(b"two")
        return []

    limited(app)(environ(), server.start_response)

    assert server.written == [b"one", b"two"]


def test_close_is_left_to_the_server(limited: Limited, server: Server) -> None:
    class Body:
        closed = 0

        def __iter__(self) -> Iterator[bytes]:
            return iter([b"hello"])

        def close(self) -> None:
            self.closed += 1

    body = Body()

    def app(_: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        return body

    returned = limited(app)(environ(), server.start_response)

    assert list(returned) == [b"hello"]
    assert returned is body
    assert body.closed == 0


def test_without_fields_the_app_gets_the_servers_own_start_response(
    clock: ManualClock, server: Server
) -> None:
    seen: list[StartResponse] = []

    def app(_: Environ, start_response: StartResponse) -> Iterable[bytes]:
        seen.append(start_response)
        return []

    start_response = server.start_response
    RateLimitMiddleware(app, {"limits": {"/": "unlimited"}}, clock=clock)(environ(), start_response)

    assert seen == [start_response]


def test_an_app_that_raises_is_not_answered_for(limited: Limited, server: Server) -> None:
    def app(_: Environ, __: StartResponse) -> Iterable[bytes]:
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        limited(app)(environ(), server.start_response)

    assert server.calls == []


def test_a_refused_request_reaches_no_app_and_its_body_is_not_read(limited: Limited, server: Server) -> None:
    calls: list[str] = []

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        calls.append(environ["REQUEST_METHOD"])
        return hello(environ, start_response)

    body = second_answer(limited(app), server, "POST")
    status, headers, _ = server.calls[0]

    assert calls == ["GET"]
    assert status == "429 Too Many Requests"
    assert headers == [
        ("Retry-After", "60"),
        *FIELDS,
        ("Cache-Control", "no-store"),
        ("Content-Type", "application/problem+json"),
        ("Content-Length", str(len(body))),
    ]
    assert json.loads(body)["violated-policies"] == ["all"]


def test_a_refused_client_that_waits_retry_after_is_admitted(
    clock: ManualClock, limited: Limited, server: Server
) -> None:
    app = limited(hello)
    second_answer(app, server)
    clock.advance(int(dict(server.calls[0][1])["Retry-After"]))
    again = Server()
    app(environ(), again.start_response)

    assert again.calls[0][0] == "200 OK"


def test_a_refused_head_has_no_body(limited: Limited, server: Server) -> None:
    body = second_answer(limited(hello), server, "HEAD")

    assert server.calls[0][0] == "429 Too Many Requests"
    assert int(dict(server.calls[0][1])["Content-Length"]) > 0
    assert body == b""


@pytest.mark.parametrize("error", [StoreError("the store is gone"), ZeroDivisionError("a bug")])
def test_a_limiter_that_fails_answers_503_and_lets_nothing_through(
    limited: Limited,
    server: Server,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def admit(_: RequestView, __: Told | None) -> Verdict:
        raise error

    app = limited(unreachable)
    monkeypatch.setattr(app._registry, "admit", admit)
    body = b"".join(app(environ(), server.start_response))

    assert server.calls[0][0] == "503 Service Unavailable"
    assert json.loads(body)["type"].endswith("#temporary-reduced-capacity")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is error


def test_a_delayed_request_waits_before_the_app_is_called(
    limited: Limited, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[object] = []

    def admit(_: RequestView, __: Told | None) -> Verdict:
        return Verdict(allowed=True, wait_ns=1_500_000_000, retry_after_ns=None)

    def app(_: Environ, __: StartResponse) -> Iterable[bytes]:
        events.append("app")
        return []

    delayed = limited(app)
    monkeypatch.setattr(delayed._registry, "admit", admit)
    monkeypatch.setattr("ratelimit_middleware.wsgi.time.sleep", events.append)
    delayed(environ(), server.start_response)

    assert events == [1.5, "app"]


def test_mistakes_in_the_rules_surface_when_the_middleware_is_built() -> None:
    with pytest.raises(RuleFileError, match="minuet"):
        RateLimitMiddleware(unreachable, {"limits": {"/": "1/minuet"}})


def test_a_store_that_must_be_awaited_is_refused_when_the_middleware_is_built() -> None:
    store: Any = AwaitedStore(MemoryStore())
    with pytest.raises(StoreError, match="cannot await AwaitedStore"):
        RateLimitMiddleware(lambda environ, start_response: [], RULES, store=store)


def limiting(name: str, count: int, **response: Any) -> dict[str, Any]:
    """One rule for everything."""
    return {"limits": {"/**": {"name": name, "limit": f"{count}/minute"}}, "response": response}


def nested(clock: ManualClock, outer: Any, inner: Any) -> WSGIApp:
    """One instance around another."""
    return RateLimitMiddleware(RateLimitMiddleware(hello, inner, clock=clock), outer, clock=clock)


@pytest.mark.parametrize(("outer", "inner", "shown"), [(2, 9, "outer"), (9, 2, "inner"), (5, 5, "outer")])
def test_nested_instances_say_once_which_of_them_is_tighter(
    clock: ManualClock, server: Server, outer: int, inner: int, shown: str
) -> None:
    nested(clock, limiting("outer", outer), limiting("inner", inner))(environ(), server.start_response)
    headers = server.calls[0][1]

    assert [name for name, _ in headers] == ["X-App", "X-App", "RateLimit-Policy", "RateLimit"]
    assert dict(headers)["RateLimit"].startswith(f'"{shown}"')


def test_an_outer_instance_adds_nothing_to_an_inner_refusal(clock: ManualClock, server: Server) -> None:
    second_answer(nested(clock, limiting("outer", 9, headers="legacy"), limiting("inner", 1)), server)
    status, headers, _ = server.calls[0]

    assert status == "429 Too Many Requests"
    assert [name for name, _ in headers if "RateLimit" in name] == ["RateLimit-Policy", "RateLimit"]


def test_an_environ_that_is_used_again_gets_its_fields_again(clock: ManualClock) -> None:
    """A cascade tries one app after the other with the same environ."""
    app = RateLimitMiddleware(hello, limiting("all", 5), clock=clock)
    again = environ()
    for _ in range(2):
        server = Server()
        app(again, server.start_response)
        assert [name for name, _ in server.calls[0][1]].count("RateLimit") == 1


def test_exposed_fields_stand_beside_those_that_the_app_exposes(clock: ManualClock, server: Server) -> None:
    def app(_: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [("Access-Control-Expose-Headers", "X-App")])
        return []

    limited = RateLimitMiddleware(app, limiting("all", 5, expose_cors=True), clock=clock)
    limited({**environ(), "HTTP_ORIGIN": "https://shop.example"}, server.start_response)
    exposed = [value for name, value in server.calls[0][1] if name == "Access-Control-Expose-Headers"]

    assert exposed == ["X-App", "RateLimit-Policy, RateLimit"]


@pytest.mark.parametrize(
    ("status", "line"), [(503, "503 Service Unavailable"), (403, "403 Forbidden"), (499, "499 Refused")]
)
def test_every_status_has_a_reason(clock: ManualClock, server: Server, status: int, line: str) -> None:
    second_answer(RateLimitMiddleware(hello, limiting("all", 1, status=status), clock=clock), server)

    assert server.calls[0][0] == line
