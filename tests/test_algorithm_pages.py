"""Every algorithm has a page, and what the pages tell is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ratelimit_middleware
from tests.by_the_clock import DOCS, EXAMPLE, PAGES, algorithm_in, answers, bytes_a_client

pytestmark = pytest.mark.arithmetic

MEMORY = re.compile(r"([\d,]+) bytes\sa\sclient\safter\sone\srequest, ([\d,]+)\safter\s400\s\(`([^`]+)`\)")
IMAGES = sorted((DOCS / "images").rglob("*.svg"))
INDEX = (DOCS / "algorithms.md").read_text("utf-8")
# Slots are given back by ticket: their page has other examples.
OTHERS = {"Algorithm", "Concurrency"}


def title(page: Path) -> str:
    return page.read_text("utf-8").splitlines()[0].removeprefix("# ")


def test_every_algorithm_has_a_page_and_the_index_leads_to_it() -> None:
    public = {name: getattr(ratelimit_middleware, name) for name in ratelimit_middleware.__all__}
    algorithms = {name for name, value in public.items() if hasattr(value, "forget_at_ns")} - OTHERS
    pages = {title(page): page for page in PAGES}
    assert algorithms <= pages.keys()
    for name in algorithms:
        assert f"[{name}](algorithms/{pages[name].name})" in INDEX


@pytest.mark.parametrize("page", [p for p in PAGES if title(p) not in OTHERS], ids=lambda page: page.stem)
def test_a_page_has_an_example_the_promise_the_memory_the_failure_and_a_picture(page: Path) -> None:
    text = page.read_text("utf-8")
    assert EXAMPLE.search(text)
    for part in ("**Promise.** ", "**Memory.** ", "**Where it fails.** ", "**In a rule file.** "):
        assert part in text
    (picture,) = re.findall(r"!\[[^\]]+\]\((.*?)\)", text)
    assert (page.parent / picture).is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_algorithm_answers_by_the_clock_as_the_page_says(page: Path) -> None:
    for example in EXAMPLE.finditer(page.read_text("utf-8")):
        rows = list(answers(example))
        assert len(rows) >= 5
        for told, said in rows:
            assert told == said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_client_takes_as_much_memory_as_the_page_says(page: Path) -> None:
    """But for what differs from one Python to the next."""
    for one, many, code in MEMORY.findall(page.read_text("utf-8")):
        algorithm = algorithm_in(code)
        assert bytes_a_client(algorithm, 1) == pytest.approx(int(one.replace(",", "")), rel=0.15)
        assert bytes_a_client(algorithm, 400) == pytest.approx(int(many.replace(",", "")), rel=0.15)


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.stem)
def test_a_picture_is_small_and_has_no_date(image: Path) -> None:
    text = image.read_text("utf-8")
    assert len(text) < 70_000
    assert "<dc:date>" not in text


def test_the_table_of_faults_names_records_that_the_detailed_tables_list() -> None:
    """Both sides of those are pinned by the tests of each algorithm, which compare the detailed tables."""
    page = (DOCS / "deviations.md").read_text("utf-8")
    overview, detail = page.split("## Sentinel: `WarmUp`")
    detail += "".join(path.read_text("utf-8") for path in (DOCS / "deviations").glob("*.md"))
    listed = set(re.findall(r"^\| `([a-z_]+[a-z0-9_-]*-[a-z0-9_-]+)` \|", detail, re.MULTILINE))
    rows = [line.split("|")[3] for line in overview.splitlines() if line.startswith("| ")][1:]
    named = {name for row in rows for name in re.findall(r"`([^`=]+)`", row)}
    assert len(rows) == 15
    assert named <= listed
    for fault, count in {"window": 7, "never admits": 4, "dead zone": 4, "clock near 0": 1}.items():
        assert len(re.findall(rf"^\| `wu_[^|]+\| {fault} \|", detail, re.MULTILINE)) == count
    guava = (DOCS / "deviations" / "guava.md").read_text("utf-8")
    assert len(re.findall(r"^\| `[^|]+\|[^|]+\|[^|]+\| accepts \| refuses \|", guava, re.MULTILINE)) == 28
