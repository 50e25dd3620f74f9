"""Reporter: turns verdicts into events and hands them to the hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ratelimit_middleware.clock import Clock, SystemClock
from ratelimit_middleware.decision import Outcome, Verdict
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.events import CHECKED, Hook, Shadow, VerdictEvent, VerdictKind
from ratelimit_middleware.faults import HOOK_FAILED, FaultLog
from ratelimit_middleware.identity import REGISTERED_METHODS, client_address
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.model import Limit, RuleSet
from ratelimit_middleware.rules.plan import Counted
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.verdicts import DENIED, EXEMPT, UNDECIDED, WOULD_DENY

__all__ = ["Reporter", "note_checks"]

_QUIET_S = 60


class Reporter:
    """Tells hooks of each verdict.

    Args:
        ruleset: the rules.
        match: the limits that count for a request.
        hooks: what is told, in order.
        clock: tells the time; the system's by default.

    Raises:
        InvalidLimitError: one of the hooks is none.
    """

    __slots__ = ("_clock", "_faults", "_hooks", "_match", "_rules", "_shed", "_tiers")

    def __init__(
        self,
        ruleset: RuleSet,
        match: Callable[[RequestView], Counted],
        hooks: Sequence[Hook],
        clock: Clock | None = None,
    ) -> None:
        for hook in hooks:
            if not isinstance(hook, Hook):
                raise InvalidLimitError("hook", hook, "an object with a method `on_verdict`")
        self._hooks = tuple(hooks)
        self._match = match
        self._clock = clock or SystemClock()
        self._faults = FaultLog(HOOK_FAILED, quiet_s=_QUIET_S, clock=clock)
        self._tiers = ruleset.tiers
        self._rules = _homes(ruleset)
        limits = [limit for rule in ruleset.rules for limit in rule.limits]
        self._shed = frozenset(limit.policy.name for limit in limits if limit.sheds)

    def tell(self, view: RequestView, verdict: Verdict) -> None:
        """Tell of a verdict; never raises."""
        try:
            event = self._event(view, verdict)
        except Exception as error:  # noqa: BLE001 - a report must not disturb a request
            self._faults.report(error)
            return
        for hook in self._hooks:
            try:
                hook.on_verdict(event)
            except Exception as error:  # noqa: BLE001, PERF203 - the app's code; the others are told
                self._faults.report(error)

    def _event(self, view: RequestView, verdict: Verdict) -> VerdictEvent:
        at_ns, method = self._clock.now_ns(), _method(view)
        if verdict is UNDECIDED:
            return VerdictEvent(at_ns, "unavailable", method=method)
        checked: Mapping[str, Check] = view.memo.get(CHECKED, {})
        binding = verdict.binding
        policy = binding.policy.name if binding else ""
        rule = self._rules.get(policy, "")
        return VerdictEvent(
            at_ns,
            "shed" if not verdict.allowed and policy in self._shed else _kind(verdict),
            self._names(verdict.outcomes),
            self._names(o for o in verdict.outcomes if not o.decision.allowed),
            rule,
            policy,
            self._route(view, rule) if rule else "",
            checked[policy].key if policy in checked else client_address(view.peer),
            method,
            verdict.wait_ns,
            verdict.retry_after_ns,
            self._tiers.known(view) if self._tiers else None,
            tuple(self._shadow(outcome, checked) for outcome in verdict.shadows),
            verdict is WOULD_DENY,
        )

    def _names(self, outcomes: Iterable[Outcome]) -> tuple[str, ...]:
        """The rules of some outcomes, each once."""
        return tuple(dict.fromkeys(self._rules.get(outcome.policy.name, "") for outcome in outcomes))

    def _route(self, view: RequestView, rule: str) -> str:
        """The pattern of a rule that matched."""
        routes = (route for limit, route in self._match(view) if self._rules[limit.policy.name] == rule)
        return next(routes, "")

    def _shadow(self, outcome: Outcome, checked: Mapping[str, Check]) -> Shadow:
        policy, decision = outcome
        check = checked.get(policy.name)
        return Shadow(
            self._rules.get(policy.name, ""),
            policy.name,
            check.key if check else "",
            not decision.allowed,
            decision.wait_ns,
        )


def note_checks(view: RequestView, limits: Sequence[Limit], checks: Sequence[Check]) -> None:
    """Leave in a view what is checked, for the event about it."""
    asked = zip(limits, checks, strict=True)
    view.memo[CHECKED] = {limit.policy.name: check for limit, check in asked}


def _kind(verdict: Verdict) -> VerdictKind:
    if not verdict.allowed:
        return "denied" if verdict is DENIED else "refused"
    if verdict is EXEMPT:
        return "exempt"
    if not verdict.outcomes:
        return "uncounted"
    return "delayed" if verdict.wait_ns else "admitted"


def _method(view: RequestView) -> str:
    if view.kind == "websocket":
        return "WS"
    return view.method if view.method in REGISTERED_METHODS else "*other"


def _homes(ruleset: RuleSet) -> dict[str, str]:
    """The rule of each policy, penalties included."""
    homes = {}
    for rule in ruleset.rules:
        for limit in rule.limits:
            homes[limit.policy.name] = rule.name
            if limit.penalty:
                homes[limit.penalty.policy.name] = rule.name
    return homes
