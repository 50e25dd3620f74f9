"""Bodies and messages over TCP, counted in Redis: shared by hosts, and while Redis dies.

The servers run in threads of this process, so that the tests can shorten the patience of the middlewares.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import httpx
import pytest
import uvicorn
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware._types import (
    ASGIApp,
    Environ,
    Receive,
    Scope,
    Send,
    StartResponse,
    WSGIApp,
)
from ratelimit_middleware.stores.redis import RedisStore
from tests.redis_cluster import wait_until
from tests.redis_server import RedisServer, require_server

BODY = bytes(n * n % 251 for n in range(300_000))
RATE, BURST = 1_000_000, 100_000
MINUTE_NS = 60 * 10**9
AT_LEAST_S = (len(BODY) - BURST) / RATE
RULES: dict[str, Any] = {
    "limits": {
        "/paced/**": {"bandwidth": "1MB/s burst 100kB per global"},
        "/slow": {"bandwidth": "1B/s burst 512B per global"},
        "WS /delay": {"messages": "20/second burst 5 per ip", "on_excess": "delay"},
        "WS /close": {"messages": "1000/hour per ip"},
    }
}


class Host(NamedTuple):
    """A server with the middleware.

    Attributes:
        url: where it is.
        errors: tells how many calls its Redis has not answered.
    """

    url: str
    errors: Callable[[], int]


Serve = Callable[..., Host]


async def asgi_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Echo messages with the moment; send the body, or the digest of what is uploaded."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": json.dumps([message["text"], time.monotonic()])})
        return
    uploaded, more = hashlib.sha256(), scope["method"] == "POST"
    while more:
        message = await receive()
        uploaded.update(message.get("body", b""))
        more = message.get("more_body", False)
    body = uploaded.hexdigest().encode() if scope["method"] == "POST" else BODY
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def wsgi_app(environ: Environ, start_response: StartResponse) -> list[bytes]:
    body = BODY
    if environ["REQUEST_METHOD"] == "POST":
        uploaded = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        body = hashlib.sha256(uploaded).hexdigest().encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


@contextmanager
def uvicorn_serving(app: ASGIApp) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="on", log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


class _Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A body that is broken off is no news."""


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        pass

    def get_stderr(self) -> Any:
        """Nowhere: the middleware breaks off by an error."""
        return Nowhere()


class Nowhere:
    def write(self, _: str) -> None: ...
    def flush(self) -> None: ...


@contextmanager
def wsgiref_serving(app: WSGIApp) -> Iterator[str]:
    with make_server("127.0.0.1", 0, app, _Threads, _Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    require_server()
    server = RedisServer(tmp_path)
    yield server
    server.kill()


@pytest.fixture
def serve(redis: RedisServer) -> Iterator[Serve]:
    """Starts a host of one of the two kinds on this Redis."""
    with ExitStack() as hosts:

        def start(kind: str, **store: Any) -> Host:
            rules = {"store": {"url": redis.url, "timeout": "200ms", **store}, **RULES}
            if kind == "asgi":
                limited_asgi = asgi.RateLimitMiddleware(asgi_app, rules)
                registry, serving = limited_asgi._registry, uvicorn_serving(limited_asgi)
            else:
                limited_wsgi = wsgi.RateLimitMiddleware(wsgi_app, rules)
                registry, serving = limited_wsgi._registry, wsgiref_serving(limited_wsgi)
                hosts.callback(registry.close)
            guard: Any = registry.store
            return Host(hosts.enter_context(serving), lambda: guard.health().errors)

        yield start


KINDS = pytest.mark.parametrize("kind", ["asgi", "wsgi"])


@KINDS
def test_bodies_of_both_ways_arrive_whole_and_not_before_their_time(serve: Serve, kind: str) -> None:
    host = serve(kind)
    start = time.monotonic()
    assert httpx.get(f"{host.url}/paced/down", timeout=15).content == BODY
    assert time.monotonic() - start > AT_LEAST_S - 0.01
    start = time.monotonic()
    answer = httpx.post(f"{host.url}/paced/up", content=BODY, timeout=15)
    assert answer.text == hashlib.sha256(BODY).hexdigest()
    assert time.monotonic() - start > AT_LEAST_S - 0.01


def test_hosts_of_both_kinds_share_one_bandwidth(serve: Serve) -> None:
    hosts = [serve("asgi"), serve("wsgi")]
    start = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda host: httpx.get(f"{host.url}/paced/down", timeout=15), hosts))
    assert [answer.content for answer in answers] == [BODY] * 2
    assert time.monotonic() - start > (2 * len(BODY) - BURST) / RATE - 0.01


