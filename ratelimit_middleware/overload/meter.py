"""Meter: the requests of one rule that are in progress in this process, and whether one more fits."""

from __future__ import annotations

import logging
import threading

from ratelimit_middleware.algorithms.base import granted, refused
from ratelimit_middleware.clock import NS_PER_SECOND, Clock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.overload.adaptive import Adaptive, Senses
from ratelimit_middleware.overload.capacity import Capacity
from ratelimit_middleware.overload.sensor import Sensor

__all__ = ["Meter"]

_RETRY_AFTER_NS = NS_PER_SECOND  # nobody knows how long it lasts
_QUIET_NS = 60 * NS_PER_SECOND
_SHED = "overload: `%s` sheds requests, by %s (%d in progress; event loop %d ms late, cpu %.2f, load %.2f)"

_logger = logging.getLogger("ratelimit_middleware")


class Meter:
    """Decides about requests and counts those in progress; for any number of threads.

    Args:
        name: of the rule, for the log.
        settings: what is too much.
        sensor: tells how the server is.
        clock: tells the time.
    """

    def __init__(self, name: str, settings: Adaptive, sensor: Sensor, clock: Clock) -> None:
        self._name = name
        self._settings = settings
        self._sensor = sensor
        self._now_ns = clock.now_ns
        self._capacity = Capacity()
        self._lock = threading.Lock()
        self._in_flight = 0
        self._quiet_until_ns = 0

    @property
    def in_flight(self) -> int:
        """Requests in progress."""
        return self._in_flight

    def enter(self) -> Decision:
        """Whether a request may start; if so, it is in progress from now on."""
        settings = self._settings
        senses = self._sensor.request_came()
        with self._lock:
            now_ns = self._now_ns()
            capacity = waiting = 0
            if settings.bbr:
                capacity = self._capacity.at(now_ns)
                waiting = self._capacity.within(now_ns, senses.loop_lag_ns)
            reason = settings.exceeded(self._in_flight, capacity, senses, waiting)
            if not reason:
                self._in_flight += 1
                return granted(now_ns, now_ns, settings.quota, settings.quota - self._in_flight, 0)
            is_told = now_ns >= self._quiet_until_ns
            if is_told:
                self._quiet_until_ns = now_ns + _QUIET_NS
        if is_told:
            self._tell(reason, senses)
        return refused(now_ns, _RETRY_AFTER_NS, settings.quota, 0, _RETRY_AFTER_NS)

    def leave(self) -> None:
        """A request that was in progress is so no more."""
        with self._lock:
            self._in_flight -= 1

    def completed(self, took_ns: int) -> None:
        """One was served, and took so long."""
        with self._lock:
            self._capacity.completed(self._now_ns(), took_ns)

    def _tell(self, reason: str, senses: Senses) -> None:
        lag_ms = senses.loop_lag_ns // 1_000_000
        _logger.warning(_SHED, self._name, reason, self._in_flight, lag_ms, senses.cpu, senses.load)
