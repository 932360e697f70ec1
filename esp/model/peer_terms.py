"""The terms of connections to another node: encryption, and the log-in that the other side asks for."""

from typing import Final, NamedTuple

from esp.model.sasl_login import SaslLogin
from esp.model.tls import TlsPolicy


class PeerTerms(NamedTuple):
    """The terms of connections to the listeners of one name."""

    tls: TlsPolicy | None
    """The terms of encryption; None for plaintext."""
    login: SaslLogin | None
    """The log-in; None where the listener asks for none."""


PLAINTEXT: Final = PeerTerms(None, None)
"""The terms of connections that are neither encrypted nor authenticated."""
