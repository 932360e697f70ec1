"""The distinguished name of a certificate's subject as Java writes it (RFC 2253, ``X500Principal.getName``): ``CN=carol,OU=Data,C=DE``.

Kafka's principals are made of it, so every character counts: a rule of access that names one must find the same one here. The certificate
is given as DER whose form OpenSSL has checked by then; what is still no certificate is a ValueError, never another name.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_ID: Final = 0x06
_VERSION: Final = 0xA0
_TEXT_TAGS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: the others are written as ``#`` and hexadecimal digits."""

_LONG_LENGTH: Final = 0x80
_LENGTH_BYTES_MAX: Final = 4
_MORE: Final = 0x80

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"


class _Element(NamedTuple):
    """One element of DER: its tag, its contents, and its bytes as a whole."""

    tag: int
    contents: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """Return the name of a certificate's subject; empty if it has none.

    Raises:
        ValueError: the bytes are no certificate in DER.
    """
    outer, _ = _read(certificate, 0)
    to_be_signed, _ = _read(_expect(outer, _SEQUENCE), 0)
    fields = list(_elements(_expect(to_be_signed, _SEQUENCE)))
    first = 1 if fields and fields[0].tag == _VERSION else 0
    if len(fields) < first + 5:
        raise ValueError("it has too few fields")
    return write_name(fields[first + 4].whole)  # behind serial number, algorithm, issuer and validity


def write_name(name: bytes) -> str:
    """Return the text of a Name in DER.

    Raises:
        ValueError: it is none.
    """
    element, _ = _read(name, 0)
    relative = [
        "+".join(_write_attribute(attribute) for attribute in _elements(_expect(part, _SET)))
        for part in _elements(_expect(element, _SEQUENCE))
    ]
    return ",".join(reversed(relative))


def _write_attribute(attribute: _Element) -> str:
    parts = list(_elements(_expect(attribute, _SEQUENCE)))
    if len(parts) != 2:
        raise ValueError("an attribute of a name has a type and a value")
    kind, value = _object_id(_expect(parts[0], _OBJECT_ID)), parts[1]
    keyword = _KEYWORDS.get(kind)
    if keyword is None or value.tag not in _TEXT_TAGS:
        return f"{keyword or kind}=#{value.whole.hex()}"
    return f"{keyword}={_escape(value.contents.decode('utf-8', 'replace'))}"  # Java reads all kinds of text so


def _escape(text: str) -> str:
    escaped = ["\\" + each if each in _ESCAPED else "\\00" if each == "\0" else each for each in text]
    written = "".join(escaped)
    inner = written.strip(_BLANKS)
    lead = len(written) - len(written.lstrip(_BLANKS))
    return "".join(
        "\\" + each if each in _BLANKS and not lead <= place < lead + len(inner) else each
        for place, each in enumerate(written)
    )


def _object_id(contents: bytes) -> str:
    if not contents or contents[-1] & _MORE:
        raise ValueError("an object identifier is cut off")
    numbers: list[int] = []
    number = 0
    for byte in contents:
        number = number << 7 | byte & ~_MORE
        if not byte & _MORE:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(contents: bytes) -> Iterator[_Element]:
    position = 0
    while position < len(contents):
        element, position = _read(contents, position)
        yield element


def _read(data: bytes, start: int) -> tuple[_Element, int]:
    """Return the element at a place, and the place behind it."""
    position = start + 2
    if position > len(data):
        raise ValueError("an element is cut off")
    length = data[start + 1]
    if length & _LONG_LENGTH:
        size = length & ~_LONG_LENGTH
        if not 0 < size <= _LENGTH_BYTES_MAX or position + size > len(data):
            raise ValueError("the length of an element makes no sense")
        length = int.from_bytes(data[position : position + size])
        position += size
    end = position + length
    if end > len(data):
        raise ValueError("an element is cut off")
    return _Element(data[start], data[position:end], data[start:end]), end


def _expect(element: _Element, tag: int) -> bytes:
    if element.tag != tag:
        raise ValueError(f"the tag {element.tag:#x} stands in place of {tag:#x}")
    return element.contents
