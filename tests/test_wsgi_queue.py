"""Waiting under WSGI: in the server's threads, and never in all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from ratelimit_middleware._types import Environ, StartResponse
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.wsgi import RateLimitMiddleware

RULES = {"default": {"limit": "10/second per global", "behavior": "queue", "queue": "2s"}}


class Sleeper:
    """In the place of `time.sleep`: each thread sleeps until it is woken."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.asleep = threading.Semaphore(0)
        self.wake = threading.Event()
        self.error: BaseException | None = None

    def sleep(self, seconds: float) -> None:
        self.asked.append(round(seconds, 6))
        if self.error:
            raise self.error
        self.asleep.release()
        assert self.wake.wait(10)


@pytest.fixture
def sleeper(monkeypatch: pytest.MonkeyPatch) -> Sleeper:
    sleeper = Sleeper()
    monkeypatch.setattr("ratelimit_middleware.wsgi.time.sleep", sleeper.sleep)
    return sleeper


def served(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [b""]


def ask(app: RateLimitMiddleware, heard: list[tuple[str, dict[str, str]]]) -> None:
    def start_response(
        status: str, headers: list[tuple[str, str]], _: Any = None
    ) -> Callable[[bytes], object]:
        heard.append((status[:3], dict(headers)))
        return lambda _: None

    b"".join(app({"REQUEST_METHOD": "GET", "PATH_INFO": "/", "REMOTE_ADDR": "192.0.2.1"}, start_response))


def test_as_many_threads_wait_as_may_and_the_next_is_refused_at_once(
    sleeper: Sleeper, clock: ManualClock
) -> None:
    app = RateLimitMiddleware(served, RULES, store=MemoryStore(clock=clock), max_waiting_threads=2)
    heard: list[tuple[str, dict[str, str]]] = []
    ask(app, heard)
    threads = [threading.Thread(target=ask, args=(app, heard)) for _ in range(2)]
    for thread in threads:
        thread.start()
        assert sleeper.asleep.acquire(timeout=10)
    ask(app, heard)
    assert [status for status, _ in heard] == ["200", "429"]
    assert heard[1][1]["Retry-After"] == "1"
    sleeper.wake.set()
    for thread in threads:
        thread.join()
    assert [status for status, _ in heard] == ["200", "429", "200", "200"]
    assert sleeper.asked == [0.1, 0.2]
    ask(app, heard)
    assert sleeper.asked[-1] == 0.3, "the place of the one that was refused is free"


def test_a_thread_that_is_interrupted_gives_its_place_back(sleeper: Sleeper, clock: ManualClock) -> None:
    app = RateLimitMiddleware(served, RULES, store=MemoryStore(clock=clock), max_waiting_threads=1)
    heard: list[tuple[str, dict[str, str]]] = []
    ask(app, heard)
    sleeper.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        ask(app, heard)
    sleeper.error = None
    sleeper.wake.set()
    ask(app, heard)
    assert [status for status, _ in heard] == ["200", "200"]
    assert sleeper.asked == [0.1, 0.1]
