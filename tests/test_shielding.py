"""What must be told to a store is told, whoever is cancelled meanwhile and however."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from ratelimit_middleware.shielding import shielded

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Call:
    """Takes until it is let go."""

    def __init__(self) -> None:
        self.entered, self.let_go = anyio.Event(), anyio.Event()
        self.has_ended = False

    async def __call__(self) -> None:
        self.entered.set()
        await self.let_go.wait()
        self.has_ended = True


def natively(task: asyncio.Task[None], _scope: anyio.CancelScope) -> None:
    task.cancel()


def by_scope(_task: asyncio.Task[None], scope: anyio.CancelScope) -> None:
    scope.cancel()


@pytest.mark.parametrize("cancel", [natively, by_scope])
async def test_a_task_that_is_cancelled_during_the_call_ends_after_it(
    cancel: Callable[[asyncio.Task[None], anyio.CancelScope], None],
) -> None:
    call, scope, went_on = Call(), anyio.CancelScope(), list[bool]()

    async def caller() -> None:
        with scope:
            await shielded(call)
            await anyio.lowlevel.checkpoint()
            went_on.append(True)

    task = asyncio.get_running_loop().create_task(caller())
    await call.entered.wait()
    for _ in range(3):
        cancel(task, scope)
        await anyio.wait_all_tasks_blocked()
    assert not task.done()
    call.let_go.set()
    await asyncio.wait([task])
    assert call.has_ended
    assert went_on == []
    assert task.cancelled() == (cancel is natively)


async def test_a_task_that_was_cancelled_before_makes_the_call() -> None:
    call = Call()
    call.let_go.set()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await shielded(call)
    assert call.has_ended


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_call_that_never_ends_is_given_up(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ratelimit_middleware.shielding._LONGEST_S", 0.01)

    async def endless() -> bool:
        call = Call()
        await shielded(call)
        return call.has_ended

    assert not anyio.run(endless, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_the_call_raises_is_heard(backend: str) -> None:
    async def failing() -> None:
        raise LookupError("a mistake")

    async def heard() -> None:
        with pytest.raises(LookupError, match="a mistake"):
            await shielded(failing)

    anyio.run(heard, backend=backend)
