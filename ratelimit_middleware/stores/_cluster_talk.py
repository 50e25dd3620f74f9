"""What is said to the servers of a Redis Cluster: pure, a generator of commands that is sent their replies.

A command goes to the server that has its slot. It goes out again only after a reply (or a failed connect)
which proves that nothing has run, and then where the cluster says, or where the map says when it was looked
at anew. A reply that is lost is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.redis_url import Node
from ratelimit_middleware.stores._cluster_map import ClusterMap
from ratelimit_middleware.stores._redis_talk import TO_LOOK, Batch, Talk
from ratelimit_middleware.stores._redis_trip import Command, ConnectError, cannot_answer, is_slow

__all__ = ["Call", "SplitSlotError", "look", "send"]

_MOST_TRIES = 5
_MOST_ASKED = 3


class SplitSlotError(StoreError):
    """The keys of a command are with two servers while their slot moves; nothing has run."""


class Call:
    """A command on its way.

    Args:
        slot: of its keys.
        command: what goes out.
        whole: what goes out instead to a server that does not know the script.

    Attributes:
        reply: the answer; an error while there is none.
    """

    __slots__ = ("asked", "command", "lost_at", "reply", "slot", "whole")

    def __init__(self, slot: int, command: Command, whole: Command = ()) -> None:
        self.slot = slot
        self.command = command
        self.whole = whole
        self.asked: Node | None = None  # who has the keys of a slot that is moving
        self.lost_at: Node | None = None  # who has not taken the command
        self.reply: Any = None


def send(cluster: ClusterMap, calls: Sequence[Call]) -> Talk[None]:
    """Bring the calls where they belong, and leave in each its reply or a `StoreError`."""
    left = list(calls)
    for _ in range(_MOST_TRIES):
        if cluster.is_due():
            yield from look(cluster)
        left = [call for call in left if _has_a_place(cluster, call)]
        if not left:
            return
        batches = _batches(cluster, left)
        replies = yield [Batch(node, _commands(together)) for node, together in batches.items()]
        left = []
        for (node, together), answers in zip(batches.items(), replies, strict=True):
            for call, answer in zip(together, _without_asking(together, answers), strict=True):
                call.reply = answer
            _bring_the_script(together)
            left += [call for call in together if _goes_again(cluster, call, node)]


def look(cluster: ClusterMap) -> Talk[None]:
    """Ask the servers who has which slot.

    Raises:
        StoreError: none of them tells, and nothing is known.
    """
    failure = StoreError("the cluster has no servers")
    for node in cluster.informants()[:_MOST_ASKED]:
        [[reply]] = yield [Batch(node, [("CLUSTER", "SLOTS")], TO_LOOK if cluster.primaries else 1.0)]
        if not isinstance(reply, Exception):
            cluster.learn(reply, node)
            return
        cluster.doubt(node)
        failure = cannot_answer(f"{node[0]}:{node[1]}", reply)
        if not isinstance(reply, ConnectError) or is_slow(reply):
            break  # another one would cost as much time again
    if not cluster.primaries:
        raise failure


def _has_a_place(cluster: ClusterMap, call: Call) -> bool:
    """Whether there is a server to go to, another one than that which has not taken it."""
    owner = call.asked or cluster.owner(call.slot)
    if owner is None:
        call.reply = StoreError(f"no server of the cluster has the slot {call.slot}")
    return owner is not None and owner != call.lost_at


def _batches(cluster: ClusterMap, calls: Iterable[Call]) -> dict[Node, list[Call]]:
    batches: dict[Node, list[Call]] = {}
    for call in calls:
        node = call.asked or cluster.owner(call.slot)
        if node:
            batches.setdefault(node, []).append(call)
    return batches


def _commands(calls: Iterable[Call]) -> list[Command]:
    commands: list[Command] = []
    for call in calls:
        if call.asked:
            commands.append(("ASKING",))
        commands.append(call.command)
    return commands


def _without_asking(calls: Iterable[Call], replies: Iterable[Any]) -> list[Any]:
    left = iter(replies)
    answers = []
    for call in calls:
        if call.asked:
            next(left)
        answers.append(next(left))
    return answers


def _bring_the_script(calls: Iterable[Call]) -> None:
    """One of those that met a server without the script brings it along for all."""
    from redis.exceptions import NoScriptError

    missing = [call for call in calls if isinstance(call.reply, NoScriptError)]
    if missing:
        missing[0].command = missing[0].whole or missing[0].command


def _goes_again(cluster: ClusterMap, call: Call, node: Node) -> bool:
    """Whether nothing has run and another try makes sense; what the reply says of the cluster is heeded."""
    from redis import exceptions

    error, asked, call.asked = _recognized(call.reply), call.asked, None
    if not isinstance(error, Exception):
        return False
    call.reply = cannot_answer(f"{node[0]}:{node[1]}", error)
    if isinstance(error, exceptions.NoScriptError):
        call.asked = asked
        return bool(call.whole)
    if isinstance(error, exceptions.MovedError):
        cluster.move(call.slot, _told(error, node))
        return True
    if isinstance(error, exceptions.AskError):
        call.asked = _told(error, node)
        cluster.note(call.asked)
        return True
    if isinstance(error, exceptions.TryAgainError):
        call.reply = SplitSlotError(f"the slot {call.slot} is moving: {error}")
        return False
    if not isinstance(error, exceptions.ResponseError) or isinstance(error, _of_the_cluster()):
        cluster.doubt(node)
        call.lost_at = node
    return _nothing_ran(error)


def _recognized(reply: Any) -> Any:
    """The reply; an error of clusters by its name, which older redis-py tells to its own client alone."""
    from redis import exceptions

    if type(reply) is not exceptions.ResponseError:
        return reply
    name, _, rest = str(reply).partition(" ")
    known: dict[str, Any] = {
        "MOVED": exceptions.MovedError,
        "ASK": exceptions.AskError,
        "TRYAGAIN": exceptions.TryAgainError,
        "CLUSTERDOWN": exceptions.ClusterDownError,
    }
    return known[name](rest) if name in known else reply


def _of_the_cluster() -> tuple[type[Exception], ...]:
    from redis import exceptions

    return (exceptions.ClusterDownError, exceptions.ReadOnlyError)


def _nothing_ran(error: Exception) -> bool:
    from redis.exceptions import BusyLoadingError

    if isinstance(error, ConnectError):
        return not is_slow(error)
    return isinstance(error, (*_of_the_cluster(), BusyLoadingError))


def _told(error: Any, node: Node) -> Node:
    """The server that a redirection names; one that does not know its own host is meant by its port."""
    return (error.host or node[0], error.port)
