"""Holds chains of certificates against a trust store, outside a handshake.

OpenSSL judges, by the rules of handshakes. Only a store that changes and sessions that are resumed need this module, which a node loads
then.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from cryptography import x509
from OpenSSL import crypto

from esp.runtime.tls.peers import Chain, read_certificate
from esp.runtime.tls.pem import CERTIFICATE, REVOCATIONS, split_pem
from esp.runtime.tls.stores import Trust

_STORES_KEPT: Final = 8
"""Enough for a node's listeners: a flood of sessions that are resumed does not have them read each time."""


def find_untrusted_blocking(trust: Trust, chains: Iterable[Chain]) -> dict[Chain, str]:
    """Return the chains that do not satisfy a trust store, each with OpenSSL's reason.

    Raises:
        ValueError: a certificate cannot be read.
    """
    store = _store(trust)
    untrusted: dict[Chain, str] = {}
    for chain in chains:
        own, *others = (crypto.X509.from_cryptography(read_certificate(each)) for each in chain)
        try:
            crypto.X509StoreContext(store, own, others).verify_certificate()
        except crypto.X509StoreContextError as error:
            untrusted[chain] = str(error)
    return untrusted


@lru_cache(maxsize=_STORES_KEPT)
def _store(trust: Trust) -> crypto.X509Store:
    store = crypto.X509Store()
    flags = crypto.X509StoreFlags.PARTIAL_CHAIN
    if trust.has_revocations:
        flags |= crypto.X509StoreFlags.CRL_CHECK | crypto.X509StoreFlags.CRL_CHECK_ALL
    store.set_flags(flags)
    for block in split_pem(trust.pem.decode()):
        pem = block.text.encode()
        if block.label == CERTIFICATE:
            store.add_cert(crypto.X509.from_cryptography(x509.load_pem_x509_certificate(pem)))
        elif block.label == REVOCATIONS:
            store.add_crl(x509.load_pem_x509_crl(pem))
    return store
