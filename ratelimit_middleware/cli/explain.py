"""`ratelimits explain`: what a rule file does with a request.

The request goes the road of a real one, through the registry and the answers, with a memory store whose
clock stands still; what the store was asked is written down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple
from urllib.parse import unquote

from ratelimit_middleware._types import Scope
from ratelimit_middleware.algorithms.penalty import Penalty, Strike
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.answers import Answers
from ratelimit_middleware.client import SeenView
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Decision, Policy, Verdict
from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.headers import Field
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import AsgiView, RequestView
from ratelimit_middleware.responses import Refusal, reason
from ratelimit_middleware.rules.key_grammar import key_text
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.match import Matcher
from ratelimit_middleware.rules.model import KeyPart, Limit, Rule, RuleSet
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.verdicts import DENIED, EXEMPT, WOULD_DENY

__all__ = ["Question", "explain"]

_PROBE = Limit(Policy("probe", 1, 1, "probe"), SlidingWindow(1, 1), (KeyPart("global"),), "probe")


class Question(NamedTuple):
    """The request to explain.

    Attributes:
        method: upper case; `WS` for a handshake.
        path: as in the request line, with the query if any.
        ip: the client's address.
        headers: names and values.
        repeat: how often the request is sent, all at one moment.
        user: who is logged in; None = nobody.
    """

    method: str
    path: str
    ip: str = "127.0.0.1"
    headers: tuple[tuple[str, str], ...] = ()
    repeat: int = 1
    user: str | None = None


class _Step(NamedTuple):
    """One of the requests: the headline of its answer and the fields."""

    headline: str
    fields: list[Field]


class _WatchedStore(MemoryStore):
    """A memory store that remembers what it was last asked."""

    asked: Sequence[Check] = ()

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        """As `MemoryStore.take`."""
        if not any(isinstance(check.algorithm, Strike) for check in checks):
            self.asked = [check for check in checks if not isinstance(check.algorithm, Penalty)]
        return super().take(checks)


def explain(file: str, question: Question) -> tuple[str, int]:
    """Send the request and tell what happens.

    Returns:
        What to print and the exit code: 1 if the file holds a mistake, else 0.
    """
    try:
        ruleset = load_rules(file)
    except RuleFileError as error:
        return f"{error}\n", 1
    lines = [f"{question.method} {question.path} from {question.ip}", *_told(ruleset, question)]
    return "\n".join(lines) + "\n", 0


def _told(ruleset: RuleSet, question: Question) -> Iterator[str]:
    store = _WatchedStore(clock=ManualClock())
    registry = LimiterRegistry(ruleset, store)
    failures: list[Exception] = []
    answers = Answers(ruleset, failures.append)
    view = SeenView(AsgiView(_scope(question)), ruleset.client)
    try:
        verdicts = asyncio.run(_sent(registry, view, question.repeat))
    except Exception as error:  # noqa: BLE001 - a function of the app may raise anything
        yield f"\nthe limits cannot be checked: {type(error).__name__}: {error}"
        yield from _answers([_step(EXEMPT, answers.undecided(view, error))])
        return
    if not store.asked:
        yield _why_free(ruleset, view, verdicts[0]) if verdicts[0].allowed else _why_denied(verdicts[0])
    yield from _limits(ruleset, store.asked, verdicts[0])
    yield from _answers([_step(verdict, answers.answer(view, verdict)) for verdict in verdicts])
    if failures:
        yield f"\nthe own responder failed: {type(failures[0]).__name__}: {failures[0]}"


async def _sent(registry: LimiterRegistry, view: RequestView, repeat: int) -> list[Verdict]:
    """The verdicts on one request sent several times; functions of the app may be async."""
    return [await registry.admit_async(view) for _ in range(repeat)]


def _limits(ruleset: RuleSet, checks: Sequence[Check], verdict: Verdict) -> Iterator[str]:
    """Each limit that counts, with its bucket."""
    homes = {limit.policy.name: (rule, limit) for rule in _rules(ruleset) for limit in rule.limits}
    told = (*verdict.outcomes, *verdict.shadows)  # those that enforce come first
    enforced = iter(told)
    watched = iter(told[sum(not check.shadow for check in checks) :])
    for check in checks:
        policy = next(watched if check.shadow else enforced).policy
        watches = check.shadow or ruleset.shadow
        yield f"\n{policy.name}: {policy.text}{', shadow: never refuses' if watches else ''}"
        if policy.name in homes:
            rule, limit = homes[policy.name]
            yield f"  rule    {rule.name}"
            yield f"  key     {key_text(limit.key)}"
        yield f"  bucket  {check.key}"
        yield f"  cost    {check.cost}"


def _why_free(ruleset: RuleSet, view: RequestView, verdict: Verdict) -> str:
    """Which rule lets a request pass uncounted."""
    if verdict is WOULD_DENY:
        return "\nthe request is on the list `deny`, and the file only watches"
    if verdict is EXEMPT:
        return "\nthe request is on the list `exempt`"
    for rule in ruleset.limits:
        limited = replace(rule, unlimited=False, limits=(_PROBE,), skip_preflight=False)
        probe = replace(ruleset, limits=(limited,), always=(), default=None)
        if rule.unlimited and Matcher(probe).match(view):
            return f"\nunlimited by {rule.name}"
    return "\nno rule matches"


def _why_denied(verdict: Verdict) -> str:
    """Which limit refuses a request without counting it."""
    if verdict is DENIED:
        return "\nthe request is on the list `deny`"
    return f"\n{', '.join(verdict.violated)}: the request lacks a part of the key, and `missing: deny`"


def _answers(steps: list[_Step]) -> Iterator[str]:
    """Requests with the same answer together, with the fields of the last of them."""
    number = 1
    for headline, group in groupby(steps, key=lambda step: step.headline):
        alike = list(group)
        last = number + len(alike) - 1
        which = f"request {number}" if len(alike) == 1 else f"requests {number} to {last}"
        yield f"\n{which}: {headline}"
        yield from (f"  {name}: {value}" for name, value in alike[-1].fields)
        number = last + 1


def _step(verdict: Verdict, reply: Refusal | list[Field]) -> _Step:
    if isinstance(reply, Refusal):
        return _refused(reply)
    return _Step(f"admitted after {verdict.wait_ns / 1e9:g} s" if verdict.wait_ns else "admitted", reply)


def _refused(refusal: Refusal) -> _Step:
    return _Step(f"refused with {refusal.status} {reason(refusal.status)}", refusal.headers)


def _rules(ruleset: RuleSet) -> list[Rule]:
    return [*ruleset.limits, *ruleset.always, *([ruleset.default] if ruleset.default else [])]


def _scope(question: Question) -> Scope:
    """The request as a server would hand it over."""
    path, _, query = question.path.partition("?")
    return {
        "type": "websocket" if question.method == "WS" else "http",
        "method": "GET" if question.method == "WS" else question.method,
        "path": unquote(path),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in question.headers],
        "client": (question.ip, 0),
        "user": question.user,
    }
