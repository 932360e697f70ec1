"""PEM: the text form of keys, certificates and revocation lists, as it stands in files and in settings."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

CERTIFICATE: Final = "CERTIFICATE"
REVOCATIONS: Final = "X509 CRL"
_KEY_END: Final = "PRIVATE KEY"

_BLOCK: Final = re.compile(
    r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<headers>(?:\s*[A-Za-z0-9-]+:[^\n]*\n)*)(?P<body>[A-Za-z0-9+/=\s]*)-----END (?P=label)-----"
)
_LINE_CHARACTERS: Final = 64


class PemBlock(NamedTuple):
    """One object of a text: its label, as ``CERTIFICATE``, and its own text with the usual line breaks."""

    label: str
    text: str

    @property
    def is_key(self) -> bool:
        """True if it is a private key, of whatever kind."""
        return self.label.endswith(_KEY_END)


def split_pem(text: str) -> list[PemBlock]:
    """Return the objects of a text in their order. What stands between them is left out; line breaks may be any blanks, as in Kafka."""
    return [_block(match) for match in _BLOCK.finditer(text)]


def join_pem(blocks: Iterable[PemBlock]) -> str:
    """Return the text of objects."""
    return "".join(block.text for block in blocks)


def _block(match: "re.Match[str]") -> PemBlock:
    label, headers, body = match["label"], match["headers"].strip(), "".join(match["body"].split())
    lines = [body[start : start + _LINE_CHARACTERS] for start in range(0, len(body), _LINE_CHARACTERS)]
    head = [*(line.strip() for line in headers.splitlines()), ""] if headers else []
    return PemBlock(label, "\n".join((f"-----BEGIN {label}-----", *head, *lines, f"-----END {label}-----", "")))
