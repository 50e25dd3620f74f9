"""Functions of an app, as rule files name them: `python:tests.rules.app_functions:tenant`."""

from __future__ import annotations

import ast
from typing import Any

from ratelimit_middleware.request import RequestView
from ratelimit_middleware.response import Response

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
    CALLS.append("broken")
    raise LookupError("no such tenant")


async def broken_async(view: RequestView) -> str:
    raise LookupError("no such tenant")


def interrupted(view: RequestView) -> str:
    raise KeyboardInterrupt


def any_weight(view: RequestView) -> Any:
    """A number as Python writes it, None, or an error."""
    return ast.literal_eval(view.header("x-weight") or "None")


def failed(view: RequestView, response: Response) -> Any:
    """Whether a login has failed; as the answer says it, if it does."""
    text = response.header("x-failed")
    return {"yes": True, "no": False, "error": "?", None: response.status == 401}[text]


async def failed_async(view: RequestView, response: Response) -> bool:
    return True


def tokens(view: RequestView, response: Response) -> Any:
    """What a request has cost: as the answer says it, or text, or nothing."""
    return int(response.header("x-tokens") or "-1")