def test_a_client_that_hangs_up_gets_back_what_was_booked_for_it(serve: Serve, redis: RedisServer) -> None:
    host, store = serve("asgi"), RedisStore(redis.url)

    def is_booked_ahead() -> bool:
        """Whether the next byte would have to wait for others than those of the burst."""
        looks = [store.look(key) for key in store.scan("/slow")]
        return any(look is not None and (look.decision.retry_after_ns or 0) > MINUTE_NS for look in looks)

    with httpx.stream("GET", f"{host.url}/slow", timeout=15):
        wait_until(is_booked_ahead)
    wait_until(lambda: not is_booked_ahead())
    assert not is_booked_ahead()
    store.close()


@KINDS
def test_while_redis_is_dead_a_body_goes_on_at_this_hosts_share(
    serve: Serve, redis: RedisServer, kind: str
) -> None:
    host = serve(kind, expected_workers=2)
    start = time.monotonic()
    with httpx.stream("GET", f"{host.url}/paced/down", timeout=15) as answer:
        pieces = answer.iter_bytes(10_000)
        first = next(pieces)
        redis.kill()
        assert first + b"".join(pieces) == BODY
    assert answer.status_code == 200
    assert host.errors()
    assert time.monotonic() - start > AT_LEAST_S - 0.01
    assert httpx.post(f"{host.url}/paced/up", content=BODY[:1000], timeout=15).status_code == 200


@KINDS
def test_with_deny_a_body_waits_until_redis_is_back(serve: Serve, redis: RedisServer, kind: str) -> None:
    host = serve(kind, on_error="deny")
    with httpx.stream("GET", f"{host.url}/paced/down", timeout=15) as answer:
        pieces = answer.iter_bytes(10_000)
        first = next(pieces)
        redis.kill()
        wait_until(host.errors)
        redis.start()
        assert first + b"".join(pieces) == BODY


@KINDS
def test_with_deny_a_body_is_broken_off_when_redis_does_not_come_back(
    serve: Serve, redis: RedisServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratelimit_middleware.asgi_meter._PATIENCE_S", 0.2)
    monkeypatch.setattr("ratelimit_middleware.wsgi_pace._PATIENCE_S", 0.2)
    host = serve(kind, on_error="deny")
    with httpx.stream("GET", f"{host.url}/paced/down", timeout=15) as answer:
        pieces = answer.iter_bytes(10_000)
        next(pieces)
        redis.kill()
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
    assert httpx.post(f"{host.url}/paced/up", content=BODY, timeout=15).status_code == 503
    redis.start()
    wait_until_served(f"{host.url}/paced/down")


def wait_until_served(url: str) -> None:
    for _ in range(100):
        try:
            answer = httpx.get(url, timeout=15)
        except httpx.RemoteProtocolError:  # begun, and broken off again
            continue
        if answer.status_code == 200:
            assert answer.content == BODY
            return
        assert answer.status_code == 503
    raise AssertionError("it is not served again")


def test_messages_that_wait_come_in_order_also_when_redis_dies(serve: Serve, redis: RedisServer) -> None:
    host = serve("asgi", expected_workers=2)
    with connect(f"{host.url.replace('http', 'ws')}/delay", open_timeout=15) as connection:
        for n in range(15):
            connection.send(str(n))
        echoes = [json.loads(connection.recv(timeout=15)) for _ in range(7)]
        redis.kill()
        echoes += [json.loads(connection.recv(timeout=15)) for _ in range(8)]
    assert [text for text, _ in echoes] == [str(n) for n in range(15)]
    assert echoes[-1][1] - echoes[0][1] > 10 / 20 - 0.06, "5 at once, then one each 50 ms"


def test_a_message_that_cannot_be_counted_closes_the_connection(serve: Serve, redis: RedisServer) -> None:
    host = serve("asgi", on_error="deny")
    with connect(f"{host.url.replace('http', 'ws')}/close", open_timeout=15) as connection:
        connection.send("counted")
        assert json.loads(connection.recv(timeout=15))[0] == "counted"
        redis.kill()
        connection.send("not counted")
        with pytest.raises(ConnectionClosed) as end:
            connection.recv(timeout=15)
    assert end.value.rcvd is not None
    assert (end.value.rcvd.code, end.value.rcvd.reason) == (1013, "rate limit")
