"""The chain of certificates by which OpenSSL has believed a peer.

Python 3.10 has it under a name that became public in 3.13.
"""

import _ssl
import ssl
import sys

from esp.runtime.tls.peers import Chain


def proved_chain(engine: ssl.SSLObject) -> Chain:
    """The chain by which the peer was believed when the connection became secure; empty if it has shown no certificate.

    Of a session that was resumed it is what the peer has shown when the session began: its own certificate, and those between.
    """
    own = engine.getpeercert(binary_form=True)
    if own is None:
        return ()
    return _verified_chain(engine) or _shown_chain(engine) or (own,)


def _verified_chain(engine: ssl.SSLObject) -> Chain:
    if sys.version_info >= (3, 13):
        return tuple(engine.get_verified_chain())
    return _in_der(engine._sslobj.get_verified_chain())  # type: ignore[attr-defined]  # noqa: SLF001


def _shown_chain(engine: ssl.SSLObject) -> Chain:
    if sys.version_info >= (3, 13):
        return tuple(engine.get_unverified_chain())
    return _in_der(engine._sslobj.get_unverified_chain())  # type: ignore[attr-defined]  # noqa: SLF001


def _in_der(found: "list[_ssl.Certificate] | None") -> Chain:
    return tuple(certificate.public_bytes(_ssl.ENCODING_DER) for certificate in found or ())
