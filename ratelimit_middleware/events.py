"""Events: what was decided about each request, for hooks of the app.

Nothing of this is built where there are no hooks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

__all__ = [
    "CHECKED",
    "FlowEvent",
    "FlowEventKind",
    "FlowHook",
    "Hook",
    "Shadow",
    "VerdictEvent",
    "VerdictKind",
]

CHECKED = "ratelimit_middleware.checked"
"""Where the registry leaves what it has checked, by the names of the policies, in the memo of a view."""

VerdictKind: TypeAlias = Literal[
    "admitted", "delayed", "refused", "shed", "denied", "exempt", "uncounted", "unavailable"
]

FlowEventKind: TypeAlias = Literal["delayed", "dropped", "closed", "paced", "cut"]


@dataclass(frozen=True, slots=True)
class Shadow:
    """What a limit said that only watches.

    Attributes:
        rule: name of its rule.
        policy: its name on the wire.
        key: key of its bucket.
        would_refuse: whether it would have refused.
        wait_ns: how long it would have delayed the request.
    """

    rule: str
    policy: str
    key: str
    would_refuse: bool
    wait_ns: int = 0


@dataclass(frozen=True, slots=True)
class VerdictEvent:
    """One verdict.

    Attributes:
        at_ns: when, ns since the epoch.
        kind: `admitted`, `delayed` (admitted after a wait), `refused` (by a limit), `shed` (by a
            rule that protects the server), `denied` (by the list),
            `exempt`, `uncounted` (no limit in force was checked) or `unavailable` (none can be checked).
        rules: names of the rules whose limits were checked, each once.
        refused_by: names of those that refused.
        rule: the rule that binds: the refusing one with the longest wait, else the one with least left.
        policy: the limit of it that binds, by its name on the wire.
        route: the pattern of that rule that matched; empty for `always` and `default`.
        key: the client, as the key of that limit's bucket stands in the store: what may be a secret is
            hashed. Of a denied or uncounted request its address.
        method: the method, upper case; made-up ones are `*other`, handshakes `WS`.
        wait_ns: how long an admitted request waits.
        retry_after_ns: what a refused client was told; None if no waiting helps, and when it is admitted.
        tier: the tier of the request, if a rule has asked for it.
        shadows: what limits said that only watch.
        would_deny: it is on the list `deny` of a file that only watches.
    """

    at_ns: int
    kind: VerdictKind
    rules: tuple[str, ...] = ()
    refused_by: tuple[str, ...] = ()
    rule: str = ""
    policy: str = ""
    route: str = ""
    key: str = ""
    method: str = ""
    wait_ns: int = 0
    retry_after_ns: int | None = None
    tier: str | None = None
    shadows: tuple[Shadow, ...] = ()
    would_deny: bool = False


@runtime_checkable
class Hook(Protocol):
    """What an app hears of verdicts with."""

    def on_verdict(self, event: VerdictEvent) -> None:
        """A request has been decided, and has not been answered yet: be quick, and do not block.

        Called on the event loop (ASGI) or in the request's thread (WSGI, several at once). What it raises is
        logged once a minute and disturbs neither the request nor other hooks.
        """


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """A limit on what flows within a request has stepped in.

    Attributes:
        at_ns: when, ns since the epoch.
        kind: `delayed` (a message waits), `dropped` (it is lost), `closed` (so is the connection); `paced` (a
            body that had to wait has ended), `cut` (it was broken off, for the store does not answer).
        rule: name of the rule.
        policy: name of its limit.
        key: the client, as the key of that limit's bucket stands in the store.
        wait_ns: how long it waits; a body all in all.
        amount: how many messages or bytes had to wait, or were lost.
        shadow: nothing of the kind has happened: the limit only watches.
    """

    at_ns: int
    kind: FlowEventKind
    rule: str
    policy: str
    key: str
    wait_ns: int = 0
    amount: int = 1
    shadow: bool = False


@runtime_checkable
class FlowHook(Protocol):
    """What a hook has that wants to hear of what flows as well."""

    def on_flow(self, event: FlowEvent) -> None:
        """As `Hook.on_verdict`."""
