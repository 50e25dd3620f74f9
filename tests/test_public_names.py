"""What a module offers is what it says it offers."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import ratelimit_middleware

pytestmark = pytest.mark.arithmetic

PACKAGE = Path(ratelimit_middleware.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
)


def defined(module: str) -> tuple[list[str], set[str]]:
    """The module's `__all__` as written, and the public names it defines itself."""
    path = Path(str(importlib.import_module(module).__file__))
    names: set[str] = set()
    listed: list[str] = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names.add(node.targets[0].id)
            if node.targets[0].id == "__all__":
                listed = list(ast.literal_eval(node.value))
    return listed, {name for name in names if not name.startswith("_") and name != "logger"}


@pytest.mark.parametrize("module", MODULES)
def test_all_lists_what_exists_sorted_and_leaves_nothing_public_out(module: str) -> None:
    listed, own = defined(module)
    loaded = importlib.import_module(module)
    assert all(hasattr(loaded, name) for name in listed)
    assert len(set(listed)) == len(listed)
    assert own <= set(listed), f"public but not in __all__ of {module}"


def test_the_top_level_offers_the_names_users_need() -> None:
    assert set(ratelimit_middleware.__all__) == {
        "GCRA",
        "Concurrency",
        "Pacing",
        "QpsWindow",
        "SlidingCounter",
        "WarmUpPacing",
        "TokenBucket",
        "SmoothWarmingUp",
        "SmoothBursty",
        "NeverAdmittedError",
        "Limiter",
        "LeakyBucket",
        "FixedWindow",
        "Decision",
        "InvalidLimitError",
        "ManualClock",
        "MemoryStore",
        "RateLimitError",
        "RuleFileError",
        "RuleSet",
        "SlidingWindow",
        "StoreError",
        "SystemClock",
        "Verdict",
        "WarmUp",
        "WarmUpWindow",
        "__version__",
        "load_rules",
    }


def test_importing_the_package_and_both_adapters_loads_no_third_party_module() -> None:
    """`python -S` hides site-packages: what needs a third-party module cannot be imported."""
    code = "import ratelimit_middleware, ratelimit_middleware.asgi, ratelimit_middleware.wsgi"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_importing_the_package_and_both_adapters_loads_no_asyncio() -> None:
    """It takes a third of the time; a server that has a loop has it loaded already."""
    code = (
        "import sys, ratelimit_middleware, ratelimit_middleware.asgi, ratelimit_middleware.wsgi\n"
        "print('asyncio' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    changelog = (PACKAGE.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    heads = [line for line in changelog.splitlines() if line.startswith("## ")]
    assert heads[0].removeprefix("## ").split(" ")[0].strip("[]") in {
        ratelimit_middleware.__version__,
        "Unreleased",
    }
