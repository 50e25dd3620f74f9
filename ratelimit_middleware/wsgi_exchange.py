"""A request and its response under WSGI, whose bodies pass at the rate of their limits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any
from wsgiref.util import FileWrapper

from ratelimit_middleware._types import Environ, StartResponse, Write, WSGIApp
from ratelimit_middleware.errors import BodyCutError
from ratelimit_middleware.flow_reports import FlowReporter
from ratelimit_middleware.flows import Held
from ratelimit_middleware.responses import Refusal, reason
from ratelimit_middleware.rules.flow import FlowKind
from ratelimit_middleware.wsgi_bodies import PacedBody, PacedInput, pieces
from ratelimit_middleware.wsgi_pace import NoPlaceError, Place, WsgiMeter, WsgiPace

__all__ = ["PacedExchange"]

_WITHOUT_BODY = ("204", "304")


class PacedExchange:
    """Calls an app once.

    The server hears of the response when its first piece may go: until then it can become a 503.

    Args:
        held: the limits; at least one.
        meter: asks the store.
        tell: hears what is done.
        unavailable: what a client hears for whom there is no place, or whose bytes cannot be counted.
        place: where the thread waits.
        environ: the request.
        start_response: the server's.
    """

    def __init__(
        self,
        held: Sequence[Held],
        meter: WsgiMeter,
        tell: FlowReporter,
        unavailable: Callable[[], Refusal],
        place: Place,
        environ: Environ,
        start_response: StartResponse,
    ) -> None:
        self._held = held
        self._tell = tell
        self._unavailable = unavailable
        self._place = place
        self._environ = environ
        self._start_response = start_response
        self._request = self._pace("request", meter)
        self._response = self._pace("response", meter)
        self._replaced: dict[str, Any] = {}
        self._start: tuple[str, list[tuple[str, str]]] | None = None
        self._body: PacedBody | None = None
        self._is_sized = False
        self._write: Write | None = None
        self._has_begun = self._is_refused = self._is_cut = self._has_ended = False

    def serve(self, app: WSGIApp) -> Iterable[bytes]:
        """Call the app, with a plain wrapper in the place of that by which a server sends files itself."""
        environ = self._environ
        names = ("wsgi.input", "wsgi.file_wrapper")
        self._replaced = {name: environ[name] for name in names if name in environ}
        if self._request and "wsgi.input" in environ:
            environ["wsgi.input"] = PacedInput(environ["wsgi.input"], self._request.piece, self._pay_in)
        if self._response and "wsgi.file_wrapper" in environ:
            environ["wsgi.file_wrapper"] = FileWrapper
        try:
            body = app(environ, self._started)
        except BaseException as error:
            if self._is_cut and not self._has_begun and isinstance(error, Exception):
                answer = self._refuse()
                self._end()
                return [answer]
            self._end()
            raise
        self._is_sized = isinstance(body, Sized) and len(body) == 1
        self._body = PacedBody(body, self._piece, self._pay_out, self._end)
        return self._body

    def _pace(self, kind: FlowKind, meter: WsgiMeter) -> WsgiPace | None:
        held = [one for one in self._held if one.limit.kind == kind]
        return WsgiPace(held, meter, self._place) if held else None

    @property
    def _piece(self) -> int:
        return self._response.piece if self._response else sys.maxsize

    def _started(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Write:
        """The app's `start_response`: kept until the first piece may go."""
        try:
            if self._has_begun and exc_info and not self._is_refused:
                self._start_response(status, headers, exc_info)  # raises, as nothing can be taken back
            elif self._start is not None and not exc_info:
                raise AssertionError("start_response has been called already, and there is no exc_info")
        finally:
            del exc_info  # PEP 3333: or the traceback would keep this frame alive
        self._start = (status, headers)
        return self._write_out

    def _write_out(self, data: bytes) -> None:
        """The legacy `write`."""
        for piece in pieces(data, self._piece):
            instead = self._pay_out(len(piece))
            if self._write is not None:
                self._write(piece if instead is None else instead)

    def _pay_in(self, size: int) -> None:
        """Bytes of the request have been read."""
        assert self._request is not None  # noqa: S101 - else nobody pays
        try:
            self._request.pass_(size, must=self._has_begun)
        except (NoPlaceError, BodyCutError) as error:
            self._cut("request")
            raise BodyCutError("the request is broken off: its bytes cannot pass") from error

    def _pay_out(self, size: int) -> bytes | None:
        """Bytes of the response are about to go; what goes in their place, if anything does."""
        if self._is_refused:
            return b""
        if self._is_cut and self._has_begun:
            raise BodyCutError("this exchange has been broken off")
        try:
            if not self._has_begun:
                self._check_place()
            if self._response and size:
                self._response.pass_(size, must=self._has_begun)
        except (NoPlaceError, BodyCutError):
            if not self._is_cut:
                self._cut("response")
            if self._has_begun:
                raise
            return self._refuse()
        self._begin()
        return None

    def _check_place(self) -> None:
        """Before a response begins, for afterwards it must wait as long as it takes.

        Raises:
            NoPlaceError: it is sure to wait, or may be, and there is no place; or its request was cut.
        """
        if self._is_cut or (self._is_long and not self._place.take()):
            raise NoPlaceError

    @property
    def _length(self) -> int | None:
        """How long the response will be, if that is known."""
        if self._body and self._body.is_empty:
            return 0
        headers = self._start[1] if self._start else []
        told = [value for name, value in headers if name.lower() == "content-length"]
        if told:
            return int(told[0]) if told[0].isdecimal() else None
        return self._body.first_size if self._body and self._is_sized else None

    @property
    def _is_long(self) -> bool:
        """Whether the response is sure to wait, or may be."""
        if self._response is None or not self._response.may_wait:
            return False
        length = self._length
        return length is None or length > self._response.at_once

    def _begin(self) -> None:
        """Hand on the start of the response, once."""
        if self._has_begun or self._start is None:
            return
        self._has_begun = True
        status, headers = self._start
        is_told = any(name.lower() == "content-length" for name, _ in headers)
        if self._is_sized and not is_told and self._may_have_body(status):
            headers = [*headers, ("Content-Length", str(self._length))]  # as servers do for a single piece
        self._write = self._start_response(status, headers)

    def _may_have_body(self, status: str) -> bool:
        """Whether a length would be that of what follows (RFC 9110, section 8.6)."""
        return self._environ.get("REQUEST_METHOD") != "HEAD" and status[:3] not in _WITHOUT_BODY

    def _refuse(self) -> bytes:
        """Answer in the place of the app."""
        self._has_begun = self._is_refused = True
        refusal = self._unavailable()
        self._write = self._start_response(f"{refusal.status} {reason(refusal.status)}", [*refusal.headers])
        return refusal.body

    def _cut(self, kind: FlowKind) -> None:
        self._is_cut = True
        kept = [one for one in self._held if one.limit.kind == kind]
        self._tell.tell("cut", next((one for one in kept if not one.check.shadow), kept[0]))

    def _end(self) -> None:
        """All has passed; what comes later changes nothing."""
        if self._has_ended:
            return
        self._has_ended = True
        self._environ.update(self._replaced)
        self._place.free()
        for pace in (self._request, self._response):
            if pace:
                pace.done.tell(self._tell)
