"""What the script has said of one check, as a decision. Pure."""

from __future__ import annotations

import struct

from ratelimit_middleware.algorithms.base import Algorithm, granted, refused
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.stores._redis_port import US_NS, whole_us
from ratelimit_middleware.stores._redis_ports import port_of
from ratelimit_middleware.stores.base import Check

__all__ = ["decision_of"]


def decision_of(
    check: Check, told: bytes, now_ns: int, at_ns: int | None, patience_ns: int | None, from_ns: int
) -> Decision:
    """The decision on one check: booked for `at_ns` or refused, that is what the script has said."""
    algorithm = check.algorithm
    port = port_of(algorithm)
    if port.tells:
        return port.told(algorithm, _told(algorithm, told, now_ns, at_ns), check.cost)
    before = port.decode(algorithm, told)
    decision, _ = algorithm.take(before, now_ns, check.cost, patience_ns, from_ns)
    if at_ns is not None:
        return decision._replace(allowed=True, at_ns=at_ns, wait_ns=at_ns - now_ns, retry_after_ns=None)
    if decision.allowed:  # in time by less than the microsecond in which the script counts
        left = decision.remaining + check.cost
        return refused(now_ns, US_NS, decision.limit, left, decision.reset_after_ns)
    if decision.retry_after_ns is None:
        return decision
    return decision._replace(retry_after_ns=whole_us(decision.retry_after_ns) * US_NS)


def _told(algorithm: Algorithm, told: bytes, now_ns: int, at_ns: int | None) -> Decision:
    retry_us, remaining, reset_us = struct.unpack("<3d", told)
    left = int(remaining), int(reset_us * US_NS)
    if at_ns is not None:
        return granted(at_ns, now_ns, algorithm.quota, *left)
    retry_ns = None if retry_us < 0 else int(retry_us * US_NS)
    return refused(now_ns, retry_ns, algorithm.quota, *left)
