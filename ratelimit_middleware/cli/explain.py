"""`ratelimits explain`: what a rule file does with a request.

The request goes the road of a real one, through the registry and the answers, with a memory store whose
clock stands still; what the store was asked is written down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple
from urllib.parse import unquote

from ratelimit_middleware._types import Scope
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.answers import Answers
from ratelimit_middleware.cli.explain_flows import flow_lines
from ratelimit_middleware.cli.explain_limits import limit_lines
from ratelimit_middleware.client import Client, SeenView
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Policy, Verdict
from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.flows import has_flows
from ratelimit_middleware.headers import Field
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import AsgiView, RequestView
from ratelimit_middleware.responses import Refusal, reason
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.match import Matcher
from ratelimit_middleware.rules.model import KeyPart, Limit, RuleSet
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
        user: who sends it, wherever the file looks for users; None = whom the request itself names.
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


class _Posed(SeenView):
    """A request of a user who is named, wherever the file looks for users."""

    __slots__ = ("_posed_as",)

    def __init__(self, view: RequestView, client: Client, posed_as: str | None) -> None:
        super().__init__(view, client)
        self._posed_as = posed_as

    @property
    def user(self) -> str | None:
        """Who is named; else as the file says."""
        return super().user if self._posed_as is None else self._posed_as


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
    registry = LimiterRegistry(ruleset, MemoryStore(clock=ManualClock()))
    registry.note_checks()
    failures: list[Exception] = []
    answers = Answers(ruleset, failures.append)
    view = _Posed(AsgiView(_scope(question)), ruleset.client, question.user)
    try:
        verdicts = asyncio.run(_sent(registry, view, question.repeat))
    except Exception as error:  # noqa: BLE001 - a function of the app may raise anything
        yield f"\nthe limits cannot be checked: {type(error).__name__}: {error}"
        yield from _answers([_step(EXEMPT, answers.undecided(view, error))])
        return
    reason = _listed(verdicts[0])
    limits = [] if reason else list(limit_lines(ruleset, view, registry.counted(view)))
    yield from limits or [reason or _why_free(ruleset, view)]
    if has_flows(ruleset):
        yield from flow_lines(ruleset, view)
    blocks = {limit.penalty.policy.name for rule in ruleset.rules for limit in rule.limits if limit.penalty}
    yield from _answers([_step(verdict, answers.answer(view, verdict), blocks) for verdict in verdicts])
    if failures:
        yield f"\nthe own responder failed: {type(failures[0]).__name__}: {failures[0]}"


async def _sent(registry: LimiterRegistry, view: RequestView, repeat: int) -> list[Verdict]:
    """The verdicts on one request sent several times; functions of the app may be async."""
    return [await registry.admit_async(view) for _ in range(repeat)]


def _why_free(ruleset: RuleSet, view: RequestView) -> str:
    """Which rule lets a request pass uncounted."""
    for rule in ruleset.limits:
        if not rule.unlimited:
            continue
        limited = replace(rule, unlimited=False, limits=(_PROBE,), skip_preflight=False)
        probe = replace(ruleset, limits=(limited,), always=(), default=None)
        if Matcher(probe).match(view):
            return f"\nunlimited by {rule.name}"
    return "\nno rule matches"


def _listed(verdict: Verdict) -> str:
    """Why no limit is looked at; empty if they are."""
    if verdict is WOULD_DENY:
        return "\nthe request is on the list `deny`, and the file only watches"
    if verdict is EXEMPT or verdict is DENIED:
        return f"\nthe request is on the list `{'exempt' if verdict is EXEMPT else 'deny'}`"
    if not verdict.allowed and not verdict.asked:
        return f"\n{', '.join(verdict.violated)}: the request lacks a part of the key, and `missing: deny`"
    return ""


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


def _step(verdict: Verdict, reply: Refusal | list[Field], blocks: AbstractSet[str] = frozenset()) -> _Step:
    if isinstance(reply, Refusal):
        blocked = ", blocked by the penalty" if not blocks.isdisjoint(verdict.violated) else ""
        return _Step(f"refused with {reply.status} {reason(reply.status)}{blocked}", [*reply.headers])
    return _Step(f"admitted after {verdict.wait_ns / 1e9:g} s" if verdict.wait_ns else "admitted", reply)


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
    }
