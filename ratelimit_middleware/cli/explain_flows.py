"""What `ratelimits explain` says of limits on what flows within a request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from ratelimit_middleware.faults import FaultLogs
from ratelimit_middleware.flows import Flows
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.key_grammar import key_text
from ratelimit_middleware.rules.model import RuleSet

__all__ = ["flow_lines"]


def flow_lines(ruleset: RuleSet, view: RequestView) -> Iterator[str]:
    """Each of them that holds for a request, with its bucket."""
    flows = Flows(ruleset, lambda _: None, FaultLogs())
    asyncio.run(flows.ask(view))
    homes = {flow.policy.name: rule for rule in ruleset.rules for flow in rule.flows}
    for limit, check in flows.of(view):
        policy = limit.policy
        yield f"\n{policy.name}: {policy.text}, {limit.told}{', shadow: never acts' if check.shadow else ''}"
        yield f"  rule    {homes[policy.name].name}"
        yield f"  key     {'each connection' if limit.per_connection else key_text(limit.key)}"
        yield f"  bucket  {'in this process' if limit.per_connection else check.key}"
