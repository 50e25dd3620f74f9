"""Client: whom the limits count where proxies stand before the app, or users are known by other means."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Literal, TypeAlias

from ratelimit_middleware.addresses import Address, parse_address
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.forwarded import addresses_in, nth_from_the_right, rightmost_untrusted
from ratelimit_middleware.identity import KeyPart, part_value
from ratelimit_middleware.request import Asked, Kind, RequestView, Target
from ratelimit_middleware.request_texts import identity_of

__all__ = ["Client", "Network", "SeenView", "UserSource"]

Network: TypeAlias = IPv4Network | IPv6Network

_HEADER_NAME = re.compile(r"[!#$%&'*+.^`|~0-9a-z-]+")  # no underscore: WSGI cannot tell it from a dash


@dataclass(frozen=True, slots=True)
class UserSource:
    """Where the name of the user comes from, if not from the server or the authentication.

    Attributes:
        kind: `scope`, the ASGI scope's `user`; `environ`, WSGI's `REMOTE_USER`; `header`; `python`.
        name: of the header (lower case), or `MODULE:FUNCTION`; else empty.
        asked: the function, for `python`. It cannot ask the request for its `user`.
    """

    kind: Literal["scope", "environ", "header", "python"]
    name: str = ""
    asked: Asked | None = field(default=None, compare=False, repr=False)

    def __call__(self, view: RequestView) -> str | None:
        """The user of a request; None for nobody.

        Raises:
            TypeError: a function gave neither a text nor None.
        """
        if self.kind == "scope":
            return identity_of(view.raw.get("user"))
        if self.kind == "environ":
            return str(view.raw.get("REMOTE_USER") or "") or None
        return part_value(KeyPart(self.kind, self.name, self.asked), view, "") or None


@dataclass(frozen=True, slots=True)
class Client:
    """Who the client of a request is.

    It is the peer of the socket, unless that is a trusted proxy, or `hops` is set: then a header tells.

    Attributes:
        trusted_proxies: networks whose word is believed.
        trusts_unix: whether peers without an address (a Unix socket) are believed too.
        hops: the number of proxies before the app; then their addresses are not compared, and the header
            counts from whoever sends it (from trusted proxies only, where these are named too).
        header: the one header that is read, in lower case; `forwarded` is read after RFC 7239.
        user: where the name of the user comes from; None = from the server or the authentication.

    Raises:
        InvalidLimitError: `hops` is below 1, or `header` is no name of a header.
    """

    trusted_proxies: tuple[Network, ...] = ()
    trusts_unix: bool = False
    hops: int | None = None
    header: str = "x-forwarded-for"
    user: UserSource | None = None

    def __post_init__(self) -> None:
        """Refuse nonsense."""
        if self.hops is not None and self.hops < 1:
            raise InvalidLimitError("hops", self.hops, "the number of proxies before the app, 1 or more")
        if not _HEADER_NAME.fullmatch(self.header):
            raise InvalidLimitError("header", self.header, "the name of a header in lower case")

    @property
    def reads_header(self) -> bool:
        """Whether anything but the peer may say who the client is."""
        return bool(self.trusted_proxies or self.trusts_unix or self.hops)

    def peer_of(self, view: RequestView) -> str | None:
        """The client's address: the peer as the server has it, or what the proxies say."""
        peer = view.peer
        if not self._believes(peer):
            return peer
        text = view.header(self.header)
        if not text:
            return peer
        found = addresses_in(self.header, text)
        if self.hops:
            address = nth_from_the_right(found, self.hops)
        else:
            address = rightmost_untrusted(found, self._is_trusted)
        return peer if address is None else str(address)

    def user_of(self, view: RequestView) -> str | None:
        """The user; a header counts from those peers only that the header with the address counts from."""
        if self.user is None:
            return view.user
        if self.user.kind == "header" and self.reads_header and not self._believes(view.peer):
            return None
        return self.user(
            SeenView(view, Client(self.trusted_proxies, self.trusts_unix, self.hops, self.header))
        )

    def header_from_proxy(self, view: RequestView, name: str) -> str | None:
        """A header that a proxy sets; None from peers that are no trusted proxy, where these are named."""
        seen = view.as_sent if isinstance(view, SeenView) else view
        return None if self.reads_header and not self._believes(seen.peer) else seen.header(name)

    def _believes(self, peer: str | None) -> bool:
        """Whether what a peer says of the client counts."""
        if not (self.trusted_proxies or self.trusts_unix):
            return self.hops is not None
        if not peer:
            return self.trusts_unix
        address = parse_address(peer)
        return address is not None and self._is_trusted(address)

    def _is_trusted(self, address: Address) -> bool:
        return any(address in network for network in self.trusted_proxies)


class SeenView:
    """A request as `Client` sees it: `peer` is the client, `user` is found by the settings.

    Args:
        view: the request as the server hands it over.
        client: the settings.
        note_user: is told the user when a rule first asks for it.
    """

    __slots__ = ("_client", "_note_user", "_peer", "_user", "_view")

    def __init__(
        self, view: RequestView, client: Client, note_user: Callable[[str | None], None] | None = None
    ) -> None:
        self._view = view
        self._client = client
        self._note_user = note_user
        self._peer: tuple[str | None] | None = None
        self._user: tuple[str | None] | None = None

    @property
    def as_sent(self) -> RequestView:
        """The request as the server hands it over."""
        return self._view

    @property
    def peer(self) -> str | None:
        """The client's address, found once."""
        if self._peer is None:
            self._peer = (self._client.peer_of(self._view),)
        return self._peer[0]

    @property
    def user(self) -> str | None:
        """The user, found once."""
        if self._user is None:
            self._user = (self._client.user_of(self._view),)
            if self._note_user:
                self._note_user(self._user[0])
        return self._user[0]

    @property
    def kind(self) -> Kind:
        """As it is."""
        return self._view.kind

    @property
    def method(self) -> str:
        """As it is."""
        return self._view.method

    @property
    def target(self) -> Target:
        """As it is."""
        return self._view.target

    @property
    def is_head(self) -> bool:
        """As it is."""
        return self._view.is_head

    @property
    def path(self) -> str:
        """As it is."""
        return self._view.path

    @property
    def host(self) -> str:
        """As it is."""
        return self._view.host

    @property
    def raw(self) -> Mapping[str, Any]:
        """As it is."""
        return self._view.raw

    @property
    def memo(self) -> dict[str, Any]:
        """As it is."""
        return self._view.memo

    def header(self, name: str) -> str | None:
        """As it is."""
        return self._view.header(name)

    def query(self, name: str) -> str | None:
        """As it is."""
        return self._view.query(name)

    def cookie(self, name: str) -> str | None:
        """As it is."""
        return self._view.cookie(name)
