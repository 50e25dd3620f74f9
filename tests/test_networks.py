"""Many networks: what is in them, how they are written, and how fast they are searched."""

from __future__ import annotations

import time
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.networks import NetworkSet, Range, parse_range

pytestmark = pytest.mark.arithmetic

MIXED = NetworkSet.of("192.0.2.0/28", "198.51.100.7", "2001:db8::/32", "10.0.0.0/255.0.0.0")


@pytest.mark.parametrize(
    "peer",
    [
        *("192.0.2.0", "192.0.2.15", "198.51.100.7", "10.255.0.1", "2001:db8::1", "[2001:db8::1]:443"),
        *("::ffff:192.0.2.3", "192.0.2.3:4711"),
    ],
)
def test_an_address_of_a_network_is_in_the_set_however_a_server_writes_it(peer: str) -> None:
    assert MIXED.has(peer, folding=False)


@pytest.mark.parametrize(
    "peer", [None, "", "192.0.2.16", "191.255.255.255", "198.51.100.8", "2001:db9::", "::", "testclient"]
)
def test_others_and_those_without_an_address_are_not(peer: str | None) -> None:
    assert not MIXED.has(peer, folding=True)


@pytest.mark.parametrize(
    "peer", ["64:ff9b::c000:203", "2002:c000:203::1", "2001:0:4136:e378:8000:63bf:3fff:fdfc"]
)
def test_what_was_made_of_an_ipv4_address_is_in_the_set_only_with_folding(peer: str) -> None:
    assert MIXED.has(peer, folding=True)
    assert not MIXED.has(peer, folding=False)


def test_an_empty_set_is_false_and_holds_nothing() -> None:
    assert not NetworkSet()
    assert IPv4Address("192.0.2.1") not in NetworkSet()
    assert NetworkSet.of("::/0")
    assert IPv4Address("192.0.2.1") not in NetworkSet.of("::/0")


def test_networks_that_overlap_or_touch_are_one_range() -> None:
    ranges = NetworkSet.of("10.0.0.0/25", "10.0.0.128/25", "10.0.0.7", "10.0.0.0/24", "10.0.1.0/24").ranges
    assert ranges == (Range(32, 10 << 24, (10 << 24) + 511),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10.0.0.1/8", "has bits beyond its prefix: write `10.0.0.0/8`"),
        ("2001:db8::1/32", "write `2001:db8::/32`"),
        *((bad, "is no address and no network") for bad in ("", "/8", "10.0.0.0/33", "10.0.0.0/", "foo")),
        *((bad, "is no address and no network") for bad in ("10.0.0.0/-1", "10.0.0.0/ 8", "10.0.0/8")),
        *((bad, "is no address and no network") for bad in ("fe80::1%eth0", "010.0.0.1", "10.0.0.0/٨")),
    ],
)
def test_what_is_no_network_says_what_is_meant(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_range(text)


_V4 = st.builds(
    lambda number, length: str(ip_network((number, length), strict=False)),
    st.integers(0, 2**32 - 1),
    st.integers(0, 32),
)
_V6 = st.builds(
    lambda number, length: str(ip_network((number, length), strict=False)),
    st.integers(2**96, 2**128 - 1),
    st.integers(30, 128),
)


@given(st.lists(_V4 | _V6, max_size=20), st.data())
def test_the_set_says_what_its_networks_say(texts: list[str], data: st.DataObject) -> None:
    networks = [ip_network(text) for text in texts]
    near = [
        int(end) + step for network in networks for end in (network[0], network[-1]) for step in (-1, 0, 1)
    ]
    number = data.draw(st.sampled_from(near) if near else st.integers(0, 2**32 - 1))
    found = NetworkSet.of(*texts)
    for address in (
        IPv4Address(number % 2**32),
        IPv6Address(number % 2**128),
    ):
        assert (address in found) == any(address in network for network in networks)


def test_a_hundred_thousand_lines_load_at_once_and_are_searched_in_microseconds() -> None:
    lines = [f"{a}.{b}.{c}.{d}" for a in range(1, 51) for b in range(20) for c in range(10) for d in range(5)]
    lines += [f"2001:db8:{number:x}::/48" for number in range(50_000)]
    begin = time.process_time()
    networks = NetworkSet.of(*lines)
    loaded = time.process_time()
    for _ in range(10_000):
        assert not networks.has("203.0.113.9", folding=True)
    searched = time.process_time()
    assert len(lines) == 100_000
    # Of the process's own time, and far above what it takes: only a loop over all the lines fails.
    assert loaded - begin < 5
    assert searched - loaded < 1
