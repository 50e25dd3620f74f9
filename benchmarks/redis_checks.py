"""What a check costs a Redis server: its own count of microseconds, and machine instructions.

The server says how long it was in the script; network and parsing are not in it. Pipelines take about a
millisecond, so that many of them are not interrupted on a busy machine either; the cases come one after the
other, and of each counts the calmest tenth. Instructions hardly depend on the machine at all.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from statistics import quantiles

import redis_server
from callgrind import Counter
from redis_cases import ADMITTED, CALLS, CASES, GCRA_ADMITTED, NOTHING, PIPELINES, REFUSED, Asker, requests_of
from report import Goal, Section, without

_NAME, _TITLE, _COLUMNS = "redis-checks", "What a check costs a Redis server", ("µs", "instructions")
_ROUNDS = 30
_GOAL_US = 25


def checks() -> Section:
    """All cases, by time and by instructions."""
    lacks = without("redis-server", "valgrind")
    if "redis-server" in lacks:
        return Section(_NAME, _TITLE, _COLUMNS, {}, lacks=lacks)
    times = timed()
    instructions = {} if lacks else counted()
    rows: dict[str, tuple[float | None, ...]] = {
        name: (us, instructions.get(name)) for name, us in times.items()
    }
    goals = [Goal(f"Redis, {name}", times[name], _GOAL_US, unit="µs") for name in (ADMITTED, REFUSED)]
    note = (
        f"Time in the script by the server's own count, the calmest tenth of {_ROUNDS * PIPELINES} pipelines"
        f" of {CALLS} requests; instructions of the whole server for a request."
    )
    return Section(_NAME, _TITLE, _COLUMNS, rows, GCRA_ADMITTED, tuple(goals), note, lacks=lacks)


def timed() -> dict[str, float]:
    """Microseconds a request."""
    samples: dict[str, list[float]] = {name: [] for name in (NOTHING, *CASES)}
    with redis_server.server() as url, closing(Asker(url)) as asker:
        for _ in range(_ROUNDS):
            for name, times in samples.items():
                for pipeline in asker.pipelines(name):
                    asker.client.config_resetstat()
                    pipeline.execute()
                    seen = asker.client.info("commandstats")["cmdstat_evalsha"]
                    times.append(seen["usec"] / seen["calls"] / requests_of(name))
    return {name: quantiles(times, n=10)[0] for name, times in samples.items()}


def counted() -> dict[str, float]:
    """Instructions a request, of a server under callgrind."""
    with tempfile.TemporaryDirectory(prefix="redis-checks-") as place:
        counter = Counter(Path(place))
        with redis_server.server(counter.tool) as url, closing(Asker(url)) as asker:
            pid, wake = asker.client.info("server")["process_id"], asker.client.ping
            costs = {}
            for name in (NOTHING, *CASES):
                asker.pipelines(name)[0].execute()  # memory is got
                pipelines = asker.pipelines(name)
                counter.count(pid, wake)
                for pipeline in pipelines:
                    pipeline.execute()
                requests = PIPELINES * (CALLS // requests_of(name)) * requests_of(name)
                costs[name] = counter.count(pid, wake) / requests
    return costs
