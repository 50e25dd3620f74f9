"""A call that is finished even if the task that makes it has been cancelled, or is cancelled meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from asyncio import CancelledError, Task

__all__ = ["shielded"]

_P = ParamSpec("_P")

_LONGEST_S = 5  # a server that shuts down must not be held up for longer


async def shielded(
    call: Callable[_P, Coroutine[Any, Any, None]], *args: _P.args, **kwargs: _P.kwargs
) -> None:
    """Await `call(*args)` out of reach of cancel scopes and of `asyncio.Task.cancel`, for at most 5 s.

    Raises:
        CancelledError: the task has been cancelled by asyncio meanwhile; raised when the call has ended.
        Exception: what the call raises.
    """
    import asyncio

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # trio cancels by scopes alone
        from anyio import move_on_after

        with move_on_after(_LONGEST_S, shield=True):
            await call(*args, **kwargs)
    else:
        await _finished(loop.create_task(call(*args, **kwargs)))


async def _finished(task: Task[None]) -> None:
    """Wait for a task of asyncio, whatever happens to the one that waits."""
    import asyncio

    try:
        from anyio import CancelScope
    except ImportError:  # then nothing around it uses cancel scopes
        shield: Any = nullcontext()
    else:
        shield = CancelScope(shield=True)  # such a scope cancels again and again
    until_s = task.get_loop().time() + _LONGEST_S
    cancelled: CancelledError | None = None
    with shield:
        while not task.done() and task.get_loop().time() < until_s:
            try:
                await asyncio.wait([task], timeout=until_s - task.get_loop().time())
            except asyncio.CancelledError as error:  # noqa: PERF203 - it may come at any turn
                cancelled = error
    task.cancel()  # nothing if it is done
    task.add_done_callback(_seen)
    if cancelled:
        raise cancelled
    if task.done() and not task.cancelled():
        task.result()


def _seen(task: Task[None]) -> None:
    """Nobody else looks at what it has raised, if it was too late."""
    if not task.cancelled():
        task.exception()
