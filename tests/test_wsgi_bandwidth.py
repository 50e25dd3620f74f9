"""Bodies at a limited bandwidth under WSGI, by a clock that sleeping moves."""

from __future__ import annotations

import io
import sys
import wsgiref.util
from collections.abc import Callable, Iterable, Iterator
from threading import Semaphore
from typing import Any
from wsgiref.validate import validator

import pytest

from ratelimit_middleware._types import Environ, StartResponse
from ratelimit_middleware.clock import NS_PER_SECOND, ManualClock
from ratelimit_middleware.errors import BodyCutError, StoreUnavailableError
from ratelimit_middleware.events import FlowEvent, VerdictEvent
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.wsgi import RateLimitMiddleware

FAST = {"bandwidth": "1MB/s"}
"""50 kB each 50 ms, 100 kB at once."""


class Time:
    """A clock that stands in the place of `time.sleep` as well."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.start_ns = self.clock.now_ns()
        self.error: BaseException | None = None

    def sleep(self, seconds: float) -> None:
        if self.error:
            raise self.error
        self.clock.advance(seconds)

    @property
    def now(self) -> float:
        return round((self.clock.now_ns() - self.start_ns) / NS_PER_SECOND, 6)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr("ratelimit_middleware.wsgi_pace.time.sleep", time.sleep)
    return time


class Heard:
    """A hook that keeps what it hears."""

    def __init__(self) -> None:
        self.events: list[FlowEvent] = []

    def on_verdict(self, event: VerdictEvent) -> None:
        pass

    def on_flow(self, event: FlowEvent) -> None:
        self.events.append(event)


class Served:
    """What a server hears and sends for one request."""

    def __init__(self, time: Time, app: Callable[..., Any], body: bytes = b"", method: str = "GET") -> None:
        self.time = time
        self.starts: list[tuple[str, dict[str, str]]] = []
        self.pieces: list[tuple[float, int]] = []
        self.environ: Environ = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": "/",
            "QUERY_STRING": "",
            "SERVER_NAME": "t",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "192.0.2.1",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": io.StringIO(),
            "wsgi.version": (1, 0),
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            "wsgi.url_scheme": "http",
            "wsgi.file_wrapper": FileWrapper,
        }
        self.sent = b""
        self.result = app(self.environ, self.start_response)

    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], object]:
        if exc_info:
            raise exc_info[1].with_traceback(exc_info[2])
        self.starts.append((status[:3], dict(headers)))
        return self.send

    def send(self, data: bytes) -> None:
        assert self.starts
        if data:
            self.pieces.append((self.time.now, len(data)))
        self.sent += data

    def to_the_end(self) -> Served:
        try:
            for data in self.result:
                self.send(data)
        finally:
            self.close()
        return self

    def close(self) -> None:
        if hasattr(self.result, "close"):
            self.result.close()

    @property
    def status(self) -> str:
        ((status, _),) = self.starts
        return status


class FileWrapper:
    """What a server sends by itself."""

    def __init__(self, file: Any, size: int = 8192) -> None:
        self.file = file

    def __iter__(self) -> Iterator[bytes]:
        return iter([self.file.read()])


def pattern(size: int) -> bytes:
    return bytes(n * 7 % 251 for n in range(size))


def sending(bodies: Iterable[bytes], *headers: tuple[str, str]) -> Any:
    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "application/octet-stream"), *headers])
        return bodies

    return app


def limited(
    app: Any, time: Time, rule: dict[str, Any] = FAST, store: MemoryStore | None = None, **more: Any
) -> RateLimitMiddleware:
    store = store or MemoryStore(clock=time.clock)
    return RateLimitMiddleware(app, {"limits": {"/": rule}}, store=store, **more)


def places(app: RateLimitMiddleware) -> int:
    semaphore: Semaphore = app._places
    return semaphore._value


def test_a_body_passes_in_pieces_at_the_rate(time: Time) -> None:
    heard = Heard()
    served = Served(time, limited(sending([pattern(325_000)]), time, hooks=[heard])).to_the_end()
    assert served.sent == pattern(325_000)
    assert served.pieces == [
        (0, 50_000),
        (0, 50_000),
        (0.05, 50_000),
        (0.1, 50_000),
        (0.15, 50_000),
        (0.2, 50_000),
        (0.225, 25_000),
    ]
    assert served.starts[0][1]["Content-Length"] == "325000", "as a server tells it of a single piece"
    assert [(event.kind, event.amount) for event in heard.events] == [("paced", 225_000)]


def test_a_generator_is_passed_on_piece_by_piece_and_closed(time: Time) -> None:
    closed: list[float] = []

    def parts() -> Iterator[bytes]:
        try:
            for _ in range(30):
                yield pattern(10_000)
        finally:
            closed.append(time.now)

    served = Served(time, limited(sending(parts()), time)).to_the_end()
    assert served.sent == pattern(10_000) * 30
    assert served.pieces[-1] == (0.2, 10_000)
    assert closed == [0.2]


def test_the_legacy_write_is_paced_too(time: Time) -> None:
    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        write = start_response("200 OK", [])
        write(pattern(200_000))
        return [b"end"]

    served = Served(time, limited(app, time)).to_the_end()
    assert served.sent == pattern(200_000) + b"end"
    assert served.pieces[-1][0] == pytest.approx(0.100003)


def test_a_file_is_not_sent_past_the_limit_by_the_server(time: Time) -> None:
    seen: list[object] = []

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        seen.append(environ.get("wsgi.file_wrapper"))
        start_response("200 OK", [])
        wrapped: Iterable[bytes] = environ["wsgi.file_wrapper"](io.BytesIO(pattern(200_000)))
        return wrapped

    served = Served(time, limited(app, time)).to_the_end()
    assert seen == [wsgiref.util.FileWrapper]
    assert not isinstance(served.result, (FileWrapper, wsgiref.util.FileWrapper))
    assert served.sent == pattern(200_000)
    assert served.pieces[-1][0] == 0.1
    assert served.environ["wsgi.file_wrapper"] is FileWrapper


@pytest.mark.parametrize("how", ["all", "sized", "lines", "readlines", "line by line"])
def test_an_upload_passes_at_the_rate_however_it_is_read(time: Time, how: str) -> None:
    body = b"".join(b"%06d\n" % n for n in range(20_000)) + b"no end"
    read: list[bytes] = []

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        source = environ["wsgi.input"]
        if how == "all":
            read.append(source.read())
        elif how == "sized":
            read.extend(iter(lambda: source.read(70_000), b""))
        elif how == "lines":
            read.extend(source)
        elif how == "readlines":
            read.extend(source.readlines())
        else:
            read.extend(iter(lambda: source.readline(50), b""))
        start_response("200 OK", [])
        return [b"ok"]

    served = Served(time, limited(app, time), body, "POST").to_the_end()
    assert b"".join(read) == body
    assert served.status == "200"
    assert time.now == pytest.approx(0.040006, abs=1e-5)
    if how in ("lines", "readlines"):
        assert read[1] == b"000001\n"
    assert isinstance(served.environ["wsgi.input"], io.BytesIO)


def test_a_readline_may_be_longer_than_a_piece(time: Time) -> None:
    lines: list[bytes] = []

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        lines.extend(environ["wsgi.input"])
        start_response("200 OK", [])
        return []

    body = b"a" * 120_000 + b"\n" + b"b\n"
    Served(time, limited(app, time), body, "POST").to_the_end()
    assert lines == [b"a" * 120_000 + b"\n", b"b\n"]


def test_a_head_is_left_alone(time: Time) -> None:
    bodies = [pattern(900_000)]
    app = limited(sending(bodies), time)
    assert Served(time, app, method="HEAD").result is bodies


def test_more_long_bodies_than_may_wait_are_refused_before_they_begin(time: Time) -> None:
    app = limited(sending([pattern(200_000)]), time, max_waiting_threads=2)
    closing = [Served(time, app) for _ in range(3)]
    for served in closing:
        served.send(next(iter(served.result)))
    assert [served.status for served in closing] == ["200", "200", "503"]
    assert "Retry-After" not in closing[0].starts[0][1]
    assert list(closing[2].result) == []
    for served in closing:
        served.close()
    assert places(app) == 2
    assert Served(time, app).to_the_end().status == "200"


def test_a_short_body_needs_no_place_unless_it_waits(time: Time) -> None:
    app = limited(sending([pattern(60_000)]), time, max_waiting_threads=0)
    assert Served(time, app).to_the_end().status == "200"
    assert Served(time, app).to_the_end().status == "503"
    time.sleep(1)
    assert Served(time, app).to_the_end().status == "200"


def test_an_answer_without_a_body_needs_no_place(time: Time) -> None:
    served = Served(time, limited(sending([]), time, max_waiting_threads=0)).to_the_end()
    assert served.starts == [("200", {"Content-Type": "application/octet-stream"})]


@pytest.mark.parametrize(("status", "method"), [("204 N", "GET"), ("304 N", "GET"), ("200 OK", "HEAD")])
def test_no_length_is_told_of_a_body_that_there_cannot_be(time: Time, status: str, method: str) -> None:
    def app(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response(status, [("X-A", "b")])
        return [b""]

    rules = {"limits": {"/": {"bandwidth": "1MB/s"}}}
    served = Served(time, RateLimitMiddleware(app, rules, clock=time.clock), b"upload", method).to_the_end()
    assert served.starts == [(status[:3], {"X-A": "b"})]


def test_an_upload_for_which_there_is_no_place_is_refused_whatever_the_app_makes_of_it(time: Time) -> None:
    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        try:
            environ["wsgi.input"].read()
        except OSError:
            start_response("500 Oh", [])
            return [b"what a framework says"]
        raise AssertionError

    def raising(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        return [environ["wsgi.input"].read()]

    for one in (app, raising):
        middleware = limited(one, time, max_waiting_threads=0)
        served = Served(time, middleware, pattern(300_000), "POST").to_the_end()
        assert served.status == "503"
        assert b"what a framework says" not in served.sent


def test_a_body_that_is_closed_before_its_end_frees_its_place(time: Time) -> None:
    app = limited(sending([pattern(500_000)]), time)
    for _ in range(10):
        served = Served(time, app)
        for _ in range(5):
            next(iter(served.result))
        served.close()
        served.close()
    assert places(app) == 3


@pytest.mark.parametrize("where", ["app", "iterable"])
def test_an_app_that_raises_frees_its_place_and_its_error_is_its_own(time: Time, where: str) -> None:
    def parts() -> Iterator[bytes]:
        yield pattern(200_000)
        raise LookupError("late")

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        if where == "app":
            raise LookupError("early")
        return parts()

    middleware = limited(app, time)
    with pytest.raises(LookupError):
        Served(time, middleware).to_the_end()
    assert places(middleware) == 3


def failed(start_response: StartResponse) -> None:
    """Say that all has gone wrong, as apps do."""
    try:
        int("x")
    except ValueError:
        start_response("500 Oh", [], sys.exc_info())


def test_start_response_may_be_called_again_for_an_error_until_the_first_piece_is_out(time: Time) -> None:
    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        failed(start_response)
        return [b"oh"]

    def late(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        yield b"so far so good"
        failed(start_response)

    assert Served(time, limited(app, time)).to_the_end().status == "500"
    with pytest.raises(ValueError, match="x"):
        Served(time, limited(late, time)).to_the_end()


def test_a_thread_that_is_interrupted_gives_back_what_it_has_booked(time: Time) -> None:
    store = MemoryStore(clock=time.clock)
    app = limited(sending([pattern(200_000)]), time, store=store)
    served = Served(time, app)
    next(iter(served.result))
    next(iter(served.result))
    time.error = SystemExit()
    with pytest.raises(SystemExit):
        next(iter(served.result))
    served.close()
    (bucket,) = store._buckets.values()
    assert bucket.algorithm.used(bucket.state, time.clock.now_ns()) == 100_000
    assert places(app) == 3


class BrokenStore(MemoryStore):
    """Does not answer from one moment to another."""

    def __init__(self, time: Time, down: float, up: float = 1e9) -> None:
        super().__init__(clock=time.clock)
        self.time, self.down, self.up = time, down, up

    def take(self, checks: Any) -> Any:
        if self.down <= self.time.now < self.up:
            raise StoreUnavailableError(10**9)
        return super().take(checks)


def test_while_the_store_does_not_answer_nothing_passes(time: Time) -> None:
    app = limited(sending([pattern(200_000)]), time, store=BrokenStore(time, 0.01, 5))
    served = Served(time, app).to_the_end()
    assert served.sent == pattern(200_000)
    assert [at for at, _ in served.pieces] == [0, 0, 0.05, 5.05]


def test_a_response_that_cannot_be_counted_for_long_is_broken_off(time: Time) -> None:
    heard = Heard()
    app = limited(sending([pattern(200_000)]), time, store=BrokenStore(time, 0.01), hooks=[heard])
    served = Served(time, app)
    with pytest.raises(BodyCutError):
        served.to_the_end()
    assert served.status == "200"
    assert len(served.sent) == 150_000
    assert time.now == pytest.approx(10.05)
    assert [event.kind for event in heard.events] == ["cut", "paced"]
    assert places(app) == 3


def test_a_response_of_which_nothing_can_be_counted_is_a_503(time: Time) -> None:
    served = Served(time, limited(sending([b"secret"]), time, store=BrokenStore(time, 0))).to_the_end()
    assert served.status == "503"
    assert b"secret" not in served.sent


def test_a_shadow_rule_lets_all_pass_and_tells(time: Time) -> None:
    heard = Heard()
    app = limited(
        sending([pattern(250_000)] * 2),
        time,
        {**FAST, "mode": "shadow"},
        hooks=[heard],
        max_waiting_threads=0,
    )
    served = Served(time, app).to_the_end()
    assert served.sent == pattern(250_000) * 2
    assert time.now == 0
    assert [(event.shadow, event.amount) for event in heard.events] == [(True, 400_000)]


def test_installed_twice_over_one_store_a_byte_counts_once(time: Time) -> None:
    store = MemoryStore(clock=time.clock)
    inner = limited(sending([pattern(200_000)]), time, store=store)
    Served(time, limited(inner, time, store=store)).to_the_end()
    assert time.now == 0.1


def test_messages_of_websockets_have_no_effect_here(time: Time) -> None:
    bodies = [b"body"]
    app = limited(sending(bodies), time, {"limit": "9/second", "messages": "1/hour"})
    assert Served(time, app).result is bodies


def test_what_pep_3333_asks_for_is_kept(time: Time) -> None:
    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        environ["wsgi.input"].read(5)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [pattern(120_000)]

    checked: Any = validator(limited(validator(app), time))
    assert Served(time, checked, b"12345678", "POST").to_the_end().sent == pattern(120_000)
