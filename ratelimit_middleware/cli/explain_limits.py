"""The limits that count for a request, each with its bucket and all that hangs on it, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from ratelimit_middleware.algorithms.penalty import Penalty
from ratelimit_middleware.algorithms.related import RelatedCharge
from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.events import CHECKED
from ratelimit_middleware.identity import value_or_failure
from ratelimit_middleware.overload.adaptive import Adaptive
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.charges import ChargedIf, ChargedOn, UnmatchedFree
from ratelimit_middleware.rules.choices import AskedLimit, Overrides, Released
from ratelimit_middleware.rules.key_grammar import key_text
from ratelimit_middleware.rules.model import Limit, Rule, RuleSet
from ratelimit_middleware.rules.plan import Counted
from ratelimit_middleware.rules.settle import Settle
from ratelimit_middleware.rules.tiers import Tiers
from ratelimit_middleware.stores.base import Check

__all__ = ["limit_lines"]

_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def limit_lines(ruleset: RuleSet, view: RequestView, counted: Counted) -> Iterator[str]:
    """Each limit that was checked, and then those that match and do not count.

    Args:
        ruleset: the rules.
        view: the request, when it has been decided.
        counted: the limits that match, with the route.
    """
    homes = {limit.policy.name: (rule, limit) for rule in ruleset.rules for limit in rule.limits}
    routes = {limit.policy.name: route for limit, route in counted}
    asked = _checks(view)
    for name, check in asked.items():
        rule, limit = homes[name]
        if isinstance(check.algorithm, RelatedCharge):
            yield f"\ncounted for {rule.name} (`relate`), never refused by it"
            yield f"  bucket  {check.key}"
            continue
        yield from _checked(rule, limit, check, view, routes.get(name, ""), all_watch=ruleset.shadow)
    for name, route in routes.items():
        if name not in asked:
            yield from _passed_over(*homes[name], view, route)


def _checks(view: RequestView) -> Mapping[str, Check]:
    """What was asked about a request, by the name of the limit; penalties are told with their limits."""
    noted: Mapping[str, Check] = view.memo.get(CHECKED, {})
    return {name: check for name, check in noted.items() if not isinstance(check.algorithm, Penalty)}


def _checked(
    rule: Rule, limit: Limit, check: Check, view: RequestView, route: str, *, all_watch: bool
) -> Iterator[str]:
    chosen = (limit.choose(limit, view, route) if limit.choose else None) or limit
    watches = check.shadow or all_watch
    yield f"\n{limit.policy.name}: {chosen.policy.text}{', shadow: never refuses' if watches else ''}"
    yield f"  rule    {rule.name}"
    if isinstance(limit.algorithm, Adaptive):
        yield f"  sheds   {_shedding(limit.algorithm)}"
        return
    yield f"  key     {key_text(limit.key)}"
    if rule.relate:
        patterns = ", ".join(other.pattern for other in rule.relate)
        yield f"  relate  {patterns}: their requests count, its own do not"
    yield f"  bucket  {check.key}"
    yield f"  cost    {check.cost}"
    if limit.choose:
        yield f"  numbers {_whose(limit, view, route)}"
    if limit.share:
        said = "only watched" if check.shadow else "one of them"
        yield f"  enforce for {limit.share.hundredths / 100:g}% of the clients: this one is {said}"
    if check.max_wait_ns:
        yield f"  waits   at most {check.max_wait_ns / NS_PER_SECOND:g} s"
    if limit.settle:
        yield f"  charge  {_settled(limit.settle)}"
    if limit.penalty and not check.shadow and isinstance(limit.penalty.algorithm, Penalty):
        yield f"  penalty {_blocks(limit.penalty.algorithm)}"


def _shedding(adaptive: Adaptive) -> str:
    """When a rule turns requests away; what it measures is in the running process only."""
    limits = {
        "event loop more than {:g} ms late": adaptive.loop_lag_ns and adaptive.loop_lag_ns / 1e6,
        "cpu above {:g}": adaptive.cpu,
        "load above {:g} for each processor": adaptive.load,
    }
    loaded = " or ".join(text.format(value) for text, value in limits.items() if value is not None)
    most = [f"more than {adaptive.max_in_flight} in progress"] if adaptive.max_in_flight else []
    bbr = "more in progress than are served without a queue, while " if adaptive.bbr else ""
    return "; ".join([*most, *([bbr + loaded] if loaded else [])])


def _passed_over(rule: Rule, limit: Limit, view: RequestView, route: str) -> Iterator[str]:
    """A limit that matches and does not count for this request."""
    if limit.exempt and limit.exempt(view):
        why = "the request is on the list `exempt` of the rule"
    elif limit.chain and not limit.chain(view):
        why = "the request is not reached from an entrance of `chain`"
    elif limit.build_key(view, route) is None:
        why = "the request lacks a part of the key, and `missing: skip`"
    else:
        why = f"unlimited {_whose(limit, view, route)}"
    yield f"\n{limit.policy.name}: {limit.policy.text}, does not count"
    yield f"  rule    {rule.name}"
    yield f"  key     {key_text(limit.key)}"
    yield f"  because {why}"


def _whose(limit: Limit, view: RequestView, route: str) -> str:
    """Who has these numbers."""
    choose = limit.choose
    if isinstance(choose, AskedLimit):
        return f"told by {choose.asked.name}"
    overrides = choose.overrides if isinstance(choose, Tiers) else choose
    if isinstance(overrides, Overrides):
        value, _ = value_or_failure(overrides.part, view, route)
        named = overrides.named(value) if value is not None else None
        if named is not None:
            return f"for the override `{named}`"
    if not isinstance(choose, Tiers):
        return "of the rule, no override fits"
    tier = choose.plan.source(view)
    if tier is None:
        return "for requests of no tier"
    if tier in choose.limits:
        return f"for the tier `{tier}`"
    return f"for requests of no tier, the file names no `{tier}`"


def _settled(settle: Settle) -> str:
    """What becomes of the permits that were taken."""
    if isinstance(settle, Released):
        return "given back at the end of the response"
    if isinstance(settle, ChargedOn):
        return f"given back unless the status is {_ranges(settle.statuses)}"
    if isinstance(settle, ChargedIf):
        return f"given back unless {settle.name} says that it counts"
    if isinstance(settle, UnmatchedFree):
        otherwise = f"; else {_settled(settle.otherwise)}" if settle.otherwise else ""
        return f"given back if no route of the app fits{otherwise}"
    return f"settled to {settle.name} of the response"


def _ranges(statuses: frozenset[int]) -> str:
    """Statuses with ranges in the place of runs: `401, 403, 500-599`."""
    runs = [
        [status for _, status in run]
        for _, run in groupby(enumerate(sorted(statuses)), key=lambda pair: pair[1] - pair[0])
    ]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _blocks(penalty: Penalty) -> str:
    spans = ", ".join(_span(block_ns // NS_PER_SECOND) for block_ns in penalty.blocks_ns)
    return f"after {penalty.after} refusals in a row: blocked for {spans}"


def _span(seconds: int) -> str:
    """A span of time as the rule file has it."""
    size, unit = next(pair for pair in _UNITS if not seconds % pair[0])
    return f"{seconds // size}{unit}"
