"""What goes out again to a cluster and what does not: no socket, the replies are made up."""

from __future__ import annotations

from typing import Any

import pytest
from redis import exceptions

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._cluster_map import ClusterMap
from ratelimit_middleware.stores._cluster_talk import Call, SplitSlotError, send
from ratelimit_middleware.stores._redis_talk import TO_LOOK, Batch
from ratelimit_middleware.stores._redis_trip import ConnectError

A, B, C = ("10.0.0.1", 7000), ("10.0.0.2", 7000), ("10.0.0.3", 7000)
SLOTS = [[0, 99, [b"10.0.0.1", 7000, b"id"]], [100, 16383, [b"10.0.0.2", 7000, b"id"]]]


def known(clock: ManualClock | None = None) -> ClusterMap:
    cluster = ClusterMap([A, C], (clock or ManualClock()).now_ns)
    cluster.learn(SLOTS, A)
    return cluster


def connect_error(cause: Exception) -> ConnectError:
    error = ConnectError()
    error.__cause__ = cause
    return error


def said(cluster: ClusterMap, calls: list[Call], *replies: list[list[Any]]) -> list[list[Batch]]:
    """What goes out when these replies come, turn by turn."""
    talk, turns = send(cluster, calls), list[list[Batch]]()
    left = iter(replies)
    try:
        turns.append(next(talk))
        while True:
            turns.append(talk.send(next(left)))
    except StopIteration:
        assert not list(left), "fewer turns than replies"
        return turns


def go() -> Call:
    return Call(7, ("GO",), ("WHOLE",))


def test_calls_of_one_server_go_together_and_all_servers_are_asked_at_once() -> None:
    calls = [Call(slot, (slot,)) for slot in (1, 100, 2, 16383)]
    turns = said(known(), calls, [["one", "two"], ["hundred", "last"]])
    assert turns == [[Batch(A, [(1,), (2,)]), Batch(B, [(100,), (16383,)])]]
    assert [call.reply for call in calls] == ["one", "hundred", "two", "last"]


def test_at_first_a_server_is_asked_who_has_what() -> None:
    call = go()
    turns = said(ClusterMap([C], ManualClock().now_ns), [call], [[SLOTS]], [["ok"]])
    assert turns == [[Batch(C, [("CLUSTER", "SLOTS")])], [Batch(A, [("GO",)])]]


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ConnectionError("Connection closed by server."),
        exceptions.TimeoutError("Timeout reading"),
        connect_error(exceptions.TimeoutError("Timeout connecting")),
        connect_error(exceptions.AuthenticationError("invalid username-password pair")),
        exceptions.OutOfMemoryError("command not allowed"),
        exceptions.ResponseError("WRONGTYPE"),
    ],
)
def test_what_may_have_run_or_has_no_hope_is_not_sent_again(error: Exception) -> None:
    call = go()
    assert len(said(known(), [call], [[error]])) == 1
    assert isinstance(call.reply, StoreError)
    assert "10.0.0.1:7000 cannot answer" in str(call.reply)


def test_a_lost_connection_costs_only_the_replies_that_have_not_come() -> None:
    calls = [go(), go()]
    assert len(said(known(), calls, [["ok", exceptions.ConnectionError("lost")]])) == 1
    assert calls[0].reply == "ok"
    assert isinstance(calls[1].reply, StoreError)


def test_a_redirection_is_followed_and_kept() -> None:
    cluster, call = known(), go()
    turns = said(cluster, [call], [[exceptions.MovedError("7 10.0.0.3:7000")]], [["ok"]])
    assert [batch.node for [batch] in turns] == [A, C]
    assert call.reply == "ok"
    assert (cluster.owner(7), cluster.owner(8)) == (C, A)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("MOVED", exceptions.MovedError("7 10.0.0.3:7000")),
        ("ASK", exceptions.AskError("7 10.0.0.3:7000")),
        ("TRYAGAIN", exceptions.TryAgainError("Multiple keys request")),
        ("CLUSTERDOWN", exceptions.ClusterDownError("Hash slot not served")),
    ],
)
def test_what_an_older_redis_py_does_not_know_by_name_is_known_all_the_same(
    name: str, error: Exception
) -> None:
    """5.3 has these errors in its own client for clusters only."""

    def outcome(reply: Exception) -> tuple[list[Batch] | None, type]:
        clock, call = ManualClock(), go()
        talk = send(known(clock), [call])
        next(talk)
        clock.advance(1)
        try:
            return talk.send([[reply]]), type(call.reply)
        except StopIteration:
            return None, type(call.reply)

    assert outcome(exceptions.ResponseError(f"{name} {error}")) == outcome(error)
    assert outcome(exceptions.ResponseError("ERR of another kind")) == (None, StoreError) != outcome(error)


