"""Counters: a hook that counts verdicts for each rule."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ratelimit_middleware.events import FlowEvent, FlowEventKind, VerdictEvent, VerdictKind

__all__ = ["Counters", "Counts", "RuleCounts"]


class RuleCounts(NamedTuple):
    """What a rule has done.

    Attributes:
        checked: requests that it was asked about, watching or not.
        admitted: of these, how many were admitted at once.
        delayed: how many were admitted after a wait.
        refused: how many it refused itself.
        would_refuse: how many it would have refused, had it not only watched.
        messages_delayed: messages of WebSockets that it held back.
        messages_dropped: how many it dropped.
        connections_closed: WebSockets that it closed.
        bytes_paced: bytes of bodies that had to wait.
        bodies_cut: bodies that were broken off, for the store did not answer.
        would_limit: how often it would have done one of these, had it not only watched.
    """

    checked: int = 0
    admitted: int = 0
    delayed: int = 0
    refused: int = 0
    would_refuse: int = 0
    messages_delayed: int = 0
    messages_dropped: int = 0
    connections_closed: int = 0
    bytes_paced: int = 0
    bodies_cut: int = 0
    would_limit: int = 0


_FLOWS: Mapping[FlowEventKind, str] = {
    "delayed": "messages_delayed",
    "dropped": "messages_dropped",
    "closed": "connections_closed",
    "paced": "bytes_paced",
    "cut": "bodies_cut",
}


class Counts(NamedTuple):
    """A snapshot.

    Attributes:
        rules: by the name of the rule; those that no request has met are not there.
        verdicts: how many verdicts of each kind.
        would_deny: requests on the list `deny` of a file that only watches.
    """

    rules: Mapping[str, RuleCounts]
    verdicts: Mapping[VerdictKind, int]
    would_deny: int


class Counters:
    """Counts in this process; for threads and event loops. Only names of the rule file are kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: Counter[tuple[str, str]] = Counter()
        self._verdicts: Counter[VerdictKind] = Counter()
        self._would_deny = 0

    def on_verdict(self, event: VerdictEvent) -> None:
        """Count a verdict."""
        watching = dict.fromkeys(shadow.rule for shadow in event.shadows)
        refusing = dict.fromkeys(shadow.rule for shadow in event.shadows if shadow.would_refuse)
        with self._lock:
            self._verdicts[event.kind] += 1
            self._would_deny += event.would_deny
            self._count("checked", dict.fromkeys((*event.rules, *watching)))
            self._count("refused", event.refused_by)
            self._count("would_refuse", refusing)
            if event.kind in ("admitted", "delayed"):
                self._count(event.kind, event.rules)

    def on_flow(self, event: FlowEvent) -> None:
        """Count what a limit has done within a request."""
        with self._lock:
            if event.shadow:
                self._rules[event.rule, "would_limit"] += 1
            else:
                self._rules[event.rule, _FLOWS[event.kind]] += event.amount

    def snapshot(self) -> Counts:
        """The counts of now."""
        with self._lock:
            names = dict.fromkeys(rule for rule, _ in self._rules)
            rules = {
                name: RuleCounts(*(self._rules[name, field] for field in RuleCounts._fields))
                for name in names
            }
            return Counts(rules, dict(self._verdicts), self._would_deny)

    def _count(self, field: str, rules: Mapping[str, None] | tuple[str, ...]) -> None:
        for rule in rules:
            self._rules[rule, field] += 1
