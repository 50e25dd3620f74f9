"""Functions of an app, as rule files name them: `python:tests.rules.app_functions:tenant`."""

from __future__ import annotations

from typing import Any

from ratelimit_middleware.request import RequestView

CALLS: list[str] = []
"""Which functions were called, for tests that count."""


def tenant(view: RequestView) -> str | None:
    CALLS.append("tenant")
    return view.header("x-tenant")


async def tenant_async(view: RequestView) -> str | None:
    CALLS.append("tenant_async")
    return view.header("x-tenant")


def plan_limit(view: RequestView) -> str:
    return view.header("x-limit") or "2/minute"


async def plan_limit_async(view: RequestView) -> str:
    return view.header("x-limit") or "2/minute"


def weight(view: RequestView) -> Any:
    return int(view.header("x-weight") or 1)


async def weight_async(view: RequestView) -> int:
    return int(view.header("x-weight") or 1)


def number(view: RequestView) -> int:
    """Not a text, so no key and no limit."""
    return 5


def broken(view: RequestView) -> str:
    raise LookupError("no such tenant")
