"""Never run: the public interface as users type it, checked by mypy."""

from __future__ import annotations

from datetime import timedelta

from fastapi import FastAPI
from flask import Flask
from typing_extensions import assert_type

from ratelimit_middleware import (
    GCRA,
    Decision,
    ManualClock,
    MemoryStore,
    RuleSet,
    SlidingWindow,
    WarmUp,
    WarmUpWindow,
    load_rules,
)
from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.asgi import RateLimitMiddleware as AsgiRateLimitMiddleware
from ratelimit_middleware.clock import Clock
from ratelimit_middleware.stores.base import Check, Store
from ratelimit_middleware.wsgi import RateLimitMiddleware as WsgiRateLimitMiddleware

algorithms: list[Algorithm] = [
    SlidingWindow(100, 60),
    SlidingWindow(100, timedelta(minutes=1)),
    GCRA(100, 60, 20),
    WarmUp(100, 10),
    WarmUp(0.5, timedelta(seconds=10), cold_factor=2.5),
    WarmUpWindow(100, 1, 10, cold_factor=3),
]
clock: Clock = ManualClock()
store: Store = MemoryStore(clock=clock, max_keys=1000)
decision = store.take([Check("key", algorithms[0], "overflow")])[0]
assert_type(decision, Decision)
assert_type(decision.retry_after, float | None)
rules = load_rules({"limits": {"/api/**": "100/minute"}})
assert_type(rules, RuleSet)

fastapi_app = FastAPI()
fastapi_app.add_middleware(AsgiRateLimitMiddleware, rules="ratelimit.yaml")
flask_app = Flask(__name__)
flask_app.wsgi_app = WsgiRateLimitMiddleware(flask_app.wsgi_app, "ratelimit.yaml", clock=clock)  # type: ignore[method-assign]  # Flask's own way to add a middleware
