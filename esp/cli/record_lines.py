"""Lines of text turned into records, by the properties of Kafka's console producer."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import methodcaller
from typing import Self

from esp.cli.properties import flag
from esp.model.errors import OperatorError


class LineError(Exception):
    """A line is not of the form that the properties ask for."""


def split_lines(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines that end in each piece of a text, without their ends; behind the last piece, a last line that has no end."""
    begun: list[bytes] = []
    for chunk in chunks:
        *lines, rest = chunk.split(b"\n")
        if lines and begun:
            lines[0] = b"".join((*begun, lines[0]))
            begun.clear()
        if rest:
            begun.append(rest)
        if any(map(_ends_with_return, lines)):
            lines = [line.rstrip(b"\r") for line in lines]
        yield lines
    if begun:
        yield [b"".join(begun).rstrip(b"\r")]


_ends_with_return = methodcaller("endswith", b"\r")


@dataclass(frozen=True, slots=True)
class LineParser:
    """Splits a line into headers, key and value, in this order.

    Attributes:
        parse_key: whether a key and ``key_separator`` stand before the value.
        parse_headers: whether headers and ``headers_delimiter`` stand before that.
        key_separator: stands between key and value.
        headers_delimiter: stands between the headers and the rest.
        headers_separator: stands between two headers.
        headers_key_separator: stands between a header's name and its value.
        null_marker: text that stands for no value (or key) at all; None: no text does.
        ignore_error: whether a line without a separator is all value, instead of an error.
    """

    parse_key: bool = False
    parse_headers: bool = False
    key_separator: bytes = b"\t"
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignore_error: bool = False

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Read the properties by Kafka's names.

        Raises:
            OperatorError: a name is unknown or a value impossible.
        """
        known = {"parse.key", "parse.headers", "ignore.error", *_SEPARATORS, "null.marker"}
        for name, value in properties.items():
            if name not in known:
                raise OperatorError(
                    f"--property {name}: there is no such property", f"Known are {', '.join(sorted(known))}."
                )
            if name in _SEPARATORS and not value:
                raise OperatorError(f"--property {name}= is empty", "Give a separator.")
        marker = properties.get("null.marker")
        return cls(
            parse_key=flag(properties, "parse.key"),
            parse_headers=flag(properties, "parse.headers"),
            ignore_error=flag(properties, "ignore.error"),
            null_marker=None if marker is None else marker.encode(),
            **{name.replace(".", "_"): properties[name].encode() for name in _SEPARATORS if name in properties},
        )

    @property
    def is_plain(self) -> bool:
        """True if every line is a value and nothing else."""
        return not self.parse_key and not self.parse_headers and self.null_marker is None

    def parse(self, line: bytes) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]:
        """Return key, value and headers of a line without its line end.

        Raises:
            LineError: a separator is missing.
        """
        headers: list[tuple[str, bytes]] = []
        if self.parse_headers:
            text, line = self._split(line, self.headers_delimiter, "headers")
            for header in text.split(self.headers_separator) if text else ():
                name, separator, value = header.partition(self.headers_key_separator)
                if not separator and not self.ignore_error:
                    raise LineError(f"no header separator {self.headers_key_separator!r} in {header!r}")
                headers.append((name.decode("utf-8", "replace"), value))
        key: bytes | None = None
        if self.parse_key:
            found, line = self._split(line, self.key_separator, "key")
            key = None if found == self.null_marker else found
        return key, None if line == self.null_marker else line, headers

    def _split(self, line: bytes, separator: bytes, what: str) -> tuple[bytes | None, bytes]:
        before, found, after = line.partition(separator)
        if found:
            return before, after
        if self.ignore_error:
            return None, line
        raise LineError(f"no {what} separator {separator!r}")


_SEPARATORS = ("key.separator", "headers.delimiter", "headers.separator", "headers.key.separator")
