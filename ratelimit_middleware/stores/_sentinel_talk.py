"""What is said to the sentinels and to the primary they name: pure, as `_cluster_talk`.

redis-py has a pool of its own for this. It hides that a primary has become a replica behind an error which
may as well mean that the command has run, so what could be sent again would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.redis_url import Node
from ratelimit_middleware.stores._redis_talk import TO_LOOK, Batch, Talk
from ratelimit_middleware.stores._redis_trip import Command, ConnectError, cannot_answer, is_slow

__all__ = ["Primary", "ask"]

_MOST_TRIES = 4
_MOST_ASKED = 3
_TRUST_NS = (
    1_000_000_000  # sentinels let an old primary take writes for seconds after they have named another
)
_LOOK_NS = 200_000_000  # between two looks because of replies that did not come


class Primary:
    """The server that the sentinels name; the threads and the event loops of a store share it.

    Args:
        service: what the sentinels call it and its replicas.
        sentinels: whom to ask.
        now_ns: tells the time.

    Attributes:
        node: the server, as far as is known.
        nodes: what is in use; another set after each look.
    """

    def __init__(self, service: str, sentinels: Sequence[Node], now_ns: Callable[[], int]) -> None:
        self.service = service
        self.node: Node | None = None
        self.nodes: frozenset[Node] = frozenset()
        self._sentinels = tuple(sentinels)
        self._now_ns = now_ns
        self._is_doubted = False
        self._looked_ns = 0

    def is_due(self) -> bool:
        """Whether the caller is to ask the sentinels before it asks the server: once a second one has to."""
        if self.node is None:
            return True
        now_ns = self._now_ns()
        if now_ns - self._looked_ns < (_LOOK_NS if self._is_doubted else _TRUST_NS):
            return False
        self._looked_ns = now_ns
        return True

    def sentinels(self) -> tuple[Node, ...]:
        """Whom to ask: the one that has answered comes first, those that have not come last."""
        return self._sentinels

    def doubt(self) -> None:
        """The server has not answered: the next call asks the sentinels first."""
        self._is_doubted = True

    def learn(self, node: Node, told_by: Node) -> None:
        """A sentinel has named the server."""
        self._sentinels = tuple(sorted(self._sentinels, key=lambda sentinel: sentinel != told_by))
        self.node, self.nodes = node, frozenset([node, told_by])
        self._is_doubted = False
        self._looked_ns = self._now_ns()

    def avoid(self, sentinel: Node) -> None:
        """A sentinel has not answered."""
        self._sentinels = tuple(sorted(self._sentinels, key=lambda other: other == sentinel))


def ask(primary: Primary, command: Command, whole: Command = ()) -> Talk[Any]:
    """What the primary answers; asked again, where the sentinels say, if nothing can have run.

    Args:
        primary: of the service.
        command: what goes out.
        whole: what goes out instead to a server that does not know the script.

    Raises:
        StoreError: there is no answer.
    """
    from redis.exceptions import NoScriptError

    left: Node | None = None  # who has not taken it
    failure = StoreError("there is no primary")
    for _ in range(_MOST_TRIES):
        if primary.is_due() or primary.node == left:
            yield from _look(primary)
        node = primary.node
        if node is None or node == left:
            break
        [[reply]] = yield [Batch(node, [command])]
        if not isinstance(reply, Exception):
            return reply
        failure = cannot_answer(f"{node[0]}:{node[1]}", reply)
        if whole and isinstance(reply, NoScriptError):
            command, whole = whole, ()
        elif _goes_elsewhere(primary, reply):
            left = node
        else:
            break
    raise failure


def _goes_elsewhere(primary: Primary, error: Exception) -> bool:
    """Whether nothing has run here and may run with another server."""
    from redis.exceptions import BusyLoadingError, ReadOnlyError, ResponseError

    if isinstance(error, ResponseError) and not isinstance(error, ReadOnlyError):
        return False  # it is the right server, and says no
    primary.doubt()
    if isinstance(error, ConnectError):
        return not is_slow(error)
    return isinstance(error, (BusyLoadingError, ReadOnlyError))


def _look(primary: Primary) -> Talk[None]:
    """Ask the sentinels who is the primary.

    Raises:
        StoreError: none of them tells, and none is known.
    """
    failure = StoreError("there are no sentinels")
    for sentinel in primary.sentinels()[:_MOST_ASKED]:
        place = f"{sentinel[0]}:{sentinel[1]}"
        patience = TO_LOOK if primary.node else 1.0
        command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", primary.service)
        [[reply]] = yield [Batch(sentinel, [command], patience)]
        if reply and not isinstance(reply, Exception):
            primary.learn((reply[0].decode(), int(reply[1])), sentinel)
            return
        primary.avoid(sentinel)
        if not isinstance(reply, Exception):
            failure = StoreError(f"the sentinel {place} knows no service {primary.service!r}")
            continue
        failure = cannot_answer(f"the sentinel {place}", reply)
        if isinstance(reply, ConnectError) and not is_slow(reply):
            continue
        break  # another one would cost as much time again
    if primary.node is None:
        raise failure
