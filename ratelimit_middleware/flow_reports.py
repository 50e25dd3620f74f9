"""FlowReporter: tells hooks of what limits do within a request; and what is told of a body."""

from __future__ import annotations

from collections.abc import Sequence

from ratelimit_middleware.clock import Clock, SystemClock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.events import FlowEvent, FlowEventKind, FlowHook
from ratelimit_middleware.faults import HOOK_FAILED, FaultLog
from ratelimit_middleware.flows import Held
from ratelimit_middleware.rules.model import RuleSet

__all__ = ["FlowReporter", "PacedBytes"]

_QUIET_S = 60


class FlowReporter:
    """Tells those hooks that want to hear of it; never raises.

    Args:
        ruleset: the rules.
        hooks: those of the middleware.
        clock: tells the time; the system's by default.
    """

    __slots__ = ("_clock", "_faults", "_hooks", "_rules")

    def __init__(self, ruleset: RuleSet, hooks: Sequence[object], clock: Clock | None = None) -> None:
        self._hooks = tuple(hook for hook in hooks if isinstance(hook, FlowHook))
        self._rules = {flow.policy.name: rule.name for rule in ruleset.rules for flow in rule.flows}
        self._clock = clock or SystemClock()
        self._faults = FaultLog(HOOK_FAILED, quiet_s=_QUIET_S, clock=clock)

    def tell(self, kind: FlowEventKind, held: Held, wait_ns: int = 0, amount: int = 1) -> None:
        """Tell what a limit has done, or would have done if it only watches."""
        if not self._hooks:
            return
        limit, check = held
        rule, policy = self._rules.get(limit.policy.name, ""), limit.policy.name
        event = FlowEvent(self._clock.now_ns(), kind, rule, policy, check.key, wait_ns, amount, check.shadow)
        for hook in self._hooks:
            try:
                hook.on_flow(event)
            except Exception as error:  # noqa: BLE001, PERF203 - the app's code; the others are told
                self._faults.report(error)


class PacedBytes:
    """What has had to wait of one body, for each of its limits.

    Args:
        held: the limits.
    """

    __slots__ = ("_amounts", "_held", "_waits_ns")

    def __init__(self, held: Sequence[Held]) -> None:
        self._held = held
        self._amounts = [0] * len(held)
        self._waits_ns = [0] * len(held)

    def add(self, size: int, decisions: Sequence[Decision]) -> int:
        """Note what the limits say of a piece: how long it waits, ns."""
        longest_ns = 0
        for number, decision in enumerate(decisions):
            if decision.wait_ns or not decision.allowed:  # a shadow limit does not wait
                self._amounts[number] += size
                self._waits_ns[number] += decision.wait_ns
            longest_ns = max(longest_ns, decision.wait_ns)
        return longest_ns

    def tell(self, reporter: FlowReporter) -> None:
        """The body has ended."""
        for one, amount, wait_ns in zip(self._held, self._amounts, self._waits_ns, strict=True):
            if amount:
                reporter.tell("paced", one, wait_ns, amount)
