"""Which limits count for a request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ratelimit_middleware.request import RequestView, Target
from ratelimit_middleware.rules.entries import Entries, Entry, Fitting, chosen
from ratelimit_middleware.rules.model import Limit, Rule, RuleSet
from ratelimit_middleware.rules.plan import Counted, Plan
from ratelimit_middleware.rules.recent import Recent
from ratelimit_middleware.rules.relations import NOTHING, Relations

__all__ = ["Counted", "Matcher"]

_CACHE_ENTRIES = 2048  # in each of two generations
_CACHE_TEXT = 512
_FITTING_ENTRIES = 512
_PREFLIGHT = "preflight"
"""In the place of a request's kind, where some rule passes preflights over."""


class Matcher:
    """A rule set, ready to be asked.

    May be used from several threads: what is remembered is the only thing that changes, and needs no lock.

    Attributes:
        default: the limits of `default`.
        plans: those of late, by `RequestView.target`.

    Raises:
        GrammarError: a route that was built by hand is a regular expression that cannot be used.
    """

    __slots__ = (
        "_always",
        "_by_fitting",
        "_by_host",
        "_defaults",
        "_entries",
        "_relations",
        "_skips_preflights",
        "default",
        "plans",
    )

    def __init__(self, ruleset: RuleSet) -> None:
        self._entries = Entries(ruleset, [(rule, rule.routes, rule.unlimited) for rule in ruleset.limits])
        self._relations = Relations(ruleset) if any(rule.relate for rule in ruleset.rules) else None
        self.default = _limits([ruleset.default] if ruleset.default else [])
        # By whether the request is a preflight.
        self._always = (
            _limits(ruleset.always),
            _limits(rule for rule in ruleset.always if not rule.skip_preflight),
        )
        skipped = bool(ruleset.default and ruleset.skips(ruleset.default))
        self._defaults = (self.default, () if skipped else self.default)
        self._by_host = any(rule.hosts for rule in ruleset.limits)
        self._skips_preflights = any(
            rule.skip_preflight or (rule.skip_preflight is None and ruleset.skip_preflight)
            for rule in ruleset.rules
        )
        self.plans: Recent[Target, Plan] = Recent(_CACHE_ENTRIES)
        # New paths come without end, but those that the same routes fit have one plan.
        self._by_fitting: Recent[tuple[object, ...], Plan] = Recent(_FITTING_ENTRIES)

    def match(self, view: RequestView) -> Counted:
        """Every limit that counts for the request, in the order `always`, `limits`, `default`.

        Rules are matched on the path as the router sees it and on the folded path: a limit found under
        either counts, once; `unlimited` only if both are. `default` counts unless the request is
        unlimited or a limit of `limits` that is not a shadow counts. Where routers may read the path or the
        host in several ways, the limits of all of them count, and `default` if one of them is not covered.
        """
        return self.plan(view).counted

    def plan(self, view: RequestView) -> Plan:
        """The same, with what is made ready of it."""
        plan = self.plans.young.get(view.target)
        return self._matched(view) if plan is None else plan

    def _matched(self, view: RequestView) -> Plan:
        """The same for a request of whose target no answer is at hand."""
        kind: str = view.kind
        method, path, key = view.method, view.path, view.target
        host = view.host if self._by_host else ""
        may_be_preflight = method == "OPTIONS" and self._skips_preflights
        if may_be_preflight and _is_preflight(view):
            kind = _PREFLIGHT
        if host.__class__ is not str:  # `Doubtful`, equal to what is not
            return Plan(self._counted(self._entries.fitting(path), kind, method, path, host))
        plans = self.plans
        if self._by_host or may_be_preflight:  # not by the target alone, so `plan` must not find it
            key = (*key, kind, host)
            plan = plans.young.get(key) or plans.renewed(key)
        else:
            plan = plans.renewed(key)
        if plan is None:
            plan = self._planned(kind, method, path, host)
            if sum(map(len, filter(None, key))) <= _CACHE_TEXT:
                plans.offer(key, plan)
        return plan

    def fallback(self, view: RequestView) -> Counted:
        """The limits of `default`, for a request that all limits of routes have been passed over for."""
        if self._relations is None:
            return self.default
        host = view.host if self._by_host else ""
        used = self._relations.used(view.kind, view.method, view.path, host, is_preflight=False)
        return _without(self.default, used.excused)

    def _planned(self, kind: str, method: str, path: str, host: str) -> Plan:
        """The plan for a path that is new."""
        fitting = self._entries.fitting(path)
        if self._relations is not None or len(method) + len(host) > _CACHE_TEXT:
            return Plan(self._counted(fitting, kind, method, path, host))
        key = (fitting, kind, method, host)
        plan = self._by_fitting.young.get(key) or self._by_fitting.renewed(key)
        if plan is None:
            plan = Plan(self._counted(fitting, kind, method, path, host))
            self._by_fitting.put(key, plan)
        return plan

    def _counted(self, fitting: Fitting, kind: str, method: str, path: str, host: str) -> Counted:
        """What holds the request, and what counts it for rules of other routes."""
        is_preflight = kind == _PREFLIGHT
        used = NOTHING
        if self._relations is not None:
            used = self._relations.used(kind, method, path, host, is_preflight=is_preflight)
        held = self._always[is_preflight] + self._routed(fitting, kind, method, host, used.excused)
        return _without(held, used.excused) + used.charges

    def _routed(
        self, fitting: Fitting, kind: str, method: str, host: str, excused: frozenset[str]
    ) -> Counted:
        is_preflight = kind == _PREFLIGHT
        found = chosen(fitting, kind, method, host)
        entries: dict[int, Entry] = {}
        is_unlimited = is_covered = True
        for as_seen, folded in found:
            both = {**folded, **as_seen}
            entries = {**both, **entries}
            if not (_has_unlimited(as_seen) and _has_unlimited(folded)):
                is_unlimited = False
                covering = _limits_of(both, is_preflight=is_preflight, only_covering=True)
                is_covered &= any(limit.rule_id not in excused for limit, _ in covering)
        if is_unlimited:
            return ()
        counted = _once(_limits_of(entries, is_preflight=is_preflight))
        return counted if is_covered else counted + self._defaults[is_preflight]


def _without(counted: Counted, excused: frozenset[str]) -> Counted:
    """The limits that a request is held by."""
    return tuple(pair for pair in counted if pair[0].rule_id not in excused) if excused else counted


def _limits_of(
    entries: dict[int, Entry], *, is_preflight: bool, only_covering: bool = False
) -> Iterator[tuple[Limit, str]]:
    """The limits of entries in the order of the file, each with its route's pattern."""
    for order in sorted(entries):
        entry = entries[order]
        if not (is_preflight and entry.skips_preflight):
            for limit in entry.rule.limits:
                if limit.covers or not only_covering:
                    yield limit, entry.route.pattern


def _limits(rules: Iterable[Rule]) -> Counted:
    """The limits of rules without routes."""
    return tuple((limit, "") for rule in rules for limit in rule.limits)


def _once(counted: Iterable[tuple[Limit, str]]) -> Counted:
    """Each bucket once: of rules that share one, the first counts."""
    first: dict[str, tuple[Limit, str]] = {}
    for limit, route in counted:
        first.setdefault(limit.rule_id, (limit, route))
    return tuple(first.values())


def _is_preflight(view: RequestView) -> bool:
    """A CORS preflight, as the Fetch standard (4.8) sends it."""
    return view.header("origin") is not None and view.header("access-control-request-method") is not None


def _has_unlimited(entries: dict[int, Entry]) -> bool:
    return any(entry.rule.unlimited for entry in entries.values())
