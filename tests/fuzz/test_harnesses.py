"""The harnesses of `scripts/fuzz`, fed by Hypothesis: whatever bytes come, there is no exception."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.harnesses import HARNESSES

pytestmark = pytest.mark.arithmetic

ODD = st.sampled_from(
    [
        b"\0",
        b"/",
        b"..",
        b"%",
        b";",
        b",",
        b'"',
        b"\\",
        b":",
        b"[::1]",
        b"for=",
        b"\xff",
        b"\n",
        b"/items/",
        b"=a",
    ]
)
BYTES = st.lists(st.one_of(ODD, st.binary(max_size=8))).map(b"".join)


@pytest.mark.parametrize("name", HARNESSES)
@given(data=BYTES)
def test_whatever_comes_is_read(name: str, data: bytes) -> None:
    HARNESSES[name](data)
