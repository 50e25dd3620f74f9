"""A request and its response under ASGI, whose bodies pass at the rate of their limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ratelimit_middleware._types import ASGIApp, Message, Receive, Scope, Send
from ratelimit_middleware.asgi_bodies import PacedRequest, PacedResponse
from ratelimit_middleware.asgi_inbox import Inbox
from ratelimit_middleware.asgi_meter import AsgiMeter
from ratelimit_middleware.asgi_pace import AsgiPace
from ratelimit_middleware.asgi_refusal import refuse
from ratelimit_middleware.asgi_sizes import SHORTCUTS
from ratelimit_middleware.asgi_watching import may_watch
from ratelimit_middleware.errors import BodyCutError
from ratelimit_middleware.flow_reports import FlowReporter
from ratelimit_middleware.flows import Held
from ratelimit_middleware.responses import Refusal

__all__ = ["PacedExchange"]

_MOST_KEPT_BYTES = 64 * 1024


class PacedExchange:
    """Calls an app once.

    Args:
        held: the limits; at least one.
        meter: asks the store.
        tell: hears what is done.
        unavailable: what a client hears whose upload cannot be counted.
        scope: the request.
        receive: the server's.
        send: the server's.
    """

    def __init__(
        self,
        held: Sequence[Held],
        meter: AsgiMeter,
        tell: FlowReporter,
        unavailable: Callable[[], Refusal],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        inbox = Inbox(receive, most_kept=_MOST_KEPT_BYTES, reads_ahead=may_watch(scope, receive))
        self._paces = {
            kind: AsgiPace(some, meter, inbox)
            for kind in ("request", "response")
            if (some := [one for one in held if one.limit.kind == kind])
        }
        self._held = held
        self._tell = tell
        self._unavailable = unavailable
        self._scope, self._receive, self._send = scope, receive, send
        self._request = PacedRequest(self._paces.get("request"), inbox, self._give_up)
        self._response = PacedResponse(self._paces.get("response"), send, is_head=scope["method"] == "HEAD")
        self._is_answered = False

    async def serve(self, app: ASGIApp) -> None:
        """Call the app, in a scope without the extensions that would lead past here."""
        extensions = self._scope.get("extensions")
        if extensions and "response" in self._paces:
            kept = {name: value for name, value in extensions.items() if name not in SHORTCUTS}
            self._scope["extensions"] = kept
        try:
            await app(self._scope, self._request.receive, self._send_what_counts)
        except BodyCutError:
            pass  # a server breaks off a response that its app has not ended
        except Exception:
            if not self._is_answered:  # else the app has but heard that its client has gone
                raise
        finally:
            if extensions is not None:
                self._scope["extensions"] = extensions
            await self._end()

    async def _send_what_counts(self, message: Message) -> None:
        if not self._is_answered:
            await self._response.send(message)

    async def _give_up(self) -> None:
        """The request cannot be counted: say so, if nothing else has been said."""
        self._tell.tell("cut", self._first("request"))
        if not self._response.has_started:
            self._is_answered = True
            await refuse(self._scope, self._receive, self._send, self._unavailable())

    async def _end(self) -> None:
        if self._response.is_cut:
            self._tell.tell("cut", self._first("response"))
        for pace in self._paces.values():
            await pace.release()
        for pace in self._paces.values():
            pace.done.tell(self._tell)

    def _first(self, kind: str) -> Held:
        return next(one for one in self._held if one.limit.kind == kind and not one.check.shadow)
