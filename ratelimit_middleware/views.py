"""How a middleware looks at requests: as the settings of the client say.

For the first requests it looks twice, so that a set-up in which all clients count as one is told of.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from ratelimit_middleware.addresses import parse_address
from ratelimit_middleware.client import SeenView
from ratelimit_middleware.clock import NS_PER_SECOND, Clock, SystemClock
from ratelimit_middleware.forwarded import addresses_in
from ratelimit_middleware.identity import client_address
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.model import RuleSet

__all__ = ["FIRST_REQUESTS", "Views"]

FIRST_REQUESTS: Final = 100
"""How many requests are looked at twice, and how often a user may be missing before that is told."""

_FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip")
_MOST_COMPARED = 32
_LOOK_AGAIN_NS = NS_PER_SECOND
_QUIET_NS = 3600 * NS_PER_SECOND

_UNTRUSTED = (
    "a request from %s has the header %s, but no proxy is trusted, so the header is not read and all clients"
    " behind that address count as one: if it is your proxy, write its network into the rule file,"
    " `client: {trusted_proxies: [...], header: ...}`, or let the server unwrap the header"
)
_NO_USER = (
    "the first %d requests that were to be counted by user had none, so they count by address (or as"
    " `missing` says): put the limits inside the authentication, or say in the rule file where the user is"
    " found, `client: {user: ...}`"
)

_logger = logging.getLogger("ratelimit_middleware")


class Views:
    """Makes the view of each request.

    Args:
        ruleset: the rules with their settings.
        plain: makes a view of what the server hands over: `AsgiView` or `WsgiView`.
        clock: spaces warnings; the system's by default.

    Attributes:
        make: from a scope or environ to its view. It is replaced by a quicker one after the first requests,
            so it is to be looked up for each request.
    """

    __slots__ = (
        "_client",
        "_clock",
        "_counts_users",
        "_left",
        "_look_ns",
        "_no_user",
        "_plain",
        "_quiet_until_ns",
        "_reads_header",
        "make",
    )

    def __init__(
        self, ruleset: RuleSet, plain: Callable[[Any], RequestView], clock: Clock | None = None
    ) -> None:
        self._client = ruleset.client
        self._reads_header = ruleset.client.reads_header
        self._plain = plain
        self._clock = clock or SystemClock()
        parts = [part for rule in ruleset.rules for limit in rule.all_limits for part in limit.key]
        self._counts_users = any(part.kind == "user" for part in parts)
        self._no_user = 0
        self._left = FIRST_REQUESTS
        self._look_ns = 0
        self._quiet_until_ns = 0
        self.make: Callable[[Any], RequestView] = self._first

    def refused(self, view: RequestView) -> None:
        """Look whether a client was refused because all behind a proxy count as one; never raises."""
        if self._reads_header:
            return
        try:  # not `suppress`, which would cost as much as all the rest
            now_ns = self._clock.now_ns()
            if now_ns >= self._look_ns:
                self._look_ns = now_ns + _LOOK_AGAIN_NS
                self._look_for_proxy(view, now_ns)
        except Exception:  # noqa: BLE001, S110 - a clock or a logging filter of the app
            pass

    def _first(self, raw: Mapping[str, Any]) -> RequestView:
        view = self._seen(raw)
        if not self._reads_header:
            with suppress(Exception):
                self._look_for_proxy(view, self._clock.now_ns())
        self._left -= 1
        if self._left <= 0:
            self._settle()
        return view

    def _settle(self) -> None:
        """Look at requests once from now on, and plainly where the settings let it."""
        plain = not (self._reads_header or self._client.user or self._counts_users)
        self.make = self._plain if plain else self._seen

    def _seen(self, raw: Mapping[str, Any]) -> RequestView:
        return SeenView(self._plain(raw), self._client, self._note_user if self._counts_users else None)

    def _note_user(self, user: str | None) -> None:
        """Tell of it once when there never is a user."""
        self._no_user += 1
        if user is None and self._no_user < FIRST_REQUESTS:
            return
        if user is None:
            _logger.warning(_NO_USER, FIRST_REQUESTS)
        self._counts_users = False
        if self._left <= 0:
            self._settle()

    def _look_for_proxy(self, view: RequestView, now_ns: int) -> None:
        """Tell of a header that proxies write, unless the server has put what it says in the peer's place."""
        for name in _FORWARDED if now_ns >= self._quiet_until_ns else ():
            text = view.header(name)
            if text and not _is_unwrapped(view.peer, name, text):
                self._quiet_until_ns = now_ns + _QUIET_NS
                _logger.warning(_UNTRUSTED, client_address(view.peer), name)
                return


def _is_unwrapped(peer: str | None, name: str, text: str) -> bool:
    """Whether a header names the peer itself: no proxy reports its own address."""
    return bool(peer) and parse_address(str(peer)) in islice(addresses_in(name, text), _MOST_COMPARED)
