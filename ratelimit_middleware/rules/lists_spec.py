"""The blocks `exempt` and `deny` of the rule file.

Raises:
    GrammarError: from every function here, when a value is not what its key takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import Field, model_validator

from ratelimit_middleware.networks import NetworkSet, Range, parse_range
from ratelimit_middleware.rules.client_spec import HeaderName
from ratelimit_middleware.rules.fields import read_detail, read_status
from ratelimit_middleware.rules.model import Answer
from ratelimit_middleware.rules.request_list import RequestList
from ratelimit_middleware.rules.rule_fields import read_rule_method
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.values import DETAIL, METHOD, STATUS, as_list, plain, text
from ratelimit_middleware.rules.words import GrammarError, shown

__all__ = ["AddressFile", "DenySpec", "ListSpec"]

_FILE = "file:"
_MOST_BYTES = 16 << 20
_MOST_MISTAKES = 10
_PRINTABLE = re.compile(r"[!-~](?:[ -~]*[!-~])?")


class AddressFile(NamedTuple):
    """A file of addresses, by its name in the rule file."""

    name: str


def _read_ip(value: Any) -> Range | AddressFile:
    """An address, a network, or a file of them."""
    if not isinstance(value, str):
        raise GrammarError(
            f"{shown(value)} is not an address: write `192.0.2.7` or `192.0.2.0/28`, in quotes"
        )
    name = value.strip()
    if name.startswith(_FILE):
        if not name.removeprefix(_FILE).strip():
            raise GrammarError("`file:` names no file: write a name such as `file:deny.txt`")
        return AddressFile(name.removeprefix(_FILE).strip())
    try:
        return parse_range(name)
    except ValueError as error:
        raise GrammarError(f"{shown(value)} {error}, or `file:deny.txt` for a file of them") from None


def _read_secret(value: Any) -> str:
    """The value of a header; it is never shown."""
    if not isinstance(value, str):
        raise GrammarError("the value of a header is a text: put it into quotes")
    if not value.strip():
        raise GrammarError(
            "the value of this header is empty, so anybody could send it: set the variable of the"
            " environment, or leave the header out"
        )
    if not _PRINTABLE.fullmatch(value):
        raise GrammarError(
            "the value of a header is of printable ASCII characters, without spaces before or after it"
        )
    return value


_IP = text(
    rf"{_FILE}.+|[0-9A-Fa-f.:]+(?:/[0-9.]+)?", "An address, a network, or a file of them.", "192.0.2.0/28"
)
_SECRET = text("[!-~](?:[ -~]*[!-~])?", "The secret value of the header.", "${INTERNAL_TOKEN}")

_Secrets: TypeAlias = Annotated[
    list[Annotated[str, plain(_read_secret, _SECRET)]], Field(min_length=1), as_list
]


class ListSpec(Spec):
    """Requests, by who sends them or by what they are."""

    ips: Annotated[
        list[Annotated[Range | AddressFile, plain(_read_ip, _IP)]], Field(min_length=1), as_list
    ] = Field(default_factory=list)
    headers: Annotated[dict[HeaderName, _Secrets], Field(min_length=1)] = Field(default_factory=dict)
    methods: Annotated[
        list[Annotated[str, plain(read_rule_method, METHOD)]], Field(min_length=1), as_list
    ] = Field(default_factory=list)

    @model_validator(mode="after")
    def _says_something(self) -> ListSpec:
        """Refuse a list that nobody can be on."""
        if not self.ips and not self.headers and not self.methods:
            raise GrammarError("an empty list: write `ips`, `headers` or `methods`, or leave it out")
        return self

    def built(self, folder: Path, refuse: Callable[[int, str], None], *, folds: bool = False) -> RequestList:
        """The list, with what its files hold.

        Args:
            folder: where the names of files begin.
            refuse: is told the index of a file in `ips` and what is wrong with it.
            folds: see `RequestList`.
        """
        ranges: list[Range] = []
        for index, item in enumerate(self.ips):
            if isinstance(item, AddressFile):
                ranges += _ranges_of(folder / item.name, item.name, lambda why, i=index: refuse(i, why))  # type: ignore[misc]  # mypy cannot infer lambdas with defaults
            else:
                ranges.append(item)
        headers = tuple((name, value) for name, values in self.headers.items() for value in values)
        return RequestList(NetworkSet(tuple(ranges)), headers, frozenset(self.methods), folds)


class DenySpec(ListSpec):
    """Requests that are refused whatever the limits say."""

    status: Annotated[int, plain(read_status, STATUS)] = 403
    detail: Annotated[str, plain(read_detail, DETAIL)] = "Access from here is not allowed."

    @property
    def answer(self) -> Answer:
        """What they hear."""
        return Answer(self.status, self.detail)


def _ranges_of(path: Path, name: str, refuse: Callable[[str], None]) -> Iterable[Range]:
    """The networks in a file, one a line; what stands behind `#` is a comment."""
    try:
        lines = _lines(path)
    except (OSError, ValueError) as error:
        refuse(f"the file {shown(name)} cannot be read: {getattr(error, 'strerror', None) or error}")
        return ()
    ranges: list[Range] = []
    mistakes = 0
    for number, line in lines:
        try:
            ranges.append(parse_range(line))
        except ValueError as error:  # noqa: PERF203 - all mistakes are told, each with its line
            mistakes += 1
            if mistakes <= _MOST_MISTAKES:
                refuse(f"{name}:{number}: {shown(line)} {error}")
    if mistakes > _MOST_MISTAKES:
        refuse(f"{name}: {mistakes - _MOST_MISTAKES} more lines are wrong")
    return ranges


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that say something, by their numbers.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no file, too large or not UTF-8.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MiB")
    stripped = (line.partition("#")[0].strip() for line in data.decode("utf-8-sig").splitlines())
    return ((number, line) for number, line in enumerate(stripped, 1) if line)
