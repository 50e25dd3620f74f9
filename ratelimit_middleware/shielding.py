"""A call that is finished even if the task that makes it has been cancelled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec

__all__ = ["shielded"]

_P = ParamSpec("_P")

_LONGEST_S = 5  # a server that shuts down must not be held up for longer


async def shielded(call: Callable[_P, Awaitable[None]], *args: _P.args, **kwargs: _P.kwargs) -> None:
    """Await `call(*args)` out of reach of cancel scopes, for at most 5 s.

    Without anyio nothing around it uses cancel scopes, and a task that was cancelled by asyncio alone may
    await again.
    """
    try:
        from anyio import move_on_after
    except ImportError:
        await call(*args, **kwargs)
        return
    with move_on_after(_LONGEST_S, shield=True):
        await call(*args, **kwargs)
