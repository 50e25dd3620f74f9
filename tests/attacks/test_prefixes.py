"""Behind a prefix that a proxy or a server has taken off, the limits hold as without it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import httpx

PATHS = ("/items/1", "/api/v1/things/1", "/mounted/inner/1", "/late/1", "/class/1", "/files/a/b")
ASGI = ("fastapi_app:app", "starlette_app:app", "quart_app:app", "litestar_app:app", "django_app:asgi_app")
WSGI = ("flask_app:app", "django_app:wsgi_app")


@pytest.fixture(scope="module")
def apps() -> dict[str, Any]:
    """All apps, imported where no event loop runs."""
    places = {place: place.partition(":") for place in (*ASGI, *WSGI)}
    return {
        place: getattr(import_module(f"tests.attacks.apps.{module}"), name)
        for place, (module, _, name) in places.items()
    }


@pytest.mark.anyio
@pytest.mark.parametrize("prefix", ["", "/proxy"])
@pytest.mark.parametrize("place", ASGI)
async def test_root_path_leads_the_path_or_not(
    apps: dict[str, Any], place: str, prefix: str, asgi_client: Callable[..., httpx.AsyncClient]
) -> None:
    """Servers differ in whether the path has it; an app may know only one of both."""
    peer = f"198.51.100.{ASGI.index(place) * 2 + bool(prefix)}"
    async with asgi_client(apps[place], peer, "/proxy") as client:
        for path in PATHS:
            statuses = [(await client.get(prefix + path)).status_code for _ in range(5)]
            assert statuses[3:] == [429, 429], path
            assert 429 not in statuses[:3]


@pytest.mark.parametrize("place", WSGI)
def test_script_name_is_no_part_of_the_path(
    apps: dict[str, Any], place: str, wsgi_client: Callable[..., httpx.Client]
) -> None:
    with wsgi_client(apps[place], "198.51.100.99", "/proxy") as client:
        for path in PATHS:
            statuses = [client.get(path).status_code for _ in range(5)]
            assert statuses == [200, 200, 200, 429, 429], path
