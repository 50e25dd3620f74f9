"""Fixtures for all tests. Nothing beyond pytest and the core is imported before it is needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from ratelimit_middleware._types import ASGIApp, WSGIApp
from ratelimit_middleware.clock import ManualClock
from tests.redis_server import RedisServer, find_server, lasting_keys

if TYPE_CHECKING:
    import httpx

# How long an example takes says how busy the machine is, nothing else.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# For interpreters besides the main one, where it is the interpreter that is on trial.
settings.register_profile("quick", settings.get_profile("suite"), max_examples=20)


@pytest.fixture(autouse=True)
def _no_blocking_call_on_the_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test whose event loop is blocked (pure arithmetic runs no loop)."""
    if request.node.get_closest_marker("arithmetic"):
        yield
        return
    from blockbuster import blockbuster_ctx

    with blockbuster_ctx() as guard:
        # Rules are read once, when the middleware is built; FastAPI builds it inside its loop.
        for function in guard.functions.values():
            function.can_block_in("ratelimit_middleware/build.py", {"build_registry"})
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
    if find_server() is None:
        assert "CI" not in os.environ, "redis-server is not installed"
        pytest.skip("redis-server is not installed (Debian and Ubuntu: apt-get install redis-server)")
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
