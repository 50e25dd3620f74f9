"""Litestar's routes, and the paths that its router takes for others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ratelimit_middleware.asgi import RateLimitMiddleware
from ratelimit_middleware.coverage import coverage
from ratelimit_middleware.frameworks.litestar import view_of
from ratelimit_middleware.request import AsgiView
from ratelimit_middleware.request_texts import readings
from tests.attacks.apps import litestar_app
from tests.attacks.apps.rules import RULES

Client = Callable[..., httpx.AsyncClient]


def meanings(path: str, root: str = "") -> set[str]:
    view = view_of(litestar_app.app)({"type": "http", "path": path, "root_path": root})
    return {*readings(view.path)}


def test_a_path_that_begins_like_a_mount_is_read_as_below_it_too() -> None:
    assert meanings("/mounted/x") == {"/mounted/x"}
    assert meanings("/mounted") == {"/mounted"}
    assert meanings("/mountedx") == {"/mountedx", "/mounted/x"}
    assert meanings("//mountedx/y/") == {"//mountedx/y/", "/mounted/x/y"}
    assert meanings("/x/mounted") == {"/x/mounted"}


def test_a_root_is_taken_off_wherever_it_stands_first() -> None:
    assert meanings("/proxy/page", "/proxy") == {"/page"}
    assert meanings("/proxy/x/proxy/page", "/proxy") == {"/x/proxy/page"}
    assert meanings("/x/proxy/page", "/proxy") == {"/x/proxy/page", "/page"}
    assert meanings("/proxypage", "/proxy") == {"/proxypage", "/page"}
    assert meanings("/x/proxy/mountedx", "/proxy") >= {"/mounted/x"}


def test_other_apps_are_seen_plainly() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        pass

    assert view_of(app) is AsgiView


@pytest.mark.anyio
@pytest.mark.parametrize("odd", ["/mountedx/inner/1", "/x/proxy/mounted/inner/1", "/proxymounted/inner/1"])
async def test_litestar_serves_them_and_they_count(odd: str, asgi_client: Client) -> None:
    limited = RateLimitMiddleware(litestar_app.app_itself, {"limits": {"/mounted/**": "2/hour"}})  # type: ignore[arg-type]
    async with asgi_client(limited, "198.51.100.1", "/proxy") as client:
        assert [(await client.get(path)).status_code for path in (odd, "/mounted/x", odd)] == [200, 200, 429]


def test_the_routes_of_litestar_are_found() -> None:
    found = coverage(litestar_app.app, RULES)
    rules = {(one.route.path, one.method): one.rules for one in found.routes}
    assert rules["/api/v1/things/{id:str}", "GET"] == ("/api/**",)
    assert rules["/mounted/{path:path}", "POST"] == ("/mounted/**",)
    assert rules["/live/{room:str}", "WS"] == ("WS /live/{room}",)
    assert rules["/page", "POST"] == ("default",)
    assert set(found.idle_rules) == {"/wide/**"}
