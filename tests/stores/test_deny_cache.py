"""DenyCache: a refusal that is known to hold is told again, and nothing else is."""

from __future__ import annotations

import pytest

from ratelimit_middleware.algorithms.base import granted, refused
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.stores._deny_cache import DenyCache
from ratelimit_middleware.stores.base import Check

pytestmark = pytest.mark.arithmetic

SECOND = 1_000_000_000
ONE = Check("a|1", GCRA(1, 60, 1), "a|*")
OTHER = Check("b|1", GCRA(1, 60, 5), "b|*")
YES = granted(0, 0, 5, 4, SECOND)


@pytest.fixture
def cache() -> DenyCache:
    return DenyCache(3)


def test_a_refusal_holds_until_its_retry_after_and_grows_older(cache: DenyCache) -> None:
    cache.keep([ONE], [refused(0, SECOND // 2, 1, 0, 30 * SECOND)], 0)
    assert cache.find([ONE], 100) == [refused(100, SECOND // 2 - 100, 1, 0, 30 * SECOND - 100)]
    assert cache.find([ONE], SECOND // 2 - 1) is not None
    assert cache.find([ONE], SECOND // 2) is None
    assert cache.find([ONE], 100) is None


@pytest.mark.parametrize("retry_ns", [60 * SECOND, None])
def test_a_refusal_holds_for_a_second_at_most(cache: DenyCache, retry_ns: int | None) -> None:
    cache.keep([ONE], [refused(0, retry_ns, 1, 0, 30 * SECOND)], 0)
    assert cache.find([ONE], SECOND - 1) is not None
    assert cache.find([ONE], SECOND) is None


def test_what_others_of_the_request_said_is_told_too(cache: DenyCache) -> None:
    no = refused(0, SECOND, 1, 0, SECOND)
    cache.keep([ONE, OTHER], [no, YES], 0)
    found = cache.find([ONE, OTHER], 1)
    assert found is not None
    assert [decision.allowed for decision in found] == [False, True]
    assert cache.find([ONE], 1) is None


@pytest.mark.parametrize(
    "check",
    [
        ONE._replace(cost=2),
        ONE._replace(key="a|2"),
        ONE._replace(algorithm=GCRA(2, 60, 1)),
        ONE._replace(max_wait_ns=1),
        ONE._replace(shadow=True),
    ],
)
def test_other_checks_are_asked_anew(cache: DenyCache, check: Check) -> None:
    cache.keep([ONE], [refused(0, SECOND, 1, 0, SECOND)], 0)
    assert cache.find([check], 1) is None


@pytest.mark.parametrize(
    "check",
    [ONE._replace(max_wait_ns=1), ONE._replace(shadow=True), ONE._replace(algorithm=Concurrency(1))],
)
def test_checks_that_wait_or_only_watch_and_slots_are_never_kept(cache: DenyCache, check: Check) -> None:
    cache.keep([check], [refused(0, SECOND, 1, 0, SECOND)], 0)
    assert cache.find([check], 1) is None


def test_admissions_are_never_kept(cache: DenyCache) -> None:
    cache.keep([OTHER], [YES], 0)
    assert cache.find([OTHER], 0) is None


def test_it_is_bounded_and_the_oldest_go_first(cache: DenyCache) -> None:
    checks = [ONE._replace(key=f"a|{number}") for number in range(5)]
    for check in checks:
        cache.keep([check], [refused(0, SECOND, 1, 0, SECOND)], 0)
    assert [cache.find([check], 1) is not None for check in checks] == [False, False, True, True, True]


def test_it_can_be_off_and_can_be_cleared(cache: DenyCache) -> None:
    off = DenyCache(0)
    for each in (off, cache):
        each.keep([ONE], [refused(0, SECOND, 1, 0, SECOND)], 0)
    assert off.find([ONE], 1) is None
    cache.clear()
    assert cache.find([ONE], 1) is None


def test_a_clock_that_stepped_back_finds_nothing(cache: DenyCache) -> None:
    cache.keep([ONE], [refused(0, SECOND, 1, 0, SECOND)], 5)
    assert cache.find([ONE], 4) is None


def test_a_refusal_that_was_asked_for_before_permits_came_back_is_not_told_again(cache: DenyCache) -> None:
    refusal = [refused(0, SECOND, 1, 0, SECOND), refused(0, SECOND, 5, 0, SECOND)]
    cache.keep([ONE, OTHER], refusal, 5)
    cache.given_back(OTHER, 6)
    assert cache.find([ONE, OTHER], 7) is None
    cache.keep([ONE, OTHER], refusal, 5)  # it was on its way meanwhile
    assert cache.find([ONE, OTHER], 8) is None
    cache.keep([ONE, OTHER], refusal, 8)
    assert cache.find([ONE, OTHER], 9) is not None


def test_what_came_back_is_bounded_too(cache: DenyCache) -> None:
    for number in range(10):
        cache.given_back(ONE._replace(key=f"a|{number}"), number)
    assert len(cache._given_back_ns) == 3
