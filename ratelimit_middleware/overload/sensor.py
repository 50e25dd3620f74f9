"""How the server is: the event loop's lag, the processors' use, the load."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Collection
from typing import Any, Protocol

from ratelimit_middleware.clock import NS_PER_SECOND, Clock
from ratelimit_middleware.overload.adaptive import Senses
from ratelimit_middleware.overload.loop_lag import LoopLag

__all__ = ["Sensor", "SystemSensor"]

_FRESH_NS = NS_PER_SECOND // 2
_INSTEAD = (
    "psutil is not installed, so `cpu` is judged by the load average of a minute, which is slow to change:"
    " pip install ratelimit-middleware[overload]"
)

_logger = logging.getLogger("ratelimit_middleware")


class Sensor(Protocol):
    """What tells a meter how the server is. Called for each request, in its thread or on its loop."""

    def request_came(self) -> Senses:
        """How the server is now that a request comes."""


class SystemSensor:
    """Asks the operating system twice a second at most, and the event loop always.

    Args:
        wanted: which of `loop_lag`, `cpu` and `load` are asked for; the others stay 0.
        clock: tells the time.

    Raises:
        ImportError: the system tells no load, and psutil is not installed.
    """

    __slots__ = ("_asked_ns", "_cpu", "_cpu_now", "_lag", "_load", "_load_now", "_now_ns")

    def __init__(self, wanted: Collection[str], clock: Clock) -> None:
        self._now_ns = clock.now_ns
        self._lag = LoopLag(clock) if "loop_lag" in wanted else None
        psutil = _psutil() if {"cpu", "load"} & set(wanted) else None
        self._load = _load(psutil) if "load" in wanted else None
        self._cpu = _cpu(psutil) if "cpu" in wanted else None
        self._asked_ns = self._now_ns()
        self._cpu_now = self._load_now = 0.0

    def request_came(self) -> Senses:
        """What was measured last, at most half a second ago."""
        if self._lag is not None:
            self._lag.request_came()
        if self._cpu is not None or self._load is not None:
            self._ask()
        return Senses(0 if self._lag is None else self._lag.at(), self._cpu_now, self._load_now)

    def _ask(self) -> None:
        now_ns = self._now_ns()
        if now_ns - self._asked_ns < _FRESH_NS:
            return
        self._asked_ns = now_ns
        self._cpu_now = self._cpu() if self._cpu is not None else 0.0
        self._load_now = self._load() if self._load is not None else 0.0


def _psutil() -> Any:
    """The package, if it is installed."""
    try:
        return importlib.import_module("psutil")
    except ImportError:
        return None


def _cpu(psutil: Any) -> Callable[[], float]:
    if psutil is None:
        _logger.warning(_INSTEAD)
        load = _load(None)
        return lambda: min(1.0, load())
    psutil.cpu_percent(None)  # the next call tells the use since this one
    return lambda: float(psutil.cpu_percent(None)) / 100


def _load(psutil: Any) -> Callable[[], float]:
    """The load average of a minute for each processor."""
    told = getattr(os, "getloadavg", None) or getattr(psutil, "getloadavg", None)
    if told is None:
        raise ImportError("this system tells no load: pip install ratelimit-middleware[overload]")
    processors = os.cpu_count() or 1
    return lambda: float(told()[0]) / processors
