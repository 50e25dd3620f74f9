"""Buckets of a Redis store in a known state, and the calls that ask about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from redis import Redis

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.penalty import Penalty
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.stores._redis_keys import Keys
from ratelimit_middleware.stores._redis_plan import Planner, whole_time_us
from ratelimit_middleware.stores._redis_script import load_script
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.redis import RedisStore

if TYPE_CHECKING:
    from redis.client import Pipeline

__all__ = [
    "ADMITTED",
    "CALLS",
    "CASES",
    "GCRA_ADMITTED",
    "NOTHING",
    "PIPELINES",
    "REFUSED",
    "Asker",
    "requests_of",
]

CALLS, PIPELINES = 40, 5
"""Requests of a pipeline, each with buckets of its own; and pipelines that are prepared at once."""
_FILLED = "filled"


class Case(NamedTuple):
    """Buckets and what is asked of them.

    Attributes:
        limit: what is asked.
        hits: how many have come to a bucket before.
        since_s: when the first of them came, seconds ago.
        every_s: how long after each other.
        together: how many buckets are asked for a request.
        requests: how many requests share a call.
    """

    limit: Algorithm
    hits: int = 1
    since_s: float = 1
    every_s: float = 0
    together: int = 1
    requests: int = 1


NOTHING = "nothing (`return 1`)"
GCRA_ADMITTED = "GCRA, admitted"
ADMITTED = "sliding window with 64 entries, admitted"
REFUSED = "sliding window with 64 entries, refused"

_WINDOW, _APART_S = SlidingWindow(100, 60), 60 / 65
CASES = {
    GCRA_ADMITTED: Case(GCRA(100, 60, 100), hits=9),
    "GCRA, refused": Case(GCRA(1, 60, 1)),
    "sliding window with 1 entry, admitted": Case(_WINDOW),
    ADMITTED: Case(_WINDOW, 64, 60, _APART_S),  # the oldest entry goes, a new one comes
    REFUSED: Case(SlidingWindow(64, 60), 64, 59, _APART_S),
    "sliding window, merged for a 65th entry": Case(_WINDOW, 64, 59, _APART_S),
    "three sliding windows of a request": Case(_WINDOW, together=3),
    "GCRA, each of 32 in a call": Case(GCRA(100, 60, 100), hits=9, requests=32),
    "sliding window with 64 entries, each of 32 in a call": Case(_WINDOW, 64, 60, _APART_S, requests=32),
    "fixed window": Case(FixedWindow(100, 60)),
    "token bucket": Case(TokenBucket(100, 1, 100)),
    "warm-up window": Case(WarmUpWindow(10**6, 1, 10)),
    "guava_bursty": Case(SmoothBursty(100)),
    "penalty": Case(Penalty(2, (1, 5))),
    "sentinel_pacing": Case(Pacing(100, 1)),
    "sentinel_qps": Case(QpsWindow(100)),
    "sentinel_warm_up": Case(WarmUp(100, 10)),
    "sentinel_warm_up_pacing": Case(WarmUpPacing(100, 10, 3, 1)),
}


def requests_of(name: str) -> int:
    """How many requests share a call of a case."""
    return CASES[name].requests if name in CASES else 1


class Asker:
    """Asks many buckets in the same state the same thing.

    Args:
        url: of the server.
    """

    def __init__(self, url: str) -> None:
        self.client = Redis.from_url(url, socket_timeout=60)
        self._clock = ManualClock()
        self._filler = RedisStore(url, prefix="", timeout=60, clock=self._clock, known_refusals=0)
        self._planner = Planner(Keys(""), "keep")
        self._script = load_script()
        self._nothing = str(self.client.script_load("return 1")).encode()
        self.client.script_load(self._script.source)

    def pipelines(self, name: str) -> list[Pipeline]:
        """Calls of a case that are to be made within half a second; their buckets are made now."""
        entry = b"" if name == NOTHING else self._entry(CASES[name])
        buckets = self.client.pipeline(transaction=False)
        pipelines = [self.client.pipeline(transaction=False) for _ in range(PIPELINES)]
        for number, pipeline in enumerate(pipelines):
            for turn in range(CALLS // requests_of(name)):
                call, keys = self._call(name, f"{number}:{turn}")
                pipeline.execute_command("EVALSHA", *call)
                for key in keys:
                    buckets.set(key, entry, px=600_000)
        buckets.execute()
        return pipelines

    def _call(self, name: str, turn: str) -> tuple[list[bytes | int], list[bytes]]:
        """A script with its arguments, and the buckets it asks."""
        if name == NOTHING:
            return [self._nothing, 0], []
        case = CASES[name]
        requests = [
            [Check(f"{turn}:{request}:{place}", case.limit, "") for place in range(case.together)]
            for request in range(case.requests)
        ]
        action = self._planner.take([self._planner.ask(checks) for checks in requests], None)
        return [self._script.sha, *action.words()], action.keys

    def close(self) -> None:
        """Close the connections."""
        self._filler.close()
        self.client.close()

    def _entry(self, case: Case) -> bytes:
        """What a bucket holds after the hits of a case."""
        self.client.delete(_FILLED)
        now_us = whole_time_us(self.client.time())
        for hit in range(case.hits):
            at_s = hit * case.every_s - case.since_s
            self._clock.set_ns(1000 * now_us + int(at_s * 10**9))
            self._filler.take([Check(_FILLED, case.limit, "")])
        return cast("bytes", self.client.get(_FILLED))
