"""An app of the other world, and what is no clock, are refused when the middleware is built."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import pytest

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.stores.memory import MemoryStore

pytestmark = pytest.mark.arithmetic

RULES = {"default": "5/minute"}


async def asgi_app(scope: Any, receive: Any, send: Any) -> None:
    """As ASGI has it."""


def wsgi_app(environ: Any, start_response: Any) -> list[bytes]:
    """As WSGI has it."""
    return []


class Framework:
    """An app that is an object."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """As ASGI has it."""


def fastapi_app() -> Any:
    from fastapi import FastAPI

    return FastAPI()


def flask_app() -> Any:
    from flask import Flask

    return Flask(__name__)


ASGI_APPS: list[Callable[[], Any]] = [fastapi_app, lambda: asgi_app, Framework, lambda: lambda *_: None]
WSGI_APPS: list[Callable[[], Any]] = [flask_app, lambda: wsgi_app, lambda: functools.partial(wsgi_app)]


@pytest.mark.parametrize("make", WSGI_APPS)
def test_asgi_refuses_a_wsgi_app_and_names_the_middleware_for_it(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidLimitError, match=r"belongs into `ratelimit_middleware\.wsgi\."):
        asgi.RateLimitMiddleware(make(), RULES)
    wsgi.RateLimitMiddleware(make(), RULES)


@pytest.mark.parametrize("make", ASGI_APPS[:3])
def test_wsgi_refuses_an_asgi_app_and_names_the_middleware_for_it(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidLimitError, match=r"belongs into `ratelimit_middleware\.asgi\."):
        wsgi.RateLimitMiddleware(make(), RULES)


@pytest.mark.parametrize("make", ASGI_APPS)
def test_asgi_takes_whatever_may_be_called_as_asgi_has_it(make: Callable[[], Any]) -> None:
    limited: Any = asgi.RateLimitMiddleware(make(), RULES)
    assert callable(limited)


def test_what_wraps_a_middleware_once_more_is_of_its_world() -> None:
    inner = asgi.RateLimitMiddleware(asgi_app, RULES)
    asgi.RateLimitMiddleware(inner, RULES)
    with pytest.raises(InvalidLimitError, match="an ASGI app, such as"):
        wsgi.RateLimitMiddleware(inner, RULES)  # type: ignore[arg-type]  # that is the claim


@pytest.mark.parametrize("app", [None, "shop.main:app", {}])
def test_what_cannot_be_called_is_no_app(app: Any) -> None:
    for middleware in (asgi.RateLimitMiddleware, wsgi.RateLimitMiddleware):
        with pytest.raises(InvalidLimitError, match=r"expected an? [AW]SGI app"):
            middleware(app, RULES)


@pytest.mark.parametrize("clock", [time.time, time.monotonic, ManualClock, 0.0])
def test_what_tells_no_time_is_no_clock(clock: Any) -> None:
    builds: list[Callable[[], object]] = [
        lambda: asgi.RateLimitMiddleware(asgi_app, RULES, clock=clock),
        lambda: wsgi.RateLimitMiddleware(wsgi_app, RULES, clock=clock),
    ]
    if clock:
        builds.append(lambda: MemoryStore(clock=clock))
    for build in builds:
        with pytest.raises(InvalidLimitError, match=r"a method `now_ns`, such as `SystemClock\(\)`"):
            build()
