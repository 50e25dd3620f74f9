"""Each rule file of the page finds the client of the chain that it is written for, and of no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ratelimit_middleware.client import SeenView
from ratelimit_middleware.request import AsgiView
from ratelimit_middleware.rules.load import load_rules

pytestmark = pytest.mark.arithmetic

PAGE = (Path(__file__).parent.parent / "docs" / "behind-a-proxy.md").read_text("utf-8")
EXAMPLES = [
    (heading.strip(), text)
    for heading, section in re.findall(r"^#+ (.*)\n((?:(?!^#+ ).*\n)*)", PAGE, re.MULTILINE)
    for text in re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
]
CHAINS: list[tuple[str, str | None, str, str, str]] = [
    ("Behind a proxy", "10.0.0.5", "x-forwarded-for", "6.6.6.6, 198.51.100.7", "198.51.100.7"),
    ("nginx", "10.0.0.5", "x-forwarded-for", "6.6.6.6, 198.51.100.7", "198.51.100.7"),
    ("nginx", "10.0.0.5", "x-real-ip", "198.51.100.7", "198.51.100.7"),
    ("nginx", None, "x-forwarded-for", "6.6.6.6, 198.51.100.7", "198.51.100.7"),
    (
        "A CDN before nginx",
        "10.0.0.5",
        "x-forwarded-for",
        "6.6.6.6, 198.51.100.7, 192.0.2.80",
        "198.51.100.7",
    ),
    ("A CDN before nginx", "10.0.0.5", "cf-connecting-ip", "198.51.100.7", "198.51.100.7"),
    (
        "A CDN before nginx",
        "10.0.0.5",
        "x-forwarded-for",
        "6.6.6.6, 198.51.100.7, 192.0.2.80",
        "198.51.100.7",
    ),
    ("A Kubernetes ingress", "10.244.3.9", "x-forwarded-for", "198.51.100.7", "198.51.100.7"),
    (
        "Forwarded",
        "10.0.0.5",
        "forwarded",
        'for=6.6.6.6, for="[2001:db8::7]:4711";proto=https',
        "2001:db8::7",
    ),
    ("uvicorn", "198.51.100.7", "x-forwarded-for", "6.6.6.6, 198.51.100.7", "198.51.100.7"),
    ("gunicorn", "10.0.0.5", "x-forwarded-for", "6.6.6.6, 198.51.100.7", "198.51.100.7"),
]
"""For each example of the page: its heading, the peer, the header, what stands in it, and the client."""


def client_of(folder: Path, text: str, peer: str | None, *headers: tuple[str, str]) -> str | None:
    path = folder / "rules.yaml"
    path.write_text(text, "utf-8")
    lines = [(name.encode(), value.encode()) for name, value in headers]
    scope = {"type": "http", "path": "/", "client": peer and (peer, 1), "headers": lines}
    return SeenView(AsgiView(scope), load_rules(path, env={}).client).peer


def test_every_example_has_its_chain() -> None:
    assert [heading for heading, _ in EXAMPLES] == [chain[0] for chain in CHAINS]


@pytest.mark.parametrize("number", range(len(CHAINS)))
def test_an_example_finds_the_client_of_its_chain(number: int, tmp_path: Path) -> None:
    _, peer, header, value, client = CHAINS[number]
    assert client_of(tmp_path, EXAMPLES[number][1], peer, (header, value)) == client


@pytest.mark.parametrize("number", range(len(CHAINS)))
def test_an_example_believes_nobody_else_and_no_other_header(number: int, tmp_path: Path) -> None:
    text = EXAMPLES[number][1]
    _, peer, header, _, _ = CHAINS[number]
    forged = [
        (name, "for=6.6.6.6" if name == "forwarded" else "6.6.6.6")
        for name in ("forwarded", "x-forwarded-for")
    ]
    assert client_of(tmp_path, text, peer, *(line for line in forged if line[0] != header)) == peer
    if "hops" not in text:
        assert client_of(tmp_path, text, "203.0.113.50", *forged, (header, "6.6.6.6")) == "203.0.113.50"
