"""What the rule file says about overload: `adaptive: {max_in_flight: bbr, loop_lag: 100ms, cpu: 0.9}`.

Raises:
    GrammarError: from every function here, when a value is not what its key takes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, Protocol

from pydantic import model_validator

from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.decision import Policy
from ratelimit_middleware.identity import KeyPart
from ratelimit_middleware.overload.adaptive import Adaptive
from ratelimit_middleware.rules.answer import Answer
from ratelimit_middleware.rules.grammar import parse_number
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.limit_fields import read_count
from ratelimit_middleware.rules.request_list import RequestList
from ratelimit_middleware.rules.span import read_span
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.values import CPU, IN_FLIGHT, LOAD, WAIT, plain
from ratelimit_middleware.rules.words import GrammarError, shown

__all__ = ["AdaptiveSpec", "adaptive_limit", "check_adaptive", "shed_answer"]

_STATUS = 503
_DETAIL = "The server has too much to do; try again in a moment."
_BESIDE = frozenset(
    {
        *("adaptive", "name", "routes", "methods", "hosts", "case_sensitive", "preflight", "exempt"),
        *("mode", "since", "status", "response"),
    }
)


def _read_in_flight(value: Any) -> int | str:
    if isinstance(value, str) and value.strip().lower() == "bbr":
        return "bbr"
    is_number = isinstance(value, int) or (isinstance(value, str) and value.strip()[:1].isdecimal())
    if isinstance(value, bool) or not is_number:
        raise GrammarError(f"{shown(value)} is no number of requests in progress: write `bbr`, or `200`")
    return (
        parse_number(value, "max_in_flight") if isinstance(value, str) else read_count("max_in_flight")(value)
    )


def _read_lag(value: Any) -> int:
    return read_span(value, "lag of an event loop", "100ms", 60 * NS_PER_SECOND)


def _read_cpu(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise GrammarError(f"{shown(value)} is no share of the processors: write a number such as `0.9`")
    return float(value)


def _read_load(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1000:
        raise GrammarError(
            f"{shown(value)} is no load for each processor: write a number such as `2.5`, at most 1000"
        )
    return float(value)


class AdaptiveSpec(Spec):
    """`{max_in_flight: bbr, loop_lag: 100ms, cpu: 0.9, load: 2.5}`."""

    max_in_flight: Annotated[int | Literal["bbr"], plain(_read_in_flight, IN_FLIGHT)] | None = None
    loop_lag: Annotated[int, plain(_read_lag, WAIT)] | None = None
    cpu: Annotated[float, plain(_read_cpu, CPU)] | None = None
    load: Annotated[float, plain(_read_load, LOAD)] | None = None

    @model_validator(mode="after")
    def _can_tell(self) -> AdaptiveSpec:
        """Refuse what limits nothing, or would always."""
        if not self.model_fields_set:
            raise GrammarError("nothing is measured: write `adaptive: {max_in_flight: bbr, loop_lag: 100ms}`")
        if self.max_in_flight == "bbr" and len(self.model_fields_set) == 1:
            raise GrammarError(
                "`bbr` holds only while the server is loaded, for what little traffic needs is no measure of"
                " what it can do: add what load is, `loop_lag: 100ms`, `cpu: 0.9` or `load: 2.5`",
                "max_in_flight",
            )
        return self

    @property
    def settings(self) -> Adaptive:
        """The numbers."""
        most = self.max_in_flight
        bbr = most == "bbr"
        return Adaptive(None if isinstance(most, str) else most, bbr, self.loop_lag, self.cpu, self.load)


class _Adapting(Protocol):
    """A rule of the file that may have `adaptive`."""

    @property
    def adaptive(self) -> AdaptiveSpec | None:
        """What it says."""

    @property
    def model_fields_set(self) -> set[str]:
        """The keys that stand in the file."""


def check_adaptive(spec: _Adapting) -> None:
    """A rule with `adaptive` limits nothing else.

    Raises:
        GrammarError: it has a key of another limit.
    """
    for key in sorted(spec.model_fields_set - _BESIDE) if spec.adaptive else ():
        raise GrammarError(
            f"`{key}` does not go with `adaptive`, which is about the server and not about clients: write a"
            " rule of its own",
            key,
        )


def shed_answer(common: Answer) -> Answer:
    """What a client hears that is turned away for the server's sake, if the rule does not say."""
    return replace(common, status=_STATUS, detail=_DETAIL, responder=None)


def adaptive_limit(
    spec: AdaptiveSpec, rule_id: str, name: str, exempt: RequestList | None, *, shadow: bool
) -> Limit:
    """The limit of a rule with `adaptive`. WebSockets are not counted: they are there for hours, idle.

    Args:
        spec: what the file says.
        rule_id: id of the limit.
        name: on the wire.
        exempt: requests that the rule does not count.
        shadow: whether it only watches.
    """
    algorithm, exempt = spec.settings, exempt or RequestList()
    return Limit(
        Policy(name, algorithm.quota, 0, "what the server can do"),
        algorithm,
        (KeyPart("global"),),
        rule_id,
        shadow,
        exempt=replace(exempt, methods=exempt.methods | {"WS"}),
    )
