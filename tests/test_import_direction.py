"""A file imports from lower layers, and inside its own folder without cycles."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import ratelimit_middleware

PACKAGE = Path(ratelimit_middleware.__file__).parent
NAME = PACKAGE.name

LAYERS = [
    {"errors", "clock", "decision", "_types"},
    {"algorithms", "request_texts"},
    {"request", "response", "addresses", "store_settings", "events", "redis_url", "field_numbers"},
    {"asking", "entrances", "overload"},
    {"forwarded", "identity", "headers", "faults", "networks", "counters", "refusal_log", "problems"},
    {"client"},
    {"stores", "rules", "responses"},
    {"reservation", "refusals"},
    {"settling", "checking", "verdicts", "limiter", "responder", "views", "frameworks", "nested"},
    {"leases", "penalties", "reporter", "shedding", "flows"},
    {"loop_calls"},
    {"settler", "flow_reports"},
    {"registry"},
    {
        "build",
        "throttled",
        "answers",
        "shielding",
        "lines",
        "wsgi_response",
        "asgi_lifespan",
        "asgi_watching",
    },
    {"wrapping"},
    {"asgi_queue", "asgi_inbox", "asgi_refusal", "asgi_sizes", "coverage", "wsgi_pace", "wsgi_bodies"},
    {"asgi_meter", "wsgi_exchange"},
    {"asgi_messages", "asgi_pace", "wsgi_flows"},
    {"asgi_bodies"},
    {"asgi_exchange"},
    {"asgi_flows"},
    {"asgi", "wsgi"},
    {"__init__", "cli"},
    {"__main__"},
]
LAYER_OF = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}
# Inside one layer a room may use these.
FOUNDATIONS = {"errors", "clock", "_types"}
# Only when rules are loaded or a store is opened: see test_public_names for what must import without.
THIRD_PARTY = {
    "rules": {"yaml", "pydantic", "re2"},
    "stores": {"lmdb", "redis", "hiredis"},
    "asgi_queue": {"anyio"},
    "asgi_inbox": {"anyio"},
    "asgi_meter": {"anyio"},
    "asgi_messages": {"anyio"},
    "asgi_pace": {"anyio"},
    "shielding": {"anyio"},
    "loop_calls": {"trio"},
}


# What algorithms may use of the standard library.
ARITHMETIC = {"__future__", "abc", "collections.abc", "dataclasses", "fractions", "math", "struct", "typing"}
# Values of time (`datetime.now` is looked for apart), and the names and rules of time zones.
ARITHMETIC |= {"datetime", "zoneinfo"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def room(module: str) -> str:
    return module.partition(".")[0]


def imports(path: Path) -> set[str]:
    """Dotted names of everything that the file imports, at any depth of indentation."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            assert node.module
            found.add(node.module)
            if node.module.startswith(NAME):
                found |= {
                    f"{node.module}.{alias.name}"
                    for alias in node.names
                    if (PACKAGE.parent / (f"{node.module}.{alias.name}".replace(".", "/") + ".py")).exists()
                }
    return found


def own_imports(path: Path) -> set[str]:
    prefix = f"{NAME}."
    return {name.removeprefix(prefix) for name in imports(path) if name.startswith(prefix)}


def own_modules(path: Path) -> set[str]:
    return {name for name in imports(path) if name.startswith(f"{NAME}.")}


def names_from(path: Path, module: str) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == module]
    return {alias.name for node in froms for alias in node.names}


def calls(path: Path) -> set[str]:
    """The last part of the name of everything that the file calls."""
    called = [
        node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)
    ]
    attributes = {function.attr for function in called if isinstance(function, ast.Attribute)}
    return attributes | {function.id for function in called if isinstance(function, ast.Name)}


def test_every_room_has_a_layer() -> None:
    assert {room(dotted(path)) for path in modules()} == set(LAYER_OF)


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_a_file_imports_only_from_lower_layers_and_its_own_room(path: Path) -> None:
    here = room(dotted(path))
    for target in own_imports(path):
        there = room(target)
        allowed = LAYER_OF[there] < LAYER_OF[here] or there == here or there in FOUNDATIONS - {here}
        assert allowed, f"{dotted(path)} (layer {LAYER_OF[here]}) imports {target} (layer {LAYER_OF[there]})"


def test_there_are_no_cycles() -> None:
    graph = {dotted(path): own_imports(path) - {dotted(path)} for path in modules()}
    assert list(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_only_the_loading_of_rules_and_the_stores_use_third_party_packages(path: Path) -> None:
    used = {name.partition(".")[0] for name in imports(path)}
    stdlib = __import__("sys").stdlib_module_names
    foreign = used - stdlib - {NAME, "__future__"}
    assert foreign <= THIRD_PARTY.get(room(dotted(path)), set())


def algorithm_modules() -> list[Path]:
    return [path for path in modules() if path.parent == PACKAGE / "algorithms"]


@pytest.mark.parametrize("path", algorithm_modules(), ids=dotted)
def test_algorithms_import_arithmetic_alone(path: Path) -> None:
    """No clock, lock, logging, randomness, file or socket: nothing of the standard library but this."""
    assert imports(path) - own_modules(path) <= ARITHMETIC


@pytest.mark.parametrize("path", algorithm_modules(), ids=dotted)
def test_algorithms_take_no_more_than_units_from_the_clock(path: Path) -> None:
    taken = names_from(path, f"{NAME}.clock")
    assert taken <= {"NS_PER_SECOND", "to_ns"}
    assert not calls(path) & {"open", "print", "input", "now", "utcnow", "today", "monotonic", "perf_counter"}


@pytest.mark.parametrize("path", algorithm_modules(), ids=dotted)
def test_no_algorithm_is_longer_than_200_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_only_the_clock_reads_the_time(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    reads = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time"
    } - {"sleep"}
    assert not reads or dotted(path) == "clock"


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_no_file_is_longer_than_300_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300
