"""Slots of running requests are renewed, those of lost ones are not."""

from __future__ import annotations

import threading

import pytest

from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.leases import LeaseKeeper
from ratelimit_middleware.request import AsgiView
from ratelimit_middleware.rules.choices import Released
from ratelimit_middleware.settling import Booking, Stay
from ratelimit_middleware.stores.base import Check

pytestmark = pytest.mark.arithmetic

SLOT = Booking(Check("a", Concurrency(3), "*"), 7, Released())


def running() -> Stay:
    """A request with a slot."""
    return Stay(
        [SLOT], AsgiView({"type": "http", "path": "/"}), ManualClock().now_ns, lambda _name, _error: None
    )


class Renewals(list[Booking]):
    """What was renewed."""

    def note(self, _: Stay, booking: Booking) -> None:
        self.append(booking)


@pytest.fixture
def renewed() -> Renewals:
    return Renewals()


@pytest.fixture
def keeper(renewed: Renewals) -> LeaseKeeper:
    """One whose own thread sleeps."""
    return LeaseKeeper(renewed.note, every_s=3600)


def test_the_slot_of_a_running_request_is_renewed_until_it_ends(
    keeper: LeaseKeeper, renewed: Renewals
) -> None:
    stay = running()
    keeper.hold(stay)
    assert keeper.renew_all()
    assert renewed == [SLOT]
    stay.ended()
    keeper.renew_all()
    assert renewed == [SLOT]


def test_the_slot_of_a_lost_request_is_not_renewed(keeper: LeaseKeeper, renewed: Renewals) -> None:
    keeper.hold(running())
    assert not keeper.renew_all()
    assert renewed == []


def test_a_store_that_fails_is_asked_again(renewed: Renewals) -> None:
    def fail(stay: Stay, booking: Booking) -> None:
        renewed.note(stay, booking)
        raise OSError("away")

    keeper, stay = LeaseKeeper(fail, every_s=3600), running()
    keeper.hold(stay)
    assert keeper.renew_all()
    assert keeper.renew_all()
    assert renewed == [SLOT, SLOT]


def test_the_thread_renews_by_itself_and_ends_when_nothing_is_held() -> None:
    called = threading.Event()
    keeper, stay = LeaseKeeper(lambda _stay, _booking: called.set(), every_s=0.001), running()
    keeper.hold(stay)
    assert keeper._thread is not None
    thread = keeper._thread[1]
    assert called.wait(10)
    stay.ended()
    thread.join(10)
    assert not thread.is_alive()
    keeper.hold(other := running())
    assert keeper._thread[1] is not thread
    other.ended()
    keeper.close()


def test_a_thread_that_cannot_be_had_is_asked_for_again(
    keeper: LeaseKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    first, second = running(), running()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        keeper.hold(first)
    assert keeper._thread is None
    keeper.hold(second)
    assert keeper._thread is not None
    assert keeper._thread[1].is_alive()
    keeper.close()
