"""The script's calls to a cluster: buckets of a slot share a call, calls of a server go together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._cluster_map import ClusterMap
from ratelimit_middleware.stores._cluster_take import Answer, Part
from ratelimit_middleware.stores._cluster_talk import Call, look, send
from ratelimit_middleware.stores._redis_keys import TaggedKeys
from ratelimit_middleware.stores._redis_plan import Action, Ask, Planner, moment, whole_time_us
from ratelimit_middleware.stores._redis_script import Script
from ratelimit_middleware.stores._redis_talk import Talk
from ratelimit_middleware.stores._redis_trip import Command, scripted, whole
from ratelimit_middleware.stores.base import Check

__all__ = ["ClusterCalls"]

_NOT_YET = object()


class ClusterCalls:
    """What a store says to a cluster; the map is shared by its threads and event loops.

    Args:
        planner: makes calls and reads replies.
        keys: of the planner.
        script: what the servers run.
        cluster: which server has what.
        time_us: the time for tests; None = each server's own.
    """

    def __init__(
        self,
        planner: Planner,
        keys: TaggedKeys,
        script: Script,
        cluster: ClusterMap,
        time_us: Callable[[], int | None],
    ) -> None:
        self._planner = planner
        self._keys = keys
        self._script = script
        self._time_us = time_us
        self.cluster = cluster

    def slot(self, key: str) -> int:
        """The slot of a bucket."""
        return self._keys.slot(self._keys.key(key))

    def take(self, parts: Sequence[Part]) -> Talk[list[Answer]]:
        """The decisions of each part, or an error."""
        answers: dict[int, Answer] = {}
        pending = dict(enumerate(parts))
        while pending:
            groups = self._groups(pending)
            calls = [
                self._call(self._planner.take([parts[place].ask for place in group], self._time_us()))
                for group in groups
            ]
            try:
                yield from send(self.cluster, calls)
            except StoreError as error:
                return [answers.get(place, error) for place in range(len(parts))]
            for group, call in zip(groups, calls, strict=True):
                self._hear(group, call.reply, pending, answers)
        return [answers[place] for place in range(len(parts))]

    def call(self, name: str, ask: Ask, detail: bytes = b"") -> Talk[tuple[int, Any]]:
        """Do one thing for one bucket: the moment and the reply.

        Raises:
            StoreError: there is no answer.
        """
        while True:
            call = self._call(self._planner.call(name, [ask], detail, self._time_us()))
            yield from send(self.cluster, [call])
            now_us, reply = _result(call)
            if self._planner.is_settled(ask, reply, now_us):
                return now_us, reply

    def give_back(self, excess: Sequence[tuple[Check, int]]) -> Talk[list[StoreError]]:
        """Undo bookings, all at once: what has gone wrong."""
        pending = [(self._planner.ask([check]), moment(at_ns)) for check, at_ns in excess]
        lost: list[StoreError] = []
        while pending:
            actions = [
                self._planner.call("give_back", [ask], detail, self._time_us()) for ask, detail in pending
            ]
            calls = [self._call(action) for action in actions]
            try:
                yield from send(self.cluster, calls)
            except StoreError as error:
                return [*lost, error]
            failed = [self._failure(ask, call) for (ask, _), call in zip(pending, calls, strict=True)]
            lost += [error for error in failed if isinstance(error, StoreError)]
            pending = [one for one, error in zip(pending, failed, strict=True) if error is _NOT_YET]
        return lost

    def _failure(self, ask: Ask, call: Call) -> object:
        """What has gone wrong with a call that decides nothing; `_NOT_YET` if it has to go out again."""
        try:
            now_us, reply = _result(call)
            return None if self._planner.is_settled(ask, reply, now_us) else _NOT_YET
        except StoreError as error:
            return error

    def read(self, key: str) -> Talk[tuple[bytes | None, int]]:
        """The entry of a bucket, if it has one, and its server's time in us.

        Raises:
            StoreError: there is no answer.
        """
        slot = self.slot(key)
        entry, time = calls = Call(slot, ("GET", self._keys.key(key))), Call(slot, ("TIME",))
        yield from send(self.cluster, calls)
        return _result(entry), whole_time_us(_result(time))

    def command(self, name: str, key: str) -> Talk[Any]:
        """What a command about one bucket answers.

        Raises:
            StoreError: there is no answer.
        """
        command: Command = (name, self._keys.key(key))
        call = Call(self.slot(key), command)
        yield from send(self.cluster, [call])
        return _result(call)

    def look(self) -> Talk[None]:
        """Know the servers.

        Raises:
            StoreError: none of them answers.
        """
        if self.cluster.is_due():
            yield from look(self.cluster)

    def _groups(self, pending: dict[int, Part]) -> list[list[int]]:
        """Parts that share a call: those of one slot; those of one bucket while its slot moves."""
        groups: dict[object, list[int]] = {}
        for place, part in pending.items():
            key = part.ask.checks[0].key
            name: object = place if part.ask.wait_us else key if part.is_alone else self.slot(key)
            groups.setdefault(name, []).append(place)
        return list(groups.values())

    def _call(self, action: Action) -> Call:
        words = action.words()
        return Call(
            self._keys.slot(action.keys[0]), scripted(self._script, words), whole(self._script, words)
        )

    def _hear(
        self, group: list[int], reply: Any, pending: dict[int, Part], answers: dict[int, Answer]
    ) -> None:
        if isinstance(reply, Exception):
            answers.update(dict.fromkeys(group, reply))
            for place in group:
                del pending[place]
            return
        now_us, *replies = reply
        for place, own in zip(group, replies, strict=True):
            answer = self._planner.settled(pending[place].ask, own, now_us)
            if answer is not None:
                answers[place] = answer
                del pending[place]


def _result(call: Call) -> Any:
    if isinstance(call.reply, Exception):
        raise call.reply
    return call.reply
