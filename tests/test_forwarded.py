"""What proxies say of the client, read from the right."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from time import thread_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ratelimit_middleware.addresses import Address
from ratelimit_middleware.forwarded import (
    MOST_ENTRIES,
    addresses_in,
    nth_from_the_right,
    rightmost_untrusted,
)

pytestmark = pytest.mark.arithmetic

TEN = ip_network("10.0.0.0/8")


def is_trusted(address: Address) -> bool:
    return address in TEN


def client(text: str, header: str = "x-forwarded-for") -> str:
    return str(rightmost_untrusted(addresses_in(header, text), is_trusted))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("1.2.3.4", "1.2.3.4"),
        ("6.6.6.6, 1.2.3.4", "1.2.3.4"),
        ("6.6.6.6,1.2.3.4\t, 10.0.0.2", "1.2.3.4"),
        ("6.6.6.6, junk, 10.0.0.2", "10.0.0.2"),
        ("6.6.6.6, unknown, 10.0.0.2", "10.0.0.2"),
        ("6.6.6.6, _hidden, 10.0.0.2", "10.0.0.2"),
        ("6.6.6.6, unix:, 10.0.0.2", "10.0.0.2"),
        ("6.6.6.6, , 10.0.0.2", "10.0.0.2"),
        ("6.6.6.6, 1.2.3.4\r\nX-Evil: 1, 10.0.0.2", "10.0.0.2"),
        ("6.6.6.6, 1.2.3.4\xa0, 10.0.0.2", "10.0.0.2"),
        ("6.6.6.6,", "None"),
        ("junk", "None"),
        ("", "None"),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ('6.6.6.6, "[2001:db8:1:2:3::9]:443", 10.0.0.2:80', "2001:db8:1:2:3::9"),
        ("::ffff:10.0.0.9, ::ffff:1.2.3.4, ::ffff:10.0.0.2", "1.2.3.4"),
        ("64:ff9b::a00:2", "64:ff9b::a00:2"),
    ],
)
def test_the_client_is_the_first_from_the_right_that_is_no_trusted_proxy(text: str, address: str) -> None:
    assert client(text) == address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("for=1.2.3.4", "1.2.3.4"),
        ("For=6.6.6.6, FOR=1.2.3.4;proto=https, for=10.0.0.2;by=10.0.0.3", "1.2.3.4"),
        ('for="[2001:db8::17]:4711"', "2001:db8::17"),
        ("for=[2001:db8::17]", "2001:db8::17"),
        ('for="1.2.3.4:_port"', "1.2.3.4"),
        ('for=1.2.3.4;host="a,b;c\\",d=\\"";proto=http', "1.2.3.4"),
        ('for=1.2.3.4;host="a\\\\"', "1.2.3.4"),
        ("for=6.6.6.6, for=unknown, for=10.0.0.2", "10.0.0.2"),
        ("for=6.6.6.6, for=_hidden, for=10.0.0.2", "10.0.0.2"),
        ("for=6.6.6.6, proto=https, for=10.0.0.2", "10.0.0.2"),
        ("for=6.6.6.6, for=1.2.3.4;for=6.6.6.6, for=10.0.0.2", "10.0.0.2"),
        ("for=6.6.6.6, 1.2.3.4, for=10.0.0.2", "10.0.0.2"),
        ("for=6.6.6.6, for = 1.2.3.4, for=10.0.0.2", "10.0.0.2"),
        ("for=6.6.6.6, by=1.2.3.4 for=1.2.3.4, for=10.0.0.2", "10.0.0.2"),
        (" ;for=1.2.3.4 ; ;proto=https; ", "1.2.3.4"),
        ('for="1.2.3.4', "None"),
        ("", "None"),
    ],
)
def test_forwarded_is_read_as_rfc_7239_has_it(text: str, address: str) -> None:
    assert client(text, "forwarded") == address


@pytest.mark.parametrize(
    "written", ['for="', 'for=6.6.6.6;x="', 'for=6.6.6.6;x="\\', '"', 'for="6.6.6.6", "', "\\", 'x="a\\"']
)
@pytest.mark.parametrize("added", ["for=1.2.3.4", 'for="1.2.3.4:80";proto=http', 'by="_a,b";for=1.2.3.4'])
def test_a_quote_that_the_client_leaves_open_swallows_nothing_that_the_proxy_adds(
    written: str, added: str
) -> None:
    assert client(f"{written}, {added}", "forwarded") == "1.2.3.4"
    assert client(f"{written}, {added}, for=10.0.0.2", "forwarded") == "1.2.3.4"


@pytest.mark.parametrize(
    ("text", "hops", "address"),
    [
        ("6.6.6.6, 1.2.3.4", 1, "1.2.3.4"),
        ("6.6.6.6, 1.2.3.4, 10.0.0.2", 2, "1.2.3.4"),
        ("1.2.3.4", 2, "None"),
        ("6.6.6.6, junk, 10.0.0.2", 2, "10.0.0.2"),
        ("6.6.6.6, junk", 1, "None"),
    ],
)
def test_hops_count_from_the_right(text: str, hops: int, address: str) -> None:
    assert str(nth_from_the_right(addresses_in("x-forwarded-for", text), hops)) == address


def test_no_more_than_a_bounded_number_of_entries_is_looked_at() -> None:
    text = "6.6.6.6, " + ", ".join(["10.0.0.2"] * MOST_ENTRIES)
    assert client(text) == "10.0.0.2"
    assert client(text.replace("10.0.0.2", "for=10.0.0.2"), "forwarded") == "10.0.0.2"


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded"])
@pytest.mark.parametrize(
    "unit",
    [
        *(
            ",",
            '"',
            '\\"',
            "\\",
            '",',
            'a="',
            "for=10.0.0.2,",
            "10.0.0.2,",
            'for="10.0.0.2",',
            ";",
            "a=b;",
            " ",
        ),
        *('"\\', "=", "[", "for=10.0.0.2;", '\\",'),
    ],
)
def test_the_time_is_linear_in_the_length_of_the_header(header: str, unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit)) + '"'
        tries = []
        for _ in range(3):
            start = thread_time()
            list(addresses_in(header, text))
            tries.append(thread_time() - start)
        return min(tries)

    assert seconds(64_000) < 40 * max(seconds(8_000), 0.0005)  # eight times; a square would be 64 times


TEXTS = st.text(max_size=60)
NODES = st.sampled_from(
    [
        *(
            "10.0.0.2",
            "1.2.3.4",
            "[2001:db8::1]:80",
            "::1",
            "unknown",
            "_x",
            "",
            '"',
            "\\",
            "é",
            "\r\n",
            "10.0.0.2:80",
        )
    ]
)
LISTS = st.lists(NODES | TEXTS, max_size=6).map(",".join)
ELEMENTS = st.lists(
    st.tuples(
        st.sampled_from(["for=", 'for="', "by=", ";", ""]), NODES, st.sampled_from(['"', "", ";proto=a"])
    ).map("".join),
    max_size=5,
).map(",".join)


@given(st.sampled_from(["x-forwarded-for", "forwarded"]), LISTS | ELEMENTS | TEXTS)
@example("forwarded", 'for="\\"')
def test_whatever_stands_in_a_header_the_answer_is_an_address_or_none(header: str, text: str) -> None:
    found = list(addresses_in(header, text))
    assert len(found) <= text.count(",") + 1
    for answer in (rightmost_untrusted(found, is_trusted), nth_from_the_right(found, 2)):
        assert answer is None or answer in found


@given(
    st.sampled_from(["x-forwarded-for", "forwarded"]),
    LISTS | ELEMENTS | TEXTS,
    st.ip_addresses().map(str),
    st.booleans(),
)
def test_what_the_client_writes_never_changes_who_it_is(
    header: str, written: str, address: str, through_two: bool
) -> None:
    """The proxy appends the address that it sees, another one appends the proxy's."""
    host = f'"[{address}]:4711"' if ":" in address else address
    mark = "for=" if header == "forwarded" else ""
    added = f"{mark}{host}" + (f", {mark}10.0.0.2" if through_two else "")
    seen = ip_address(address)
    expected = getattr(seen, "ipv4_mapped", None) or seen
    if expected in TEN:
        return  # a client with the address of a proxy is a proxy
    assert client(f"{written}, {added}", header) == client(added, header) == str(expected)
