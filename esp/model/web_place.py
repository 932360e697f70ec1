"""A place that is named by an ``https:`` or ``file:`` URL: an identity provider's endpoint, or a file in its stead."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

_HTTPS: Final = "https"
_FILE: Final = "file"
HTTPS_PORT: Final = 443


@dataclass(frozen=True, slots=True)
class WebPlace:
    """The parts of a URL.

    Attributes:
        url: the text, as it was given.
        host: of an endpoint, empty for a file.
        port: of an endpoint.
        target: the path and the query of an endpoint, as a request names them.
        path: of a file, absolute; empty for an endpoint.
    """

    url: str
    host: str = ""
    port: int = 0
    target: str = ""
    path: str = ""

    def __str__(self) -> str:
        """Return the URL."""
        return self.url


def parse_web_place(url: str) -> WebPlace:
    """Read a URL.

    Raises:
        ValueError: it is malformed, or of another scheme: tokens and keys that travel unencrypted prove nothing.
    """
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("a URL has printable ASCII characters only, and no blanks")
    parts = urlsplit(url)
    if parts.scheme == _FILE:
        path = unquote(parts.path)
        if parts.netloc not in ("", "localhost") or not path.startswith("/") or parts.query or parts.fragment:
            raise ValueError("a file is named by its whole path, for example file:///etc/esp/jwks.json")
        return WebPlace(url, path=path)
    if parts.scheme != _HTTPS:
        raise ValueError("it must begin with https:// or file:///")
    if not parts.hostname or "@" in parts.netloc or parts.fragment:
        raise ValueError("an endpoint is named by host and path, for example https://login.example/keys")
    port = parts.port  # ValueError: it is no number
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebPlace(url, parts.hostname, port or HTTPS_PORT, target)
