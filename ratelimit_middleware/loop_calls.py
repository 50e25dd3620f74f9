"""Calls from a thread to the event loop of asyncio or trio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

__all__ = ["Caller", "caller"]

Caller: TypeAlias = Callable[[Callable[[], Awaitable[None]], float], None]
"""Runs an async function on a loop and waits for it, on asyncio for so many seconds at most.

Raises:
    Exception: what the function raises, or that the loop has ended.
"""


def caller() -> Caller:
    """What calls to the event loop that runs now, from other threads.

    Raises:
        RuntimeError: none runs.
    """
    import asyncio  # not where no slot is held

    try:
        return partial(_on_asyncio, asyncio.get_running_loop())
    except RuntimeError:
        pass
    import trio  # nothing else is there that an ASGI server runs on

    token = trio.lowlevel.current_trio_token()
    return lambda function, _: trio.from_thread.run(function, trio_token=token)


def _on_asyncio(loop: AbstractEventLoop, function: Callable[[], Awaitable[None]], most_s: float) -> None:
    import asyncio

    async def call() -> None:
        await function()

    if loop.is_closed():
        raise RuntimeError("the event loop has ended")
    asyncio.run_coroutine_threadsafe(call(), loop).result(most_s)
