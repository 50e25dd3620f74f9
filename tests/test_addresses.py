"""Addresses as servers and proxies write them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.addresses import LONGEST_ADDRESS, Remembered, folded, parse_address

pytestmark = pytest.mark.arithmetic


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7:4711", "192.0.2.7"),
        ("192.0.2.7:_port", "192.0.2.7"),
        ('"192.0.2.7:4711"', "192.0.2.7"),
        ("2001:db8::7", "2001:db8::7"),
        ("2001:DB8:0::7", "2001:db8::7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("[2001:db8::7]:443", "2001:db8::7"),
        ('"[2001:db8::7]:443"', "2001:db8::7"),
        ("fe80::7%eth0", "fe80::7"),
        ("[fe80::7%25eth0]:443", "fe80::7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("[::ffff:192.0.2.7]:443", "192.0.2.7"),
    ],
)
def test_an_address_is_read_in_every_spelling(text: str, address: str) -> None:
    assert parse_address(text) == ip_address(address)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "unknown",
            "_hidden",
            "unix:",
            "localhost",
            "example.com",
            "192.0.2",
            "192.0.2.256",
            "192.0.2.07",
        ),
        *("192.0.2.7:", "192.0.2.7:port", "192.0.2.7:123456", "192.0.2.7 ", "192.0.2.7\r\n", "192.0.2.7\0"),
        *(
            "[2001:db8::7",
            "2001:db8::7]",
            "[]",
            "[]:443",
            '"',
            '""',
            '"192.0.2.7',
            "'192.0.2.7'",
            ":::",
            "1::2::3",
        ),
        *("１９２.0.2.7", "١٩٢.0.2.7", "3221225991", "0xc0000207", "192.0.2.7/32", "::1" + "%" + "z" * 100),  # noqa: RUF001 - digits that are none
    ],
)
def test_all_else_is_no_address(text: str) -> None:
    assert parse_address(text) is None


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("64:ff9b::c000:207", "192.0.2.7"),
        ("2002:c000:207:1:2::3", "192.0.2.7"),
        ("2001:0:cb00:7101:0:ee6e:3fff:fdf8", "192.0.2.7"),
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::7", "2001:db8::7"),
        ("64:ff9b:1::c000:207", "64:ff9b:1::c000:207"),
    ],
)
def test_ipv4_in_the_dress_of_ipv6_is_told_by_what_it_was_made_of(address: str, origin: str) -> None:
    assert folded(ip_address(address)) == ip_address(origin)


@given(st.ip_addresses(), st.integers(0, 65535))
def test_an_address_that_is_written_is_read_back(address: IPv4Address | IPv6Address, port: int) -> None:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    host = f"[{address}]" if isinstance(address, IPv6Address) else str(address)
    spellings = [str(address), f"{host}:{port}", f'"{host}:{port}"', str(address).upper()]
    assert {parse_address(text) for text in spellings} == {mapped or address}


@given(st.text() | st.text('0123456789abcdef.:[]%"', max_size=60))
def test_no_text_is_too_strange(text: str) -> None:
    address = parse_address(text)
    assert address is None or parse_address(str(address)) in (address, folded(address))


def test_answers_are_remembered_but_not_of_long_texts_and_not_without_bound() -> None:
    asked: list[str] = []

    def answer(text: str) -> str:
        asked.append(text)
        return text.upper()

    memory = Remembered(answer, LONGEST_ADDRESS)
    long = "a" * (LONGEST_ADDRESS + 1)
    assert [memory["a"], memory["a"], memory[long], memory[long]] == ["A", "A", long.upper(), long.upper()]
    assert asked == ["a", long, long]
    for number in range(20_000):
        assert memory[str(number)] == str(number)
    assert len(memory) <= 8192
