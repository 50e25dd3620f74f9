"""Fixtures for all tests. Nothing beyond pytest and the core is imported before it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from hypothesis import HealthCheck, settings

from ratelimit_middleware._types import ASGIApp, WSGIApp
from ratelimit_middleware.clock import ManualClock
from tests.redis_server import RedisServer, lasting_keys, require_server

if TYPE_CHECKING:
    import httpx


class Ask(Protocol):
    """Sends a request to an app behind a middleware."""

    async def __call__(
        self, path: str = "/", *, method: str = "GET", peer: str = "192.0.2.1", **headers: str
    ) -> httpx.Response:
        """The response; headers with `_` in the place of `-`."""


# How long an example takes says how busy the machine is, nothing else.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# For interpreters besides the main one, where it is the interpreter that is on trial.
settings.register_profile("quick", settings.get_profile("suite"), max_examples=10)


@pytest.fixture(autouse=True)
def _no_blocking_call_on_the_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test whose event loop is blocked (pure arithmetic runs no loop)."""
    if request.node.get_closest_marker("arithmetic"):
        yield
        return
    from blockbuster import blockbuster_ctx

    with blockbuster_ctx() as guard:
        # Rules are read once, when the middleware is built; FastAPI builds it inside its loop. So is the
        # script of Redis, when the first store of the process is made.
        for function in guard.functions.values():
            function.can_block_in("ratelimit_middleware/build.py", {"build_registry"})
            function.can_block_in("ratelimit_middleware/stores/_redis_script.py", {"load_script"})
        yield


@pytest.fixture
def anyio_backend() -> str:
    """The world of `@pytest.mark.anyio` tests."""
    return "asyncio"


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until the test moves it."""
    return ManualClock()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis server for all tests; every key they leave behind has to go by itself."""
    require_server()
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    try:
        yield server
        assert lasting_keys(server.url) == []
    finally:
        server.kill()


@pytest.fixture
def asgi_client() -> Callable[..., httpx.AsyncClient]:
    """A function from an ASGI app to a client; failures of the app become 500, as on a server."""
    import httpx

    def connect(app: ASGIApp, peer: str = "192.0.2.1", root_path: str = "") -> httpx.AsyncClient:
        transport = httpx.ASGITransport(
            app, raise_app_exceptions=False, root_path=root_path, client=(peer, 50000)
        )
        return httpx.AsyncClient(transport=transport, base_url="http://test")

    return connect


@pytest.fixture
def wsgi_client() -> Callable[..., httpx.Client]:
    """A function from a WSGI app to a client."""
    import httpx

    def connect(app: WSGIApp, peer: str = "192.0.2.1", script_name: str = "") -> httpx.Client:
        transport = httpx.WSGITransport(app, remote_addr=peer, script_name=script_name)
        return httpx.Client(transport=transport, base_url="http://test")

    return connect


@pytest.fixture(params=["asgi", "wsgi"])
def limited(
    request: pytest.FixtureRequest,
    clock: ManualClock,
    asgi_client: Callable[..., httpx.AsyncClient],
    wsgi_client: Callable[..., httpx.Client],
) -> Callable[..., Ask]:
    """A function from rules to an app behind them, once in each world."""
    from ratelimit_middleware import asgi, wsgi

    async def asgi_app(scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"served"})

    def wsgi_app(_environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"served"]

    def behind(rules: Any, **settings: Any) -> Ask:
        settings = {"clock": clock, **settings}
        if request.param == "asgi":
            limited_asgi = asgi.RateLimitMiddleware(asgi_app, rules, **settings)
        else:
            limited_wsgi = wsgi.RateLimitMiddleware(wsgi_app, rules, **settings)

        async def ask(
            path: str = "/", *, method: str = "GET", peer: str = "192.0.2.1", **headers: str
        ) -> httpx.Response:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            if request.param == "asgi":
                return await asgi_client(limited_asgi, peer).request(method, path, headers=sent)
            return wsgi_client(limited_wsgi, peer).request(method, path, headers=sent)

        return ask

    return behind
