"""TierSource: which tier (plan, class of customers) a request belongs to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ratelimit_middleware.client import Client
from ratelimit_middleware.faults import FaultLog
from ratelimit_middleware.request import Asked, RequestView

__all__ = ["TierSource", "forgiving"]

_QUIET_S = 60


@dataclass(frozen=True, slots=True)
class TierSource:
    """Where the name of the tier comes from: a function of the app, or a header that a proxy sets.

    Attributes:
        name: `MODULE:FUNCTION`, or the header in lower case.
        asked: the function; None = it is a header.
        client: whose word on headers counts.
    """

    name: str
    asked: Asked | None = None
    client: Client = field(default_factory=Client, repr=False)

    def __call__(self, view: RequestView) -> str | None:
        """The tier of a request; None if it has none."""
        if self.asked is None:
            return self.client.header_from_proxy(view, self.name)
        tier: str | None = self.asked(view)
        return tier

    def known(self, view: RequestView) -> str | None:
        """The tier, if a rule has asked for it."""
        if self.asked is not None and self.asked.name not in view.memo:
            return None
        return self(view)


def forgiving(asked: Asked) -> Asked:
    """The same function, for which a request has no tier where it fails or gives no text.

    That is logged with its traceback, at most once a minute: a request must neither fail nor go free for it.
    """
    faults = FaultLog(f"`{asked.name}` told no tier, the request counts as one of no tier", quiet_s=_QUIET_S)

    def tell(view: RequestView) -> str | None:
        try:
            return _text(asked.name, asked.function(view))
        except Exception as error:  # noqa: BLE001 - the app's code
            faults.report(error)
            return None

    async def tell_async(view: RequestView) -> str | None:
        try:
            return _text(asked.name, await asked.function(view))
        except Exception as error:  # noqa: BLE001 - the app's code
            faults.report(error)
            return None

    function: Callable[[RequestView], str | Awaitable[str | None] | None]
    function = tell_async if asked.awaited else tell
    return Asked(asked.name, function, asked.awaited)


def _text(name: str, tier: Any) -> str | None:
    if tier is not None and not isinstance(tier, str):
        raise TypeError(f"{name} gave {tier!r} for a tier: expected a text or None")
    return tier
