"""The end of an ASGI app's lifespan, when the connections of a store are closed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from ratelimit_middleware._types import Message, Send

__all__ = ["closing"]

_logger = logging.getLogger("ratelimit_middleware")
_ENDS = frozenset({"lifespan.shutdown.complete", "lifespan.shutdown.failed"})


def closing(send: Send, close: Callable[[], Awaitable[None]]) -> Send:
    """A `send` that closes before it tells the server that the app has shut down.

    Before that the app's own shutdown may still want what is closed; after it the server ends the event
    loop. What goes wrong is logged: the app has done its part.

    Args:
        send: the server's.
        close: what is to be done.
    """

    async def send_at_the_end(message: Message) -> None:
        if message["type"] in _ENDS:
            try:
                await close()
            except Exception as error:  # noqa: BLE001 - the server is to stop in any case
                _logger.warning("the connections of the store could not be closed: %s", error)
        await send(message)

    return send_at_the_end
