"""How each rule refuses: in its own words, written once for all clients that are told the same."""

from __future__ import annotations

from collections.abc import Iterator

from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.field_numbers import numbers_of
from ratelimit_middleware.problems import prefers_text
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.responses import Refusal, over_limit
from ratelimit_middleware.rules.model import Answer, RuleSet
from ratelimit_middleware.rules.recent import Recent

__all__ = ["Refusals"]

_MOST_WRITTEN = 512  # in each of two generations; some 2 KB each


class Refusals:
    """Refuses requests that are over a limit.

    An attack asks for little else, and hears the same for a second: what has been written is remembered by
    all that it was written from.

    Args:
        ruleset: the rules with their settings.
    """

    __slots__ = ("_by_policy", "_common", "_numbers", "_shed", "_styles", "_written")

    def __init__(self, ruleset: RuleSet) -> None:
        self._common = ruleset.answer
        self._by_policy = dict(_own_answers(ruleset))
        self._styles = ruleset.headers
        self._numbers = numbers_of(ruleset.headers)
        limits = [limit for rule in ruleset.rules for limit in rule.limits]
        self._shed = frozenset(limit.policy.name for limit in limits if limit.sheds)
        self._written: Recent[tuple[object, ...], Refusal] = Recent(_MOST_WRITTEN)

    @property
    def have_responders(self) -> bool:
        """Whether the app itself answers for some rule."""
        return any(answer.responder for answer in (self._common, *self._by_policy.values()))

    def answer(self, verdict: Verdict) -> Answer:
        """The words of the rule that binds."""
        binding = verdict.binding
        return self._by_policy.get(binding.policy.name, self._common) if binding else self._common

    def refusal(self, view: RequestView, verdict: Verdict) -> Refusal:
        """What the client hears, a responder of the app aside."""
        key = (*self._told(verdict), prefers_text(view.header("accept")), view.is_head)
        written = self._written
        return written.young.get(key) or written.renewed(key) or self._write(key, view, verdict)

    def _told(self, verdict: Verdict) -> tuple[object, ...]:
        """All that a refusal is written from, the request aside; the wait is that of the limit that binds."""
        policies, is_final = verdict.policies, verdict.retry_after_ns is None
        if len(policies) == 1:  # the common case
            return policies[0], self._numbers(verdict.decisions[0]), is_final
        binding = verdict.binding
        numbers = binding and (binding.policy.name, self._numbers(binding.decision))
        return tuple(policies), verdict.violated, numbers, is_final

    def _write(self, key: tuple[object, ...], view: RequestView, verdict: Verdict) -> Refusal:
        binding, answer = verdict.binding, self.answer(verdict)
        is_shed = binding is not None and binding.policy.name in self._shed  # it is no quota of the client's
        styles = () if is_shed else self._styles
        refusal = over_limit(
            view, verdict, styles, status=answer.status, detail=answer.detail, problem=answer.problem
        )
        self._written.put(key, refusal)
        return refusal


def _own_answers(ruleset: RuleSet) -> Iterator[tuple[str, Answer]]:
    """The policies whose rule has an answer of its own."""
    rules = [*ruleset.limits, *ruleset.always, *([ruleset.default] if ruleset.default else [])]
    for rule in rules:
        if rule.answer:
            yield from ((limit.policy.name, rule.answer) for limit in rule.limits)
            penalties = (limit.penalty for limit in rule.limits if limit.penalty)
            yield from ((penalty.policy.name, rule.answer) for penalty in penalties)
