"""The end of the lifespan: what was opened here is closed, and the server hears of the end in any case."""

from __future__ import annotations

import pytest

from ratelimit_middleware._types import Message
from ratelimit_middleware.asgi_lifespan import closing

pytestmark = pytest.mark.anyio


async def heard(*messages: str, error: Exception | None = None) -> list[str]:
    """What happens, in order, while an app sends these."""
    seen: list[str] = []

    async def send(message: Message) -> None:
        seen.append(message["type"])

    async def close() -> None:
        seen.append("closed")
        if error:
            raise error

    sending = closing(send, close)
    for kind in messages:
        await sending({"type": f"lifespan.{kind}"})
    return [kind.removeprefix("lifespan.") for kind in seen]


async def test_the_store_is_closed_after_the_app_and_before_the_server_knows() -> None:
    assert await heard("startup.complete", "shutdown.complete") == [
        "startup.complete",
        "closed",
        "shutdown.complete",
    ]


async def test_also_where_the_app_fails_to_shut_down() -> None:
    assert await heard("shutdown.failed") == ["closed", "shutdown.failed"]


async def test_an_app_that_does_not_start_has_nothing_to_close() -> None:
    assert await heard("startup.failed") == ["startup.failed"]


async def test_a_store_that_cannot_be_closed_is_logged_and_the_server_stops(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await heard("shutdown.complete", error=OSError("gone")) == ["closed", "shutdown.complete"]
    assert "could not be closed: gone" in caplog.text
