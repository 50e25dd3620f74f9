"""Behind a proxy on 127.0.0.1, over TCP: whoever unwraps the header, a client is counted as itself, once."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.servers import RunningServer, gunicorn, uvicorn
from tests.servers.proxied_apps import LIMIT

APPS = "tests.servers.proxied_apps"
UNTRUSTED = "has the header x-forwarded-for, but no proxy is trusted"


def admitted(
    server: RunningServer | httpx.Client, *headers: str, tries: int = 6, name: str = "X-Forwarded-For"
) -> int:
    """How many of some requests pass; the proxy adds the last value, the client has written those before."""
    http = server if isinstance(server, httpx.Client) else httpx.Client(base_url=server.url, timeout=15)
    with http:
        statuses = [
            http.get("/", headers=[(name, value.format(n=number)) for value in headers]).status_code
            for number in range(tries)
        ]
    assert set(statuses) <= {200, 429}
    return statuses.count(200)


def check_clients_are_told_apart_and_cannot_choose(server: RunningServer) -> None:
    assert admitted(server, "198.51.100.1") == LIMIT
    assert admitted(server, "198.51.100.2") == LIMIT
    assert admitted(server, "203.0.113.{n}, 198.51.100.3") == LIMIT
    assert admitted(server, "203.0.113.{n}", "198.51.100.4") == LIMIT
    assert admitted(server, "203.0.113.{n}", "198.51.100.4") == 0
    assert admitted(server, "2001:db8:1:{n}::7, 2001:db8:2:3::7") == LIMIT
    assert admitted(server, "2001:db8:2:3::{n}") == 0


@pytest.mark.parametrize(
    ("app", "options"),
    [
        ("trusting", ["--no-proxy-headers"]),
        ("hops", ["--no-proxy-headers"]),
        ("plain", ["--proxy-headers"]),
        ("trusting", ["--proxy-headers"]),
        ("hops", ["--proxy-headers"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_uvicorn_and_the_limits_find_the_same_client_whoever_unwraps(
    app: str, options: list[str], tmp_path: Path
) -> None:
    with uvicorn(f"{APPS}:{app}", tmp_path / "server.log", *options) as server:
        check_clients_are_told_apart_and_cannot_choose(server)
        assert "is trusted" not in server.log()


def test_where_nobody_unwraps_all_count_as_one_and_that_is_told(tmp_path: Path) -> None:
    with uvicorn(f"{APPS}:plain", tmp_path / "server.log", "--no-proxy-headers") as server:
        assert admitted(server, "198.51.100.{n}") == LIMIT
        assert server.log().count(UNTRUSTED) == 1


def test_a_chain_is_not_walked_one_hop_too_far(tmp_path: Path) -> None:
    """Uvicorn unwraps the proxy beside it; what is left of the chain is no trusted proxy's word."""
    with uvicorn(f"{APPS}:trusting", tmp_path / "server.log", "--proxy-headers") as server:
        assert admitted(server, "203.0.113.{n}, 198.51.100.1, 192.0.2.80") == LIMIT
        assert admitted(server, "203.0.113.{n}, 192.0.2.80") == 0


def test_gunicorn_reports_the_proxy_and_the_limits_unwrap(tmp_path: Path) -> None:
    socket = tmp_path / "gunicorn.sock"
    options = ["--bind", f"unix:{socket}", "--forwarded-allow-ips", "127.0.0.1"]
    with gunicorn(f"{APPS}:wsgi_trusting", tmp_path / "server.log", *options) as server:
        check_clients_are_told_apart_and_cannot_choose(server)
        over_unix = httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://test")
        assert admitted(over_unix, "203.0.113.{n}, 198.51.100.5") == LIMIT
        assert admitted(server, "198.51.100.5") == 0
        # A name with underscores would be the same variable of the environ.
        assert admitted(server, "203.0.113.{n}", name="X_Forwarded_For") == LIMIT
        assert "is trusted" not in server.log()


def test_clients_on_a_unix_socket_share_a_bucket_where_it_is_not_trusted(tmp_path: Path) -> None:
    socket = tmp_path / "gunicorn.sock"
    with gunicorn(f"{APPS}:wsgi_plain", tmp_path / "server.log", "--bind", f"unix:{socket}") as server:
        over_unix = httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://test")
        assert admitted(over_unix, "203.0.113.{n}") == LIMIT
        assert server.log().count(f"a request from unix {UNTRUSTED}") == 1
