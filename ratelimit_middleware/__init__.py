"""Rate limiting for ASGI and WSGI apps from one rule file.

The middlewares are `ratelimit_middleware.asgi.RateLimitMiddleware` and
`ratelimit_middleware.wsgi.RateLimitMiddleware`.
"""

from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.clock import ManualClock, SystemClock
from ratelimit_middleware.decision import Decision, Verdict
from ratelimit_middleware.errors import (
    InvalidLimitError,
    NeverAdmittedError,
    RateLimitError,
    RuleFileError,
    StoreError,
)
from ratelimit_middleware.limiter import Limiter
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.model import RuleSet
from ratelimit_middleware.stores.memory import MemoryStore

__version__ = "0.1.0"

__all__ = [
    "GCRA",
    "Concurrency",
    "Decision",
    "FixedWindow",
    "InvalidLimitError",
    "LeakyBucket",
    "Limiter",
    "ManualClock",
    "MemoryStore",
    "NeverAdmittedError",
    "Pacing",
    "QpsWindow",
    "RateLimitError",
    "RuleFileError",
    "RuleSet",
    "SlidingCounter",
    "SlidingWindow",
    "SmoothBursty",
    "SmoothWarmingUp",
    "StoreError",
    "SystemClock",
    "TokenBucket",
    "Verdict",
    "WarmUp",
    "WarmUpPacing",
    "WarmUpWindow",
    "__version__",
    "load_rules",
]
