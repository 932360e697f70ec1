"""The syntax of Java properties files, in which Kafka's ``server.properties`` and ``meta.properties`` are written.

One ``name=value`` a line; ``:`` or blanks separate as well. Lines that begin with ``#`` or ``!`` are comments; a backslash at the end
of a line joins the next one to it; elsewhere it escapes: ``\\t \\n \\r \\f``, ``\\uXXXX``, and any other character for itself.
"""

from typing import Final, NamedTuple

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """One entry of a file. ``line`` is the number of the line it begins on, from 1."""

    name: str
    value: str
    line: int


def parse_properties(text: str) -> list[Property]:
    """Return the entries of a file in its order. A name may stand more than once; for Java the last one counts.

    Raises:
        ValueError: a ``\\u`` is not followed by four hexadecimal digits; the message names the line.
    """
    return [_parse_entry(content, line) for content, line in _logical_lines(text)]


def _logical_lines(text: str) -> list[tuple[str, int]]:
    """Return the lines that hold entries, continuations joined, each with the number of its first line."""
    logical: list[tuple[str, int]] = []
    joined: str | None = None
    first = 0
    for number, natural in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        content = natural.lstrip(_BLANKS)
        if joined is None:
            if not content or content[0] in "#!":
                continue
            joined, first = "", number
        backslashes = len(content) - len(content.rstrip("\\"))
        if backslashes % 2:
            joined += content[:-1]
            continue
        logical.append((joined + content, first))
        joined = None
    if joined is not None:  # the file ends in a continuation
        logical.append((joined, first))
    return logical


def _parse_entry(content: str, line: int) -> Property:
    end = 0
    while end < len(content) and content[end] not in "=:" + _BLANKS:
        end += 2 if content[end] == "\\" else 1
    name, rest = content[:end], content[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return Property(_unescape(name, line), _unescape(rest, line), line)


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            parts.append(character)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            position += 4
            try:
                if len(digits) < 4:
                    raise ValueError
                parts.append(chr(int(digits, 16)))
            except ValueError:
                raise ValueError(f"line {line}: \\u{digits} is not followed by four hexadecimal digits") from None
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    text = "".join(parts)
    # Java writes a character beyond the 16 bits of an escape as two of them.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
