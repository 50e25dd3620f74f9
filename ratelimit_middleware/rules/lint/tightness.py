"""RL101 and RL102: limits that another one makes idle.

A warning is only given where it can be proven: the other limit counts whenever this one does, in a bucket
that holds all that this one's holds, at no lower cost; and it never lets through what this one refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ratelimit_middleware.identity import KeyPart
from ratelimit_middleware.rules.lint.bounds import admits_all_of, is_plain_window
from ratelimit_middleware.rules.lint.cover import Cover
from ratelimit_middleware.rules.lint.warning import LintWarning, about, spoken
from ratelimit_middleware.rules.model import Limit, Rule, RuleSet

__all__ = ["idle_limits", "is_idle", "is_twin"]

_ALWAYS_THERE = frozenset({"ip", "global", "route", "path", "method", "host"})


def idle_limits(ruleset: RuleSet) -> Iterator[LintWarning]:
    """RL101: a limit no tighter than another one; RL102: the same limit a second time."""
    pairs = _Pairs(ruleset)
    for rule in ruleset.rules:
        for limit in rule.limits:
            yield from pairs.about(rule, limit)


class _Pairs:
    """Finds for a limit another one that makes it idle."""

    def __init__(self, ruleset: RuleSet) -> None:
        self._ruleset = ruleset
        counting = [rule for rule in ruleset.limits if not rule.unlimited]
        self._cover = Cover(counting, case_sensitive=ruleset.case_sensitive)
        limits = [limit for rule in ruleset.rules for limit in rule.limits]
        self._order = {limit.rule_id: order for order, limit in enumerate(limits)}
        # A bucket that several rules draw from holds more than the requests of one of them.
        self._shared = {name for name, count in Counter(x.rule_id for x in limits).items() if count > 1}
        self._wider: dict[str, list[Rule]] = {}

    def about(self, rule: Rule, limit: Limit) -> Iterator[LintWarning]:
        """The warning about a limit, if there is one."""
        for other_rule in self._wider_rules(rule):
            same_requests = rule in self._wider_rules(other_rule)
            for other in other_rule.limits:
                if limit is other or not self._can_tell((rule, limit), (other_rule, other)):
                    continue
                code = _code(limit, other, same_requests)
                mutual = same_requests and _code(other, limit, same_requests)
                if code and not (mutual and self._order[limit.rule_id] < self._order[other.rule_id]):
                    yield self._warning(code, (rule, limit), (other_rule, other))
                    return

    def _can_tell(self, one: tuple[Rule, Limit], other: tuple[Rule, Limit]) -> bool:
        """Whether the two buckets can be compared: `route` has other values in each rule."""
        (rule, limit), (other_rule, other_limit) = one, other
        by_route = other_rule is not rule and any(part.kind == "route" for part in other_limit.key)
        if rule.relate or other_rule.relate:
            return False  # who uses them up is another request
        several = max(len(rule.routes), len(other_rule.routes)) > 1
        return not self._shared & {limit.rule_id, other_limit.rule_id} and not (by_route and several)

    def _wider_rules(self, rule: Rule) -> Sequence[Rule]:
        """The rules that count for every request for which `rule` does, itself included."""
        found = self._wider.get(rule.name)
        if found is None:
            own = self._cover.wider(rule) if rule.routes else [rule]
            always = [other for other in self._ruleset.always if other is not rule]
            wider = own if self._keeps_default_off(rule) else [*own, *always]
            found = self._wider[rule.name] = [
                other for other in wider if self._ruleset.skips(rule) or not self._ruleset.skips(other)
            ]
        return found

    def _keeps_default_off(self, rule: Rule) -> bool:
        """Whether a rule does more than refuse: without it `default` would count, or be missing."""
        if rule is self._ruleset.default:
            return any(other.hosts for other in self._ruleset.limits)
        return bool(rule.routes and self._ruleset.default)

    def _warning(self, code: str, one: tuple[Rule, Limit], other: tuple[Rule, Limit]) -> LintWarning:
        (rule, limit), (other_rule, other_limit) = one, other
        where = "beside it" if other_rule is rule else f"of the rule `{other_rule.name}`"
        if code == "RL102":
            message = (
                f"{spoken(limit)} is the same limit as {spoken(other_limit)} {where}, which counts for all of"
                " these requests too: leave this one out"
            )
        else:
            message = (
                f"{spoken(limit)} never refuses what {spoken(other_limit)} {where} admits, and that counts"
                " for all of these requests too: leave it out, or make it tighter"
            )
        return about(self._ruleset, rule, code, message)


def _code(limit: Limit, other: Limit, same_requests: bool) -> str:
    if is_twin(limit, other, same_requests=same_requests):
        return "RL102"
    return "RL101" if is_idle(limit, other, same_requests=same_requests) else ""


def is_twin(limit: Limit, other: Limit, *, same_requests: bool) -> bool:
    """Whether `limit` has the numbers of `other`, which counts for all requests of `limit`.

    Args:
        limit: the one that may be left out.
        other: the one that stays.
        same_requests: `limit` counts for all requests of `other` as well.
    """
    if limit.algorithm != other.algorithm or not _always_beside(limit, other):
        return False
    return is_plain_window(limit.algorithm) or (same_requests and _same_bucket(limit, other))


def is_idle(limit: Limit, other: Limit, *, same_requests: bool) -> bool:
    """Whether `limit` never refuses what `other` admits; the arguments are those of `is_twin`."""
    if not _always_beside(limit, other):
        return False
    same_history = same_requests and _same_bucket(limit, other)
    return admits_all_of(limit.algorithm, other.algorithm, same_history=same_history)


def _always_beside(limit: Limit, other: Limit) -> bool:
    """Whether `other` holds each request that `limit` counts, at no lower cost, in a bucket as wide.

    Numbers that depend on the request are not looked into, and a watched limit holds nothing: it also
    counts what others refuse. A limit that delays turns refusals of others into waits, so it is never
    idle; one that gives permits back holds other numbers than it says; and when the store is away both must
    be treated alike.
    """
    if limit.shadow or other.shadow or limit.choose or other.choose:
        return False
    if other.share:
        return False
    if other.chain and other.chain != limit.chain:
        return False
    if other.exempt and other.exempt != limit.exempt:
        return False
    if limit.max_wait_ns or limit.settle != other.settle or limit.on_error != other.on_error:
        return False
    return _costs_no_more(limit, other) and _is_checked_too(limit, other) and _is_coarser(other, limit)


def _costs_no_more(limit: Limit, other: Limit) -> bool:
    if limit.cost_of or other.cost_of:
        plain = limit.cost_of is None and limit.cost == 1  # every cost is at least 1
        return plain or limit.cost_of == other.cost_of
    return limit.cost <= other.cost


def _is_checked_too(limit: Limit, other: Limit) -> bool:
    """Whether `other` is never skipped where `limit` is not, and refuses where a part is missing."""
    same = _parts(limit) == _parts(other) and limit.missing == other.missing
    return same or (
        (other.missing != "skip" or _is_always_there(other))
        and (limit.missing != "deny" or _is_always_there(limit))
    )


def _is_always_there(limit: Limit) -> bool:
    return all(part.kind in _ALWAYS_THERE for part in limit.key)


def _is_coarser(wide: Limit, narrow: Limit) -> bool:
    """Whether all that one bucket of `narrow` counts falls into one bucket of `wide`."""
    return _parts(wide) <= _parts(narrow)


def _parts(limit: Limit) -> frozenset[KeyPart]:
    """The parts that split; `global` does not."""
    return frozenset(part for part in limit.key if part.kind != "global")


def _same_bucket(limit: Limit, other: Limit) -> bool:
    return (
        _parts(limit) == _parts(other)
        and limit.missing == other.missing
        and (limit.cost, limit.cost_of) == (other.cost, other.cost_of)
    )
