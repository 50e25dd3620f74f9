"""The bounded memory of answers."""

from __future__ import annotations

import sys
import threading

import pytest

from ratelimit_middleware.rules.recent import Recent

pytestmark = pytest.mark.arithmetic


def ask(recent: Recent[int, str], key: int) -> str:
    """As its user does."""
    value = recent.young.get(key) or recent.renewed(key)
    if value is None:
        value = str(key)
        recent.put(key, value)
    return value


def test_it_holds_two_generations_at_most() -> None:
    recent: Recent[int, str] = Recent(10)
    for key in range(1000):
        ask(recent, key)
        assert len(recent) <= 20


def test_the_last_generation_is_remembered() -> None:
    recent: Recent[int, str] = Recent(10)
    for key in range(100):
        ask(recent, key)
    assert all(recent.young.get(key) or recent.renewed(key) for key in range(90, 100))


def test_what_is_asked_for_once_a_generation_is_never_forgotten() -> None:
    recent: Recent[int, str] = Recent(10)
    first = ask(recent, 0)
    for key in range(1, 1000):
        ask(recent, key)
        if key % 9 == 0:
            assert ask(recent, 0) is first


def test_what_nobody_asks_for_is_forgotten() -> None:
    recent: Recent[int, str] = Recent(10)
    for key in range(21):
        ask(recent, key)
    assert recent.renewed(0) is None


def test_what_is_offered_once_leaves_no_more_than_a_number() -> None:
    recent: Recent[str, str] = Recent(10)
    for key in range(1000):
        recent.offer(str(key), "x" * 1000)
    assert not len(recent)
    assert len(recent._offered) <= 10
    assert all(isinstance(number, int) for number in recent._offered)


def test_what_is_offered_twice_is_remembered() -> None:
    recent: Recent[str, str] = Recent(10)
    for _ in range(2):
        recent.offer("a", "1")
    assert recent.young == {"a": "1"}


def test_threads_get_right_answers_and_keep_it_bounded() -> None:
    recent: Recent[int, str] = Recent(50)
    wrong: list[int] = []
    largest: list[int] = []

    def work(first: int) -> None:
        for turn in range(20_000):
            key = (first + turn * 7) % 997
            if ask(recent, key) != str(key):
                wrong.append(key)
            largest.append(len(recent))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number * 13,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []
    assert max(largest) <= 2 * (50 + len(threads))
