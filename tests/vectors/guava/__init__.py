"""The recorded calls of Guava's RateLimiter, as values."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = ["Answer", "Arguments", "Call", "Kind", "Record", "load_errors", "load_public"]

_HERE = Path(__file__).parent
_US_PER = {"s": 10**6, "us": 1, "ns": 0.001}
_ERROR_SEQUENCES: dict[int, tuple[Kind, tuple[float, ...]]] = {
    88: ("bursty", (float("inf"), 1.0)),
    89: ("warming", (float("inf"), 2.0, 3.0)),
    90: ("bursty", (2.5e6, 1.0)),
    91: ("warming", (5.0, 0.0, 3.0)),
    92: ("bursty", (1e-13, 1.0)),
    93: ("warming", (1e-13, 60.0, 3.0)),
    94: ("bursty", (0.01, 1.0)),
    95: ("bursty", (2.0, 1.0)),
}

Kind: TypeAlias = Literal["bursty", "warming"]
Arguments: TypeAlias = tuple[float, ...]
"""Rate and burst seconds, or rate, warm-up in seconds and cold factor."""


class Answer(NamedTuple):
    """What a call brought, and the state after it.

    Attributes:
        acquired: whether it was granted.
        wait_us: how long the caller waits.
        stored_permits, next_free_ticket_us, max_permits: the state.
        raised: refused as nonsense.
        get_rate: after `set_rate`, the rate told (1e6 / (1e6 / rate)); else None.
    """

    acquired: bool
    wait_us: int
    stored_permits: float
    next_free_ticket_us: int
    max_permits: float
    raised: bool = False
    get_rate: float | None = None


class Call(NamedTuple):
    """One call: `amount` is the permits, for `set_rate` the rate; `timeout_us` None = for ever."""

    at_us: int
    op: str
    amount: Any
    timeout_us: int | None
    answer: Answer | None


class Record(NamedTuple):
    """A limiter and its calls.

    Attributes:
        id: its name.
        kind: which limiter.
        arguments: what it is made of.
        accepted: whether Guava made it.
        get_rate: what `getRate` said after it was made, or None.
        initial: the state after it was made, as an answer without a wait, or None.
        calls: in order; an answer is None where none was recorded.
    """

    id: str
    kind: Kind
    arguments: Arguments
    accepted: bool
    get_rate: float | None
    initial: Answer | None
    calls: tuple[Call, ...]


def load_public(kind: Kind) -> list[Record]:
    """The scenarios of one limiter, in the order of the file."""
    with (_HERE / "guava_public.jsonl").open(encoding="utf-8") as lines:
        records = [_scenario(json.loads(line)) for line in lines]
    return [record for record in records if record.kind == kind]


def load_errors(kind: Kind) -> list[Record]:
    """The records of `errors.json` about one limiter, in the order of the file."""
    data = json.loads((_HERE / "errors.json").read_text(encoding="utf-8"))
    readers = {"create": _creation, "call": _single_call, "sequence": _sequence}
    records = [readers[entry["group"]](place, entry) for place, entry in enumerate(data)]
    return [record for record in records if record.kind == kind]


def _scenario(data: dict[str, Any]) -> Record:
    bursty = data["limiter"] == "smooth_bursty"
    names = ("max_burst_seconds",) if bursty else ("warmup_period_s", "cold_factor")
    arguments = (data["permits_per_second"], *(data[name] for name in names))
    initial = _answer({}, data["initial_state"])
    kind: Kind = "bursty" if bursty else "warming"
    return _made(data["id"], kind, arguments, initial, _calls(data["ops"]))


def _made(
    name: str, kind: Kind, arguments: Arguments, initial: Answer | None, calls: tuple[Call, ...]
) -> Record:
    return Record(name, kind, arguments, accepted=True, get_rate=None, initial=initial, calls=calls)


def _creation(place: int, data: dict[str, Any]) -> Record:
    kind, arguments = _limiter(data["call"])
    initial = _answer({}, data["initial_state"]) if "initial_state" in data else None
    calls = _calls(data.get("probe", []))
    accepted = data["outcome"] == "accepted"
    rate = _double(data["get_rate"]) if accepted else None
    return Record(f"create-{place:02d}", kind, arguments, accepted, rate, initial, calls)


def _single_call(place: int, data: dict[str, Any]) -> Record:
    """`acquire(3)` at 1 s, whose answer was not recorded, then the call at 1.2 s."""
    kind, arguments = _limiter(data["limiter"])
    name, amount, timeout = re.fullmatch(r"(\w+)\((\S+?)(?:, (.+))?\)", data["call"]).groups()  # type: ignore[union-attr]
    op = {"acquire": "acquire", "tryAcquire": "try_acquire", "setRate": "set_rate"}[name]
    timeout_us = None if op == "acquire" else int(_seconds(timeout or "0 s") * 1e6)
    result = {"acquired": data.get("result") is not False, "wait_us": data.get("slept_us", 0)}
    answer = _answer(result, data["state_after"])
    if data["outcome"] == "exception":
        answer = answer._replace(raised=True)
    elif op == "set_rate":
        answer = answer._replace(get_rate=_double(data["get_rate"]))
    last = Call(1_200_000, op, float(amount) if op == "set_rate" else int(amount), timeout_us, answer)
    first = Call(1_000_000, "acquire", 3, None, None)
    return _made(f"call-{place:02d}", kind, arguments, None, (first, last))


def _sequence(place: int, data: dict[str, Any]) -> Record:
    kind, arguments = _ERROR_SEQUENCES[place]
    initial = _answer({}, data["initial_state"])
    return _made(f"sequence-{place}", kind, arguments, initial, _calls(data["ops"]))


def _calls(ops: list[dict[str, Any]]) -> tuple[Call, ...]:
    """The calls with their answers, which stand under `expect` or beside the arguments."""
    return tuple(
        Call(
            op["at_us"],
            op["op"],
            op["rate"] if op["op"] == "set_rate" else op["permits"],
            op.get("timeout_us"),
            _answer(op.get("expect", op), op["state_after"]),
        )
        for op in ops
    )


def _answer(result: dict[str, Any], state: dict[str, Any]) -> Answer:
    stored, largest = _double(state["stored_permits"]), _double(state["max_permits"])
    acquired, wait_us, rate = (
        result.get("acquired", True),
        result.get("wait_us", 0),
        result.get("get_rate", result.get("rate")),
    )
    return Answer(acquired, wait_us, stored, state["next_free_ticket_us"], largest, get_rate=rate)


def _limiter(text: str) -> tuple[Kind, Arguments]:
    """Reads `create(5, 2 s)`, `bursty(rate=5, max_burst_seconds=0)`, `warming(rate=5, warmup=2 s, …)`."""
    name, inner = re.fullmatch(r"(\w+)\((.+)\)", text).groups()  # type: ignore[union-attr]
    rate, *others = (part.split("=")[-1] for part in inner.split(", "))
    if name == "bursty" or not others:
        return "bursty", (float(rate), float(others[0]) if others else 1.0)
    return "warming", (float(rate), _seconds(others[0]), float(others[1]) if len(others) > 1 else 3.0)


def _seconds(text: str) -> float:
    """A duration as the records write it."""
    spelled = {"Duration.ZERO": "0 s", "Duration.ofSeconds(-1)": "-1 s"}.get(text, text)
    amount, unit = spelled.split()
    limits = {"Long.MIN_VALUE": -(2**63), "Long.MAX_VALUE": 2**63 - 1}
    return float(limits.get(amount) or float(amount)) * _US_PER[unit] / 1e6


def _double(value: float | str) -> float:
    return float(value)
