"""RequestList: requests by address, by a secret header or by method, for `exempt` and `deny`."""

from __future__ import annotations

from dataclasses import dataclass, field
from hmac import compare_digest

from ratelimit_middleware.networks import NetworkSet
from ratelimit_middleware.request import RequestView

__all__ = ["RequestList"]


@dataclass(frozen=True, slots=True)
class RequestList:
    """A request is on the list if its client's address, one of its headers or its method is.

    Attributes:
        networks: addresses of clients, as `client` of the rules finds them.
        headers: pairs of a lower-case name and a value that is a secret.
        methods: upper-case methods, `WS` for handshakes; `GET` stands for `HEAD` too.
        folds: an IPv6 address that was made of an IPv4 address (NAT64, 6to4, Teredo) is on the list also if
            that IPv4 address is. Right for those who are to be kept out; an exemption is not given so.

    Raises:
        ValueError: the value of a header is empty, or is no text that a header can hold.
    """

    networks: NetworkSet = field(default_factory=NetworkSet)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    methods: frozenset[str] = frozenset()
    folds: bool = False
    _secrets: tuple[tuple[str, bytes], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse values that anybody could send without knowing them."""
        if not all(value.strip() for _, value in self.headers):
            raise ValueError("a header of the list has an empty value, so anybody could send it")
        secrets = tuple((name, value.encode("latin-1")) for name, value in self.headers)
        object.__setattr__(self, "_secrets", secrets)

    def __call__(self, view: RequestView) -> bool:
        """Whether a request is on the list."""
        if self.methods and not self.methods.isdisjoint(_methods(view)):
            return True
        if self.networks and self.networks.has(view.peer, folding=self.folds):
            return True
        return bool(self._secrets) and self._knows_a_secret(view)

    def _knows_a_secret(self, view: RequestView) -> bool:
        """All headers are compared, in constant time: how long it takes does not tell which one was near."""
        known = False
        for name, secret in self._secrets:
            sent = view.header(name) or ""
            known |= compare_digest(sent.encode("latin-1", "replace"), secret)
        return known


def _methods(view: RequestView) -> tuple[str, ...]:
    """The words that stand for the method of a request."""
    if view.kind == "websocket":
        return ("WS",)
    return ("HEAD", "GET") if view.method == "HEAD" else (view.method,)
