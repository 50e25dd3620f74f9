"""Outage: what is answered in the place of a store that does not answer. Plain computing, never awaited."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ratelimit_middleware.decision import UNCHECKED, Decision
from ratelimit_middleware.errors import StoreUnavailableError
from ratelimit_middleware.store_settings import OnError
from ratelimit_middleware.stores.base import Check, StoreStats
from ratelimit_middleware.stores.divided import DividedStore

__all__ = ["HereNs", "Outage"]


class HereNs(int):
    """The moment of a booking that stands in this process, on its clock, and not in the store.

    A booking is known by its check and its moment, and whoever gives it back hands on the moment of the
    decision as it came. So the moment itself says which of the two stores has the booking.
    """

    __slots__ = ()


class Outage:
    """Does what the policy of each check says.

    Args:
        on_error: the policy of checks that have none of their own.
        fallback: counts for `fallback`.
        retry_after_ns: tells how long until the store is asked again.
    """

    __slots__ = ("_on_error", "_retry_after_ns", "fallback")

    def __init__(self, on_error: OnError, fallback: DividedStore, retry_after_ns: Callable[[], int]) -> None:
        self._on_error = on_error
        self._retry_after_ns = retry_after_ns
        self.fallback = fallback

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        """As `Store.take`: one check that is denied refuses the request, and nothing is consumed.

        Raises:
            StoreUnavailableError: an enforcing check is denied.
        """
        policies = [self._policy(check) for check in checks]
        if "deny" in policies:
            raise self._unavailable()
        counted = [check for check, policy in zip(checks, policies, strict=True) if policy == "fallback"]
        decisions = iter(self.fallback.take(counted) if counted else ())
        return [_here(next(decisions)) if policy == "fallback" else UNCHECKED for policy in policies]

    def charge(self, check: Check) -> None:
        """As `Store.charge`.

        Raises:
            StoreUnavailableError: the check is denied.
        """
        if self._counts(check):
            self.fallback.charge(check)

    def give_back(self, check: Check, _at_ns: int) -> None:
        """For a booking that stands in the store: it stays there, and nothing is given for it here.

        Raises:
            StoreUnavailableError: the check is denied.
        """
        self._counts(check)

    def renew(self, check: Check, _at_ns: int) -> None:
        """For a slot that stands in the store: its lease runs on until the store answers again.

        Raises:
            StoreUnavailableError: the check is denied.
        """
        self._counts(check)

    def peek(self, check: Check) -> Decision:
        """As `Store.peek`.

        Raises:
            StoreUnavailableError: the check is denied.
        """
        return self.fallback.peek(check) if self._counts(check) else UNCHECKED

    def reset(self, key: str) -> bool:
        """As `Store.reset`; what the store holds stays.

        Raises:
            StoreUnavailableError: the policy is `deny`.
        """
        if self._on_error == "deny":
            raise self._unavailable()
        return self.fallback.reset(key)

    def stats(self) -> StoreStats:
        """The buckets of this process."""
        return self.fallback.stats()

    def _policy(self, check: Check) -> OnError:
        """A shadow check affects nobody, so it cannot deny."""
        policy = check.on_error or self._on_error
        return "allow" if check.shadow and policy == "deny" else policy

    def _counts(self, check: Check) -> bool:
        """Whether the check counts in this process."""
        policy = self._policy(check)
        if policy == "deny":
            raise self._unavailable()
        return policy == "fallback"

    def _unavailable(self) -> StoreUnavailableError:
        return StoreUnavailableError(self._retry_after_ns())


def _here(decision: Decision) -> Decision:
    return decision._replace(at_ns=HereNs(decision.at_ns)) if decision.allowed else decision
