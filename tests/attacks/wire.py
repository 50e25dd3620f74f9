"""Requests as bytes on a socket, whatever no client of a library would send."""

from __future__ import annotations

import http.client
import socket
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Request:
    """A request as an attacker behind the proxy sends it.

    Attributes:
        target: the request target, as it goes on the wire (latin-1).
        method: the method, as it goes on the wire.
        headers: lines without line end.
        client: how the proxy writes the attacker's address; `{v4}` is one of its own for each case, `{v6}`
            the first half of one.
        forged: what the attacker has written in front of that.
        version: of HTTP.
        host: the `Host` header; None = without one.
        body: of the request.
    """

    target: str
    method: str = "GET"
    headers: tuple[str, ...] = ()
    client: str = "{v4}"
    forged: str = ""
    version: str = "HTTP/1.1"
    host: str | None = "test"
    body: str = ""

    def as_bytes(self, number: int) -> bytes:
        """The request of the attacker with this number."""
        v4 = f"198.18.{number // 250}.{number % 250 + 1}"
        client = self.client.replace("{v4}", v4).replace("{v6}", f"2001:db8:{number:x}:1")
        lines = [f"{self.method} {self.target} {self.version}"]
        lines += [] if self.host is None else [f"Host: {self.host}"]
        lines += [f"X-Forwarded-For: {self.forged}"] if self.forged else []
        lines += [f"X-Forwarded-For: {client}", *self.headers]
        if self.body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(self.body)}")
        return ("\r\n".join([*lines, "", ""]) + self.body).encode("latin-1")


@dataclass
class Wire:
    """A connection to a server, opened again when the server has closed it."""

    port: int
    _socket: socket.socket | None = field(default=None, init=False)

    def status_of(self, data: bytes, method: str) -> int:
        """Send a request; the status of its answer, 0 if there is none."""
        for _ in range(2):  # the server may have closed the connection since the last answer
            is_kept = self._socket is not None
            try:
                return self._sent(data, method)
            except (OSError, http.client.HTTPException):
                self.close()
                if not is_kept:
                    return 0
        return 0

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _sent(self, data: bytes, method: str) -> int:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        self._socket.sendall(data)
        with http.client.HTTPResponse(self._socket, method=method) as response:
            response.begin()
            response.read()
            if response.status == 101 or response.will_close:
                self.close()
            return response.status
