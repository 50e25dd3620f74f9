"""What is asked of sentinels and of the primary they name: no socket, the replies are made up."""

from __future__ import annotations

from typing import Any

import pytest
from redis import exceptions

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.redis_url import Node
from ratelimit_middleware.stores._redis_trip import ConnectError, LateReplyError
from ratelimit_middleware.stores._sentinel_talk import Primary, ask

W1, W2, A, B = ("10.0.0.8", 26379), ("10.0.0.9", 26379), ("10.0.0.1", 6379), ("10.0.0.2", 6379)
NAMES_A, NAMES_B = [b"10.0.0.1", b"6379"], [b"10.0.0.2", b"6379"]


def connect_error(cause: Exception) -> ConnectError:
    error = ConnectError()
    error.__cause__ = cause
    return error


REFUSED = connect_error(exceptions.ConnectionError("refused"))


def known(clock: ManualClock) -> Primary:
    primary = Primary("limits", [W1, W2], clock.now_ns)
    primary.learn(A, W1)
    return primary


def said(primary: Primary, *replies: Any) -> tuple[list[Node], Any]:
    """Who is asked when these replies come, and what comes out."""
    talk, asked = ask(primary, ("GO",), ("WHOLE",)), list[Node]()
    left = iter(replies)
    try:
        [batch] = next(talk)
        while True:
            asked.append(batch.node)
            [batch] = talk.send([[next(left)]])
    except StopIteration as end:
        result = end.value
    except StoreError as error:
        result = error
    assert not list(left), "more replies than questions"
    return asked, result


def test_the_sentinels_are_asked_at_first_and_never_while_all_is_well() -> None:
    primary = Primary("limits", [W1, W2], ManualClock().now_ns)
    assert said(primary, NAMES_A, "ok") == ([W1, A], "ok")
    assert said(primary, "ok") == ([A], "ok")


def test_a_sentinel_that_is_gone_or_does_not_know_is_passed_over_and_asked_last_from_then_on() -> None:
    clock = ManualClock()
    primary = Primary("limits", [W1, W2], clock.now_ns)
    assert said(primary, REFUSED, NAMES_A, "ok") == ([W1, W2, A], "ok")
    assert primary.sentinels() == (W2, W1)
    assert said(Primary("limits", [W1, W2], clock.now_ns), None, NAMES_A, "ok")[1] == "ok"


def test_once_a_second_the_sentinels_are_asked_whether_it_still_is_the_one() -> None:
    clock = ManualClock()
    primary = known(clock)
    clock.advance(1)
    assert said(primary, NAMES_B, "ok") == ([W1, B], "ok")
    assert said(primary, "ok") == ([B], "ok")
    clock.advance(1)
    assert said(primary, REFUSED, REFUSED, "ok") == ([W1, W2, B], "ok")  # they are gone: the last word holds


@pytest.mark.parametrize(
    "error",
    [exceptions.ReadOnlyError("READONLY"), exceptions.BusyLoadingError("LOADING"), REFUSED],
)
def test_a_primary_that_has_taken_nothing_leads_to_the_new_one(error: Exception) -> None:
    assert said(known(ManualClock()), error, NAMES_B, "ok") == ([A, W1, B], "ok")


def test_while_the_sentinels_name_the_same_it_is_not_asked_twice() -> None:
    asked, result = said(known(ManualClock()), REFUSED, NAMES_A)
    assert (asked, type(result)) == ([A, W1], StoreError)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (exceptions.ConnectionError("Connection closed by server."), StoreError),
        (exceptions.TimeoutError("Timeout reading"), LateReplyError),
        (connect_error(exceptions.TimeoutError("Timeout connecting")), LateReplyError),
    ],
)
def test_what_may_have_run_is_not_sent_again_and_the_next_call_asks_the_sentinels_first(
    error: Exception, told: type[StoreError]
) -> None:
    clock = ManualClock()
    primary = known(clock)
    clock.advance(0.5)
    asked, result = said(primary, error)
    assert (asked, type(result)) == ([A], told)
    assert said(primary, NAMES_B, "ok") == ([W1, B], "ok")


def test_what_the_primary_refuses_is_told() -> None:
    asked, result = said(known(ManualClock()), exceptions.OutOfMemoryError("OOM"))
    assert asked == [A]
    assert "10.0.0.1:6379 cannot answer: OutOfMemoryError" in str(result)
    assert said(known(ManualClock()), "ok") == ([A], "ok")


def test_the_script_is_sent_along_to_a_server_that_does_not_have_it() -> None:
    missing = exceptions.NoScriptError("No matching script")
    assert said(known(ManualClock()), missing, "ok") == ([A, A], "ok")
    assert said(known(ManualClock()), exceptions.ReadOnlyError("READONLY"), NAMES_B, missing, "ok")[1] == "ok"


def test_without_any_sentinel_the_error_names_the_last_one() -> None:
    asked, result = said(Primary("limits", [W1, W2], ManualClock().now_ns), REFUSED, REFUSED)
    assert asked == [W1, W2]
    assert "the sentinel 10.0.0.9:26379 cannot answer: ConnectionError: refused" in str(result)


def test_a_sentinel_that_stands_still_costs_one_timeout_not_two() -> None:
    slow = connect_error(exceptions.TimeoutError("Timeout connecting"))
    primary = Primary("limits", [W1, W2], ManualClock().now_ns)
    assert said(primary, slow)[0] == [W1]
    assert said(primary, NAMES_A, "ok")[0] == [W2, A]
