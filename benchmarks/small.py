"""The small figures: a decision in memory, and what a middleware adds to a request; ours, the floor, peers.

Time is a count here: each reading of the clock is one step after the last, so that each turn meets the
same state. A step of a whole period keeps one entry in a window, a 64th of it keeps 64, and
a nanosecond keeps all, so that what is used up stays so.

`refused` is a request of a known client to a known path; `unknown` the first one of a client, to a path of
its own; `unknown-refused` the same while the store is full and its overflow bucket is used up.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TypeAlias

import apps
import calls
from floor import INTERVAL_NS, PERIOD_S, Floor, FloorAsgi, FloorWsgi
from limiters import limits, ours_for_one

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.stores.memory import MemoryStore

Do: TypeAlias = Callable[[int], object]

_LIMIT = 100
_ONE_ENTRY_NS = PERIOD_S * 1_000_000_000
_64_ENTRIES_NS = -(-_ONE_ENTRY_NS // 64)
_AT_ONCE_NS = 1
_WARM_TURNS = 120  # a full window, and past the first requests, at which more is looked at


def ticking(step_ns: int, make: Callable[[], Do]) -> Callable[[], Do]:
    """What is made lives in a time that makes a step at each reading."""

    def made() -> Do:
        time.monotonic_ns = itertools.count(10**15, step_ns).__next__
        do = make()
        for turn in range(_WARM_TURNS):
            do(turn)
        return do

    return made


def _decision(take: Callable[[str], object]) -> Do:
    return lambda _: take("10.0.0.1")


def _asgi(app: Callable[..., object]) -> Do:
    return calls.asgi_by_hand(app, clients=1)


def _flood(max_keys: int) -> Do:
    """Requests never made before, each from a client of its own."""
    store = MemoryStore(max_keys=max_keys)
    return calls.asgi_made_up(asgi.RateLimitMiddleware(apps.bare_asgi, _100_A_MINUTE, store=store))


def _wsgi(app: Callable[..., object]) -> Do:
    return calls.wsgi(app, clients=1)


_100_A_MINUTE, _WITH_BURST = apps.rules("plain", _LIMIT), apps.rules("burst", _LIMIT)

FIGURES: dict[str, Callable[[], Do]] = {
    "turn": lambda: _decision(lambda client: client),
    "decision-floor": ticking(INTERVAL_NS, lambda: _decision(Floor().take)),
    "decision-gcra": ticking(INTERVAL_NS, lambda: _decision(ours_for_one(GCRA(_LIMIT, PERIOD_S, _LIMIT)))),
    "decision-window-1": ticking(
        _ONE_ENTRY_NS, lambda: _decision(ours_for_one(SlidingWindow(_LIMIT, PERIOD_S)))
    ),
    "decision-window-64": ticking(
        _64_ENTRIES_NS, lambda: _decision(ours_for_one(SlidingWindow(_LIMIT, PERIOD_S)))
    ),
    "asgi-bare": lambda: _asgi(apps.bare_asgi),
    "asgi-floor": ticking(INTERVAL_NS, lambda: _asgi(FloorAsgi(apps.bare_asgi))),
    "asgi-plain": ticking(
        _ONE_ENTRY_NS, lambda: _asgi(asgi.RateLimitMiddleware(apps.bare_asgi, _100_A_MINUTE))
    ),
    "asgi-plain-64": ticking(
        _64_ENTRIES_NS, lambda: _asgi(asgi.RateLimitMiddleware(apps.bare_asgi, _100_A_MINUTE))
    ),
    "asgi-burst": ticking(INTERVAL_NS, lambda: _asgi(asgi.RateLimitMiddleware(apps.bare_asgi, _WITH_BURST))),
    "asgi-refused": ticking(
        _AT_ONCE_NS, lambda: _asgi(asgi.RateLimitMiddleware(apps.bare_asgi, _100_A_MINUTE))
    ),
    "asgi-unknown": ticking(_AT_ONCE_NS, lambda: _flood(max_keys=_LIMIT * _WARM_TURNS)),
    "asgi-unknown-refused": ticking(_AT_ONCE_NS, lambda: _flood(max_keys=_WARM_TURNS - _LIMIT)),
    "wsgi-bare": lambda: _wsgi(apps.bare_wsgi),
    "wsgi-floor": ticking(INTERVAL_NS, lambda: _wsgi(FloorWsgi(apps.bare_wsgi))),
    "wsgi-plain": ticking(
        _ONE_ENTRY_NS, lambda: _wsgi(wsgi.RateLimitMiddleware(apps.bare_wsgi, _100_A_MINUTE))
    ),
    "wsgi-burst": ticking(INTERVAL_NS, lambda: _wsgi(wsgi.RateLimitMiddleware(apps.bare_wsgi, _WITH_BURST))),
}
PEERS: dict[str, Callable[[], Do]] = {
    "decision-limits-fixed": lambda: _decision(limits("FixedWindow")),
    "decision-limits-moving": lambda: _decision(limits("MovingWindow")),
    "fastapi": lambda: calls.asgi_on_loop(apps.ASGI["FastAPI"](), clients=1),
    "fastapi-plain": lambda: calls.asgi_on_loop(apps.ASGI["FastAPI, ours, plain"](), clients=1),
    "fastapi-burst": lambda: calls.asgi_on_loop(apps.ASGI["FastAPI, ours, burst"](), clients=1),
    "fastapi-slowapi": lambda: calls.asgi_on_loop(apps.ASGI["FastAPI, slowapi"](), clients=1),
    "fastapi-slowapi-decorator": lambda: calls.asgi_on_loop(
        apps.ASGI["FastAPI, slowapi decorator"](), clients=1
    ),
    "fastapi-fastapi-limiter": lambda: calls.asgi_on_loop(apps.ASGI["FastAPI, fastapi-limiter"](), clients=1),
    "flask": lambda: calls.wsgi(apps.WSGI["Flask"](), clients=1),
    "flask-plain": lambda: calls.wsgi(apps.WSGI["Flask, ours, plain"](), clients=1),
    "flask-burst": lambda: calls.wsgi(apps.WSGI["Flask, ours, burst"](), clients=1),
    "flask-limiter": lambda: calls.wsgi(apps.WSGI["Flask, flask-limiter"](), clients=1),
}
FLOORS = {
    name: f"{kind}-floor"
    for name in FIGURES
    for kind in (name.partition("-")[0],)
    if name not in ("turn", f"{kind}-bare", f"{kind}-floor")
}
"""What each of ours is measured by."""
_BARE = {"decision": "turn", "asgi": "asgi-bare", "wsgi": "wsgi-bare", "fastapi": "fastapi", "flask": "flask"}
MINUS: dict[str, str] = {
    name: base
    for name in (*FIGURES, *PEERS)
    for base in (_BARE.get(name.partition("-")[0], ""),)
    if base and name != base
}
"""What is taken off: the request without a limiter, or the turn itself."""
