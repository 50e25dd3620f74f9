"""The limiters that decide side by side: the floor, ours by algorithm, the peers.

Each is made by a function and is itself a function of a client's name. Limits are so high that nobody is
refused, or so low that everybody is (`refusing`). Peers are imported only when asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from floor import Floor

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.clock import Clock
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore

Take: TypeAlias = Callable[[str], object]

MANY = 1_000_000
_MAX_KEYS = 2_100_000

ALGORITHMS: dict[str, Callable[[], Algorithm]] = {
    "SlidingWindow": lambda: SlidingWindow(MANY, 1),
    "GCRA": lambda: GCRA(100, 60, MANY),
    "TokenBucket": lambda: TokenBucket.from_rate(2, MANY),
    "LeakyBucket": lambda: LeakyBucket(2, MANY, "nodelay"),
    "FixedWindow": lambda: FixedWindow(MANY, 1),
    "SlidingCounter": lambda: SlidingCounter(MANY, 1),
    "WarmUpWindow": lambda: WarmUpWindow(MANY, 1, 10),
    "SmoothBursty": lambda: SmoothBursty(MANY),
    "SmoothWarmingUp": lambda: SmoothWarmingUp(MANY, 10),
    "WarmUp": lambda: WarmUp(MANY, 10),
    "Pacing": lambda: Pacing(MANY, 1),
    "WarmUpPacing": lambda: WarmUpPacing(MANY, 10),
    "Concurrency": lambda: Concurrency(MANY, 0.001),
}
REFUSING: dict[str, Callable[[], Algorithm]] = {
    "SlidingWindow": lambda: SlidingWindow(1, 3600),
    "GCRA": lambda: GCRA(1, 3600, 1),
}


def floor(*, refusing: bool = False) -> Take:
    """The hand-inlined one."""
    return Floor(1 if refusing else 10**12).take


def ours(algorithm: Algorithm, clock: Clock | None = None) -> Take:
    """The memory store with one check a client; with a clock that stands still no client is forgotten."""
    take = MemoryStore(max_keys=_MAX_KEYS, clock=clock).take
    return lambda client: take((Check(client, algorithm, "*"),))


def ours_for_one(algorithm: Algorithm) -> Take:
    """The same for one client, whose check is at hand: the decision alone."""
    take, checks = MemoryStore().take, (Check("10.0.0.1", algorithm, "*"),)
    return lambda _: take(checks)


def limits(strategy: str, *, refusing: bool = False) -> Take:
    """limits: `FixedWindow`, `MovingWindow` (exact) or `SlidingWindowCounter`."""
    from limits import RateLimitItemPerHour, RateLimitItemPerSecond
    from limits import strategies as known
    from limits.storage import MemoryStorage

    item = RateLimitItemPerHour(1) if refusing else RateLimitItemPerSecond(MANY)
    limiter = getattr(known, f"{strategy}RateLimiter")(MemoryStorage())
    return lambda client: limiter.hit(item, client)


def throttled(kind: str, *, refusing: bool = False) -> Take:
    """throttled-py: `fixed_window`, `sliding_window`, `token_bucket`, `leaking_bucket` or `gcra`."""
    from throttled import MemoryStore as Store
    from throttled import Throttled, per_hour, per_sec

    quota = per_hour(1, burst=1) if refusing else per_sec(MANY, burst=MANY)
    throttle = Throttled(using=kind, quota=quota, store=Store(options={"MAX_SIZE": _MAX_KEYS}))
    return throttle.limit


def pyrate(kind: str, *, refusing: bool = False) -> Take:
    """pyrate-limiter, a bucket a client: `log` (exact) or `token`."""
    from pyrate_limiter import InMemoryBucket, Rate, RateItem, StateBucket, TokenBucket

    rates = [Rate(1, 3_600_000) if refusing else Rate(MANY, 1000)]
    buckets: dict[str, InMemoryBucket | StateBucket] = {}

    def take(client: str) -> object:
        bucket = buckets.get(client)
        if bucket is None:
            bucket = InMemoryBucket(rates) if kind == "log" else StateBucket(rates, algorithm=TokenBucket())
            buckets[client] = bucket
        return bucket.put(RateItem(client, bucket.now()))

    return take


def token_bucket(*, refusing: bool = False) -> Take:
    """token-bucket."""
    from token_bucket import Limiter, MemoryStorage

    limiter = Limiter(1 / 3600 if refusing else MANY, 1 if refusing else MANY, MemoryStorage())
    return limiter.consume


def aiolimiter(*, refusing: bool = False) -> Take:  # noqa: ARG001 - it only waits, and so is never refused
    """aiolimiter, a limiter a client, its coroutine driven by hand; it can only delay."""
    from aiolimiter import AsyncLimiter

    limiters: dict[str, AsyncLimiter] = {}

    def take(client: str) -> object:
        limiter = limiters.get(client)
        if limiter is None:
            limiter = limiters[client] = AsyncLimiter(MANY, 1)
        try:
            limiter.acquire().send(None)
        except StopIteration:
            return True
        raise RuntimeError("it would wait")

    return take


PEERS: dict[str, Callable[[], Take]] = {
    "limits, fixed": lambda: limits("FixedWindow"),
    "limits, moving": lambda: limits("MovingWindow"),
    "throttled-py, GCRA": lambda: throttled("gcra"),
    "throttled-py, sliding": lambda: throttled("sliding_window"),
    "pyrate-limiter, log": lambda: pyrate("log"),
    "pyrate-limiter, token": lambda: pyrate("token"),
    "token-bucket": token_bucket,
    "aiolimiter": aiolimiter,
}
REFUSING_PEERS: dict[str, Callable[[], Take]] = {
    "limits, fixed": lambda: limits("FixedWindow", refusing=True),
    "limits, moving": lambda: limits("MovingWindow", refusing=True),
    "throttled-py, GCRA": lambda: throttled("gcra", refusing=True),
    "pyrate-limiter, log": lambda: pyrate("log", refusing=True),
    "token-bucket": lambda: token_bucket(refusing=True),
}
