"""The chain of certificates by which OpenSSL has believed a peer.

Python 3.10 has it under a name that became public in 3.13.
"""

import _ssl
import ssl
import sys

from esp.runtime.tls.peers import Chain


def proved_chain(engine: ssl.SSLObject) -> Chain:
    """The chain by which the peer was believed when the connection became secure; empty if it has shown no certificate.

    Of a session that was resumed only the peer's own certificate may be known.
    """
    own = engine.getpeercert(binary_form=True)
    if own is None:
        return ()
    return _verified_chain(engine) or (own,)


def _verified_chain(engine: ssl.SSLObject) -> Chain:
    if sys.version_info >= (3, 13):
        return tuple(engine.get_verified_chain())
    found = engine._sslobj.get_verified_chain() or ()  # type: ignore[attr-defined]  # noqa: SLF001
    return tuple(certificate.public_bytes(_ssl.ENCODING_DER) for certificate in found)
