"""Requests that are cut off, and stores and loops that get in the way: no slot stays behind."""

from __future__ import annotations

import asyncio

import anyio
import anyio.lowlevel
import pytest

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware._types import Receive, Scope, Send
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.faults import FaultLogs
from ratelimit_middleware.request import AsgiView
from ratelimit_middleware.rules.choices import Released
from ratelimit_middleware.settler import Settler
from ratelimit_middleware.settling import Booking
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.verdicts import UNLIMITED
from tests.awaited import AwaitedStore
from tests.test_slots import HTTP, LAST, RULES, START, Broken, Gate, ask, finish, listed, status_of, streaming

pytestmark = pytest.mark.anyio


class Cutting:
    """A hook that raises past all that catches an `Exception`."""

    def on_verdict(self, _: object) -> None:
        raise Broken


@pytest.mark.parametrize("mode", [{}, {"mode": "shadow"}], ids=str)
async def test_a_hook_that_cuts_a_request_off_leaves_no_slot_behind(
    clock: ManualClock, mode: dict[str, str]
) -> None:
    rules = {**RULES, **mode}
    store = MemoryStore(clock=clock)
    outside = asgi.RateLimitMiddleware(Gate(), rules, store=store, hooks=[Cutting()])
    with pytest.raises(Broken):
        await status_of(outside)
    inside = wsgi.RateLimitMiddleware(listed, rules, store=store, hooks=[Cutting()])
    with pytest.raises(Broken):
        ask(inside)
    assert [bucket.state for bucket in store._buckets.values()] == [()]


def cut(_view: object, _response: object) -> int:
    raise Broken


async def test_a_cost_that_cuts_a_response_off_leaves_no_slot_behind(clock: ManualClock) -> None:
    rule = {"limit": "9/second", "cost": {"reserve": 1, "actual": "python:tests.test_cut_off:cut"}}
    rules = {**RULES, "limits": {"/": rule}}
    store = MemoryStore(clock=clock)

    async def answers(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(START)

    with pytest.raises(Broken):
        await status_of(asgi.RateLimitMiddleware(answers, rules, store=store))
    inside = wsgi.RateLimitMiddleware(streaming, rules, store=store)
    with pytest.raises(Broken):
        finish(ask(inside)[1])
    slots = next(key for key in store._buckets if key.startswith("slots"))
    assert store._buckets[slots].state == ()


class FailingOnce(MemoryStore):
    """Loses the first thing it is told after a verdict."""

    told = 0

    def charge(self, check: Check) -> None:
        self.told += 1
        if self.told == 1:
            raise OSError("away")
        super().charge(check)


@pytest.mark.parametrize("kind", ["threads", "awaited"])
async def test_a_store_that_fails_at_one_booking_is_told_of_the_others(kind: str, clock: ManualClock) -> None:
    rule = {"limit": "9/second", "cost": {"reserve": 1, "actual": "bytes"}}
    inner = FailingOnce(clock=clock)
    store = AwaitedStore(inner) if kind == "awaited" else inner
    rules = {"limits": {"/": {**rule, "concurrency": 1}}}
    gate = Gate(START, LAST)
    gate.opened.set()
    gate.afterwards.set()
    app = asgi.RateLimitMiddleware(gate, rules, store=store)
    assert await status_of(app) == 200
    assert inner.told == 1
    assert await status_of(app) == 200


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_on_each_loop_a_long_response_keeps_its_slot_in_a_store_that_is_awaited(
    backend: str, clock: ManualClock
) -> None:
    async def long() -> list[int]:
        gate = Gate(START, LAST)
        app = asgi.RateLimitMiddleware(gate, RULES, store=AwaitedStore(MemoryStore(clock=clock)))
        seen: list[int] = []
        async with anyio.create_task_group() as group:
            group.start_soon(status_of, app)
            await gate.entered.wait()
            for _ in range(4):
                clock.advance(10)
                await anyio.to_thread.run_sync(app._registry.settler.keeper.renew_all)
            seen.append(await status_of(app))
            gate.opened.set()
            gate.afterwards.set()
        return [*seen, await status_of(app)]

    assert anyio.run(long, backend=backend) == [429, 200]


async def test_a_slot_that_has_come_back_is_not_renewed_by_a_call_that_was_on_its_way(
    clock: ManualClock,
) -> None:
    inner = MemoryStore(clock=clock)
    store = AwaitedStore(inner)
    settler = Settler(store, FaultLogs())
    slot = Check("slot", Concurrency(1), "*")
    (decision,) = await store.take_async([slot])
    booking = Booking(slot, decision.at_ns, Released())
    stay = settler.begin(UNLIMITED._replace(bookings=(booking,)), AsgiView(dict(HTTP)))
    assert stay.leases() == [booking]
    await settler.carry_out_async(stay.ended())
    await settler._renew_async(stay, booking)
    assert [bucket.state for bucket in inner._buckets.values()] == [()]


class Slow(AwaitedStore):
    """Takes a while to hear of what is given back, as one over a network does."""

    async def give_back_async(self, check: Check, at_ns: int) -> None:
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        await super().give_back_async(check, at_ns)


@pytest.mark.parametrize("rounds", range(12))
async def test_whenever_a_request_is_cancelled_by_asyncio_its_slot_comes_back(
    rounds: int, clock: ManualClock
) -> None:
    """At every step from its beginning to the end of what is settled after it."""
    inner = MemoryStore(clock=clock)
    gate = Gate(START, LAST)
    gate.opened.set()
    gate.afterwards.set()
    task = asyncio.get_running_loop().create_task(
        status_of(asgi.RateLimitMiddleware(gate, RULES, store=Slow(inner)))
    )
    for _ in range(rounds):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    await anyio.wait_all_tasks_blocked()
    assert [bucket.state for bucket in inner._buckets.values() if bucket.state] == []
