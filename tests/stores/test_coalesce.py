"""Coalescer: those who come while a call is on its way share the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from ratelimit_middleware.stores._coalesce import Coalescer

pytestmark = pytest.mark.anyio


class Server:
    """Answers each ask with its double, when it is let."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.undone: list[tuple[int, int]] = []
        self.between: Callable[[], object] = int
        self.gate = asyncio.Event()
        self.gate.set()
        self.together = Coalescer(self._call, self._undo)

    async def _call(self, asks: Sequence[int]) -> list[int | Exception]:
        self.calls.append([*asks])
        await self.gate.wait()
        asyncio.get_running_loop().call_soon(self.between)  # after the answer, before the asker's turn
        if 13 in asks:
            raise ConnectionError("all of them")
        return [ValueError("this one") if ask == 7 else 2 * ask for ask in asks]

    async def _undo(self, ask: int, answer: int) -> None:
        self.undone.append((ask, answer))


async def others_run() -> None:
    """Let all that can run go on."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_first_goes_at_once_and_the_others_share_the_next_call() -> None:
    server = Server()
    server.gate.clear()
    first = asyncio.ensure_future(server.together.ask(0))
    await others_run()
    assert server.calls == [[0]]
    others = [asyncio.ensure_future(server.together.ask(number)) for number in range(1, 6)]
    await others_run()
    assert server.calls == [[0]]
    server.gate.set()
    assert await asyncio.gather(first, *others) == [0, 2, 4, 6, 8, 10]
    assert server.calls == [[0], [1, 2, 3, 4, 5]]


async def test_a_call_takes_at_most_128() -> None:
    server = Server()
    asks = (server.together.ask(number) for number in range(100, 400))
    assert await asyncio.gather(*asks) == [2 * number for number in range(100, 400)]
    assert [len(call) for call in server.calls] == [128, 128, 44]


async def test_nothing_is_left_running() -> None:
    server, before = Server(), asyncio.all_tasks()
    await server.together.ask(1)
    await server.together.join()
    assert asyncio.all_tasks() == before


async def test_a_failed_call_fails_for_all_of_it_and_the_next_one_goes() -> None:
    server = Server()
    answers = await asyncio.gather(
        *(server.together.ask(number) for number in (12, 13)), return_exceptions=True
    )
    assert [str(answer) for answer in answers] == ["all of them", "all of them"]
    assert await server.together.ask(1) == 2


async def test_an_ask_may_fail_alone() -> None:
    server = Server()
    answers = await asyncio.gather(
        *(server.together.ask(number) for number in (6, 7, 8)), return_exceptions=True
    )
    assert [str(answer) for answer in answers] == ["12", "this one", "16"]


async def test_one_that_is_cancelled_while_its_call_is_out_gives_back_when_the_reply_comes() -> None:
    server = Server()
    server.gate.clear()
    tasks = [asyncio.ensure_future(server.together.ask(number)) for number in (1, 2)]
    await others_run()
    tasks[0].cancel()
    await others_run()
    assert tasks[0].cancelled()
    assert server.undone == []
    server.gate.set()
    assert await tasks[1] == 4
    await server.together.join()
    assert server.undone == [(1, 2)]


async def test_one_that_is_cancelled_between_the_reply_and_its_turn_gives_back() -> None:
    server = Server()
    task = asyncio.ensure_future(server.together.ask(1))
    server.between = task.cancel
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.together.join()
    assert server.undone == [(1, 2)]


async def test_one_that_is_cancelled_before_its_call_costs_nothing() -> None:
    server = Server()
    server.gate.clear()
    first = asyncio.ensure_future(server.together.ask(1))
    await others_run()
    second = asyncio.ensure_future(server.together.ask(2))
    await others_run()
    second.cancel()
    server.gate.set()
    assert await first == 2
    await server.together.join()
    assert server.calls == [[1]]
    assert server.undone == []


async def test_what_cannot_be_undone_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """A reply of another shape, say; those who came meanwhile are answered, and the next is undone."""
    undone: list[int] = []

    async def double(asks: Sequence[int]) -> list[int]:
        return [2 * ask for ask in asks]

    async def undo(ask: int, answer: int) -> None:
        await asyncio.sleep(0)
        if ask == 1:
            raise ValueError("too many values to unpack")
        undone.append(answer)

    together = Coalescer(double, undo)
    together.leave(1, 2)
    together.leave(3, 6)
    assert await asyncio.wait_for(together.ask(4), 5) == 8
    assert undone == [6]
    assert "permits of a cancelled request are lost: ValueError" in caplog.text