def test_a_server_that_does_not_know_its_own_host_is_meant_by_its_port() -> None:
    turns = said(known(), [go()], [[exceptions.MovedError("7 :7001")]], [["ok"]])
    assert turns[1][0].node == (A[0], 7001)


def test_the_target_of_a_moving_slot_is_asked_for_once() -> None:
    cluster, calls = known(), [go(), Call(8, ("OTHER",))]
    ask = exceptions.AskError("7 10.0.0.3:7000")
    turns = said(cluster, calls, [[ask, ask]], [["OK", "one", "OK", "two"]])
    assert turns[1] == [Batch(C, [("ASKING",), ("GO",), ("ASKING",), ("OTHER",)])]
    assert [call.reply for call in calls] == ["one", "two"]
    assert cluster.owner(7) == A


def test_the_target_of_a_moving_slot_gets_the_script_without_another_detour() -> None:
    call, ask = go(), exceptions.AskError("7 10.0.0.3:7000")
    turns = said(known(), [call], [[ask]], [["OK", exceptions.NoScriptError("gone")]], [["OK", "ok"]])
    assert turns[1:] == [[Batch(C, [("ASKING",), ("GO",)])], [Batch(C, [("ASKING",), ("WHOLE",)])]]
    assert call.reply == "ok"


def test_keys_that_are_with_two_servers_are_told_to_the_asker() -> None:
    call = go()
    said(known(), [call], [[exceptions.TryAgainError("Multiple keys request")]])
    assert isinstance(call.reply, SplitSlotError)


def test_one_of_several_brings_the_script_to_a_server_that_has_forgotten_it() -> None:
    calls, missing = [go(), go()], exceptions.NoScriptError("No matching script")
    turns = said(known(), calls, [[missing, missing]], [[1, 2]])
    assert turns[1] == [Batch(A, [("WHOLE",), ("GO",)])]


@pytest.mark.parametrize(
    "error",
    [
        connect_error(exceptions.ConnectionError("refused")),
        exceptions.BusyLoadingError("Redis is loading"),
        exceptions.ReadOnlyError("You can't write against a read only replica."),
        exceptions.ClusterDownError("CLUSTERDOWN Hash slot not served"),
    ],
)
def test_after_a_failure_before_which_nothing_ran_the_new_owner_is_asked(error: Exception) -> None:
    clock = ManualClock()
    cluster, call = known(clock), go()
    clock.advance(1)
    elsewhere = [[0, 16383, [b"10.0.0.2", 7000, b"id"]]]
    turns = said(cluster, [call], [[error]], [[elsewhere]], [["ok"]])
    assert turns[1] == [Batch(B, [("CLUSTER", "SLOTS")], TO_LOOK)]  # not the one that has failed
    assert turns[2] == [Batch(B, [("GO",)])]
    assert call.reply == "ok"


def test_while_the_owner_stays_the_same_it_is_not_asked_twice() -> None:
    clock = ManualClock()
    cluster, call, refused = known(clock), go(), connect_error(exceptions.ConnectionError("refused"))
    clock.advance(1)
    assert len(said(cluster, [call], [[refused]], [[SLOTS]])) == 2
    assert isinstance(call.reply, StoreError)
    # And the cluster is looked at five times a second at most.
    assert len(said(cluster, [go()], [[refused]])) == 1
    clock.advance(0.2)
    assert len(said(cluster, [go()], [[SLOTS]], [["ok"]])) == 2


def test_redirections_in_a_circle_end() -> None:
    moved = [[exceptions.MovedError("7 10.0.0.3:7000")], [exceptions.MovedError("7 10.0.0.1:7000")]]
    call = go()
    assert len(said(known(), [call], *([one] for one in [*moved, *moved, moved[0]]))) == 5
    assert isinstance(call.reply, StoreError)


def test_a_slot_that_nobody_has_is_an_error() -> None:
    cluster, call = ClusterMap([A], ManualClock().now_ns), go()
    said(cluster, [call], [[[[8, 99, [b"10.0.0.1", 7000]]]]])
    assert "no server of the cluster has the slot 7" in str(call.reply)
