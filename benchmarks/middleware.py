"""What a middleware adds to a request, in-process: time, and instructions where valgrind is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import apps
import calls
from floor import FloorAsgi
from instructions import count
from report import Goal, Section, without
from steps import STEPS
from timing import interleaved

from ratelimit_middleware.asgi import RateLimitMiddleware

_NOTE = (
    "Time is the median added to the same app without a limiter; instructions are counted by callgrind, the"
    " same on every run in the same environment. One rule, draft-11 fields: `plain` is `100000000/minute`,"
    " `burst` `100/minute burst 1000000`: nobody is refused (the instructions of ours on bare apps are"
    " those of `100/minute`). What the peers' rows add to FastAPI and Flask is to be compared with ours in"
    " those rows. slowapi's middleware and flask-limiter send fields, too; slowapi's decorator and"
    " fastapi-limiter send none, and fastapi-limiter counts all clients in one bucket."
)
_ASGI_FIGURES = {
    "floor": "asgi-floor",
    "ours, plain": "asgi-plain",
    "ours, burst": "asgi-burst",
    "FastAPI, ours, plain": "fastapi-plain",
    "FastAPI, ours, burst": "fastapi-burst",
    "FastAPI, slowapi": "fastapi-slowapi",
    "FastAPI, slowapi decorator": "fastapi-slowapi-decorator",
    "FastAPI, fastapi-limiter": "fastapi-fastapi-limiter",
}
_DECISIONS = {
    "GCRA": ("decision-gcra", 4),
    "sliding window with 1 entry": ("decision-window-1", 5),
    "sliding window with 64 entries": ("decision-window-64", 8),
}
"""By what they are: the figure, and how many floors it may cost."""
_WSGI_FIGURES = {
    "floor": "wsgi-floor",
    "ours, plain": "wsgi-plain",
    "ours, burst": "wsgi-burst",
    "Flask, ours, plain": "flask-plain",
    "Flask, ours, burst": "flask-burst",
    "Flask, flask-limiter": "flask-limiter",
}


def asgi() -> Section:
    """ASGI; what stands on FastAPI runs on a loop, which slowapi needs."""
    drivers = {name: calls.asgi_on_loop if "FastAPI" in name else calls.asgi_by_hand for name in apps.ASGI}
    added = _added(apps.ASGI, drivers, "FastAPI")
    counted = _counted(_ASGI_FIGURES)
    goals = []
    for form in ("plain", "burst"):
        goals += _over_floor("ASGI", form, counted, 2.5)
        ratio = added[f"FastAPI, ours, {form}"] / added["FastAPI, slowapi"]
        goals.append(Goal(f"ASGI on FastAPI, time added, {form} / slowapi", ratio, 0.1))
    return _section("asgi", "ASGI: added to a request", added, counted, tuple(goals))


def wsgi() -> Section:
    """WSGI."""
    added = _added(apps.WSGI, dict.fromkeys(apps.WSGI, calls.wsgi), "Flask")
    counted = _counted(_WSGI_FIGURES)
    goals = []
    for form in ("plain", "burst"):
        ratio = added[f"Flask, ours, {form}"] / added["Flask, flask-limiter"]
        goals.append(Goal(f"WSGI on Flask, time added, {form} / flask-limiter", ratio, 0.05))
    return _section("wsgi", "WSGI: added to a request", added, counted, tuple(goals))


def refused() -> Section:
    """A whole request that never reaches the app."""
    own = {form: apps.rules(form, 1) for form in ("plain", "burst")}
    made = {
        "floor": calls.asgi_by_hand(FloorAsgi(apps.bare_asgi, 1)),
        **{f"ours, {form}": calls.asgi_by_hand(_limited(apps.bare_asgi, own[form])) for form in own},
        **{f"FastAPI, ours, {form}": calls.asgi_on_loop(_limited(apps.fastapi(), own[form])) for form in own},
        "FastAPI, slowapi": calls.asgi_on_loop(apps.slowapi(limit=1)),
    }
    for do in made.values():
        for turn in range(calls.CLIENTS):
            do(turn)
    rows = {name: (ns / 1000,) for name, ns in interleaved(made).items()}
    slowapi = rows["FastAPI, slowapi"][0]
    goals = tuple(
        Goal(
            f"a refused request on FastAPI, {form} / slowapi",
            rows[f"FastAPI, ours, {form}"][0] / slowapi,
            0.5,
        )
        for form in own
    )
    note = "The whole request, with the body of the answer: ours is a problem document, the floor's is empty."
    return Section("refused", "ASGI: a request that is refused", ("µs",), rows, "floor", goals, note, "µs")


def _limited(app: Any, rules: Any) -> Any:
    return RateLimitMiddleware(app, rules)


def instructions() -> Section:
    """Decisions in memory, counted."""
    figures = {"floor": "decision-floor", **{what: figure for what, (figure, _) in _DECISIONS.items()}}
    costs = _counted(figures)
    rows: dict[str, tuple[float | None, ...]] = {what: (cost,) for what, cost in costs.items()}
    goals = tuple(
        Goal(f"a decision, instructions, {what} / floor", costs[what] / costs["floor"], at_most)
        for what, (_, at_most) in _DECISIONS.items()
        if costs
    )
    note = "One client, its check at hand: the store's lock and clock, and the algorithm."
    title = "A decision in memory, in machine instructions"
    return Section(
        "instructions", title, ("instructions",), rows, "floor", goals, note, lacks=without("valgrind")
    )


def steps() -> Section:
    """What each step of a request costs."""
    costs = _counted({what: f"step-{name}" for name, what in STEPS.items()})
    rows: dict[str, tuple[float | None, ...]] = {what: (cost,) for what, cost in costs.items()}
    title = "ASGI: an admitted request step by step, in machine instructions"
    note = "Without the call of the step itself."
    return Section("steps", title, ("instructions",), rows, note=note, lacks=without("valgrind"))


def _added(
    makers: Mapping[str, Callable[[], Any]], drivers: Mapping[str, Callable[[Any], calls.Do]], framework: str
) -> dict[str, float]:
    """Time that each adds to the app under it, ns."""
    times = interleaved({name: drivers[name](make()) for name, make in makers.items()}, round_s=0.05)
    return {
        name: ns - times[framework if framework in name else "bare"]
        for name, ns in times.items()
        if name not in (framework, "bare")
    }


def _counted(figures: Mapping[str, str]) -> dict[str, float]:
    if without("valgrind"):
        return {}
    costs = count(list(figures.values()))
    return {subject: costs[figure] for subject, figure in figures.items()}


def _over_floor(kind: str, form: str, counted: Mapping[str, float], at_most: float) -> list[Goal]:
    if not counted:
        return []
    ratio = counted[f"ours, {form}"] / counted["floor"]
    return [Goal(f"{kind}, instructions added, {form} / floor", ratio, at_most)]


def _section(
    name: str, title: str, added: Mapping[str, float], counted: Mapping[str, float], goals: tuple[Goal, ...]
) -> Section:
    rows = {subject: (ns / 1000, counted.get(subject)) for subject, ns in added.items()}
    columns, lacks = ("µs", "instructions"), without("valgrind")
    return Section(name, title, columns, rows, "floor", goals, _NOTE, "µs", lacks)
