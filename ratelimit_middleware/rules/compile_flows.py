"""From what a rule says of messages and bandwidth to its flow limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.decision import Policy
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.identity import KeyPart
from ratelimit_middleware.rules.algorithms import Numbers, algorithm_of
from ratelimit_middleware.rules.bandwidth import BandwidthText
from ratelimit_middleware.rules.client_written import holds, is_written_by_client
from ratelimit_middleware.rules.compile_limits import LimitCompiler
from ratelimit_middleware.rules.document import Path
from ratelimit_middleware.rules.flow import FlowKind, FlowLimit
from ratelimit_middleware.rules.key_grammar import key_text
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.model import Route
from ratelimit_middleware.rules.words import shown

__all__ = ["FlowCompiler"]

_ALWAYS_THERE = frozenset({"ip", "global", "route", "path", "method"})


@dataclass(frozen=True)
class FlowCompiler:
    """Makes the flow limits of one rule.

    Attributes:
        rule: knows the rule and what its limits have in common.
        limits: those that count its requests.
        routes: the requests it is about; empty for all.
    """

    rule: LimitCompiler
    limits: Sequence[Limit]
    routes: Sequence[Route]

    def flows(self, id_base: str, policy_name: Callable[[str, int], str]) -> tuple[FlowLimit, ...]:
        """All of them whose numbers make sense.

        Args:
            id_base: the rule's id.
            policy_name: names the limit of a kind and number.
        """
        flows = [*self._messages(id_base, policy_name)]
        bandwidth = self.rule.spec.bandwidth
        if bandwidth and not self._serves(websockets=False):
            self.rule.refuse(
                ("bandwidth",), "`bandwidth` is for bodies of HTTP, and this rule is for WebSockets alone"
            )
        elif bandwidth:
            response = [*self._bytes("response", bandwidth.response, id_base, policy_name)]
            request = [*self._bytes("request", bandwidth.request, id_base, policy_name)]
            keys = dict.fromkeys(tuple(flow.key for flow in way) for way in (response, request))
            for way in keys:  # once, where both ways have the same
                self._check_keys(("bandwidth",), way)
            flows += response + request
        return tuple(flows)

    def _bytes(
        self,
        kind: FlowKind,
        texts: Sequence[BandwidthText],
        id_base: str,
        policy_name: Callable[[str, int], str],
    ) -> Iterator[FlowLimit]:
        for number, text in enumerate(texts):
            algorithm = text.algorithm
            name = policy_name(kind, number)
            policy = Policy(name, algorithm.quota, algorithm.window_ns, text.text)
            yield self._flow(
                kind, number, id_base, policy, algorithm, text, on_excess="delay", piece=text.piece
            )

    def _messages(self, id_base: str, policy_name: Callable[[str, int], str]) -> Iterator[FlowLimit]:
        spec = self.rule.spec
        texts, place = spec.messages or (), ("messages",)
        if texts and not self._serves(websockets=True):
            self.rule.refuse(
                place, "`messages` is for WebSockets, and no route of this rule is: write `WS /path`"
            )
        for number, text in enumerate(texts):
            try:
                algorithm = algorithm_of(Numbers(text))
            except InvalidLimitError as error:
                self.rule.refuse(place, f"{shown(text.rate)}: {error}")
                continue
            yield self._flow(
                "messages",
                number,
                id_base,
                Policy(policy_name("messages", number), algorithm.quota, algorithm.window_ns, text.rate),
                algorithm,
                text,
                on_excess=spec.on_excess or "close",
                per_connection=text.key is None,
            )
        self._check_keys(place, [self.rule.key_of(text) for text in texts if text.key])

    def _flow(
        self,
        kind: FlowKind,
        number: int,
        id_base: str,
        policy: Policy,
        algorithm: Algorithm,
        text: Any,
        **more: Any,
    ) -> FlowLimit:
        rule = self.rule
        return FlowLimit(
            policy,
            algorithm,
            rule.key_of(text),
            f"{id_base}#{kind}" + (f"-{number + 1}" if number else ""),
            rule.spec.mode == "shadow",
            missing=rule.missing,
            on_error=rule.spec.on_error,
            exempt=rule.exempt,
            share=rule.share_of(id_base),
            kind=kind,
            **more,
        )

    def _serves(self, *, websockets: bool) -> bool:
        """Whether the rule is for WebSockets, or for requests."""
        methods = [route.methods for route in self.routes]
        return not methods or any(
            one is None or (("WS" in one) if websockets else bool(one - {"WS"})) for one in methods
        )

    def _check_keys(self, place: Path, keys: Sequence[tuple[KeyPart, ...]]) -> None:
        """Refuse keys that a client leaves by writing another header, or lacks where it may not."""
        spec, missing = self.rule.spec, self.rule.missing
        held = spec.trusted or any(holds(key, missing, spec.hosts) for key in keys)
        for key in keys:
            if not held and any(is_written_by_client(part, spec.hosts) for part in key):
                self.rule.refuse(
                    place,
                    f"the key {shown(key_text(key))} has a part that the client writes and may change at"
                    " will: add a limit `per ip` beside it, or `trusted: true` if a proxy sets it",
                )
            if missing == "deny" and not self._denies(key):
                self.rule.refuse(
                    place,
                    f"with `missing: deny` a request that lacks a part of {shown(key_text(key))} is refused,"
                    f" which only a `limit` can do: add one `per {key_text(key)}`, or `missing: ip`",
                )

    def _denies(self, key: tuple[KeyPart, ...]) -> bool:
        """Whether a request that lacks a part of the key never comes so far."""
        if all(part.kind in _ALWAYS_THERE for part in key) or self.rule.spec.mode == "shadow":
            return True
        return any(limit.key == key for limit in self.limits)
