"""Stores behind meters: limits that the state of this process sets are asked here, all others behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ratelimit_middleware.decision import UNCHECKED, Decision
from ratelimit_middleware.overload.adaptive import Adaptive
from ratelimit_middleware.overload.meter import Meter
from ratelimit_middleware.stores.base import AsyncStore, Check, Store, StoreStats

__all__ = ["SheddingAsyncStore", "SheddingStore", "shedding"]


class _Shedding:
    """What both worlds share.

    Args:
        meters: by the overflow key of their checks, which is that of the limit.
    """

    def __init__(self, meters: Mapping[str, Meter]) -> None:
        self._meters = meters

    def _entered(self, checks: Sequence[Check]) -> tuple[dict[int, Decision], list[int]]:
        """The decisions of the meters, and the places of the checks for the store; none if one refuses.

        Before the store is asked: a request that is shed costs it nothing.
        """
        decided: dict[int, Decision] = {}
        others: list[int] = []
        try:
            for i, check in enumerate(checks):
                if isinstance(check.algorithm, Adaptive):
                    decided[i] = self._meters[check.overflow].enter()
                else:
                    others.append(i)
        except BaseException:  # of a sensor of the app
            self._failed(checks, decided)
            raise
        if _is_admitted(checks, decided):
            return decided, others
        self._leave(checks, decided)
        return decided, []

    def _failed(self, checks: Sequence[Check], decided: Mapping[int, Decision]) -> None:
        """There will be no verdict."""
        for i, decision in decided.items():
            if decision.allowed:
                self._meters[checks[i].overflow].leave()

    def _left(self, check: Check) -> bool:
        """Whether a check is a meter's; then its request is in progress no more."""
        is_metered = isinstance(check.algorithm, Adaptive)
        if is_metered:
            self._meters[check.overflow].leave()
        return is_metered

    def _together(
        self,
        checks: Sequence[Check],
        decided: dict[int, Decision],
        others: Sequence[int],
        rest: list[Decision],
    ) -> list[Decision]:
        """All decisions; nobody enters whom a limit refuses."""
        behind = dict(zip(others, rest, strict=True))
        if not _is_admitted(checks, behind):
            self._leave(checks, decided)
        return [decided.get(i) or behind.get(i, UNCHECKED) for i in range(len(checks))]

    def _leave(self, checks: Sequence[Check], decided: Mapping[int, Decision]) -> None:
        """A request is refused; those that only watch hear of its end as of any other."""
        for i, decision in decided.items():
            if decision.allowed and not checks[i].shadow:
                self._meters[checks[i].overflow].leave()


def _is_admitted(checks: Sequence[Check], decided: Mapping[int, Decision]) -> bool:
    return all(decision.allowed or checks[i].shadow for i, decision in decided.items())


class SheddingStore(_Shedding):
    """A store called from threads, behind meters.

    Args:
        inner: asked about all other limits.
        meters: by the overflow key of their checks.
    """

    def __init__(self, inner: Store, meters: Mapping[str, Meter]) -> None:
        super().__init__(meters)
        self.inner = inner

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        """Decide all checks, all or nothing; see `Store.take`."""
        decided, others = self._entered(checks)
        try:
            rest = self.inner.take([checks[i] for i in others]) if others else []
        except BaseException:
            self._failed(checks, decided)
            raise
        return self._together(checks, decided, others, rest)

    def charge(self, check: Check) -> None:
        """Consume without asking."""
        self.inner.charge(check)

    def give_back(self, check: Check, at_ns: int) -> None:
        """Undo a booking; a request in progress has ended."""
        if not self._left(check):
            self.inner.give_back(check, at_ns)

    def renew(self, check: Check, at_ns: int) -> None:
        """The lease of a slot begins anew."""
        self.inner.renew(check, at_ns)

    def peek(self, check: Check) -> Decision:
        """What a request would hear; nothing changes."""
        return self.inner.peek(check)

    def reset(self, key: str) -> bool:
        """Forget a bucket; True if it was there."""
        return self.inner.reset(key)

    def close(self) -> None:
        """Let go of everything held."""
        self.inner.close()

    def stats(self) -> StoreStats:
        """A snapshot for metrics."""
        return self.inner.stats()


class SheddingAsyncStore(_Shedding):
    """A store that must be awaited, behind meters.

    Args:
        inner: asked about all other limits.
        meters: by the overflow key of their checks.
    """

    def __init__(self, inner: AsyncStore, meters: Mapping[str, Meter]) -> None:
        super().__init__(meters)
        self._awaited = inner

    async def take_async(self, checks: Sequence[Check]) -> list[Decision]:
        """As `SheddingStore.take`; a call that is cancelled has let nobody enter."""
        decided, others = self._entered(checks)
        try:
            rest = await self._awaited.take_async([checks[i] for i in others]) if others else []
        except BaseException:
            self._failed(checks, decided)
            raise
        return self._together(checks, decided, others, rest)

    async def charge_async(self, check: Check) -> None:
        """Consume without asking."""
        await self._awaited.charge_async(check)

    async def give_back_async(self, check: Check, at_ns: int) -> None:
        """Undo a booking; a request in progress has ended."""
        if not self._left(check):
            await self._awaited.give_back_async(check, at_ns)

    async def renew_async(self, check: Check, at_ns: int) -> None:
        """The lease of a slot begins anew."""
        await self._awaited.renew_async(check, at_ns)

    async def peek_async(self, check: Check) -> Decision:
        """What a request would hear; nothing changes."""
        return await self._awaited.peek_async(check)

    async def reset_async(self, key: str) -> bool:
        """Forget a bucket; True if it was there."""
        return await self._awaited.reset_async(key)

    async def close_async(self) -> None:
        """Let go of everything held."""
        await self._awaited.close_async()


class _SheddingInBoth(SheddingStore, SheddingAsyncStore):
    """A store of both kinds, behind meters."""

    def __init__(self, inner: Store, awaited: AsyncStore, meters: Mapping[str, Meter]) -> None:
        SheddingAsyncStore.__init__(self, awaited, meters)
        SheddingStore.__init__(self, inner, meters)


def shedding(store: Store | AsyncStore, meters: Mapping[str, Meter]) -> Store | AsyncStore:
    """A store of the same kind behind meters.

    Args:
        store: the store.
        meters: by the overflow key of their checks.
    """
    if isinstance(store, AsyncStore):
        if isinstance(store, Store):
            return _SheddingInBoth(store, store, meters)
        return SheddingAsyncStore(store, meters)
    return SheddingStore(store, meters)
