"""OpenSSL's contexts for the two ends of a listener's connections, made from what its stores hold."""

import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from esp.model.errors import OperatorError
from esp.model.tls import TLS_1_2, TLS_1_3, ClientAuth, TlsPolicy
from esp.runtime.tls.failures import describe
from esp.runtime.tls.stores import Identity, Trust, read_identity_blocking, read_trust_blocking

_VERSIONS: Final = {TLS_1_2: ssl.TLSVersion.TLSv1_2, TLS_1_3: ssl.TLSVersion.TLSv1_3}
_VERIFY_MODES: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
_ROUNDS_MAX: Final = 10


class TlsContexts(NamedTuple):
    """The contexts that the stores of a listener give, at one time."""

    identity: Identity | None
    """None of a mere client without a key store."""
    trust: Trust | None
    """The contents of the trust store; None: the system's authorities are trusted."""
    server: ssl.SSLContext | None
    """For connections that others make to this node; None of a mere client."""
    client: ssl.SSLContext
    """For connections that this node makes."""


def load_contexts_blocking(policy: TlsPolicy) -> TlsContexts:
    """Read the stores of a listener or a mere client, and make contexts of them; those between nodes are tried on one another.

    Raises:
        OperatorError: the stores cannot be used.
    """
    if not policy.listener:
        identity, trust = _read_client_stores_blocking(policy)
        return TlsContexts(identity, trust, None, _make_client_context(policy, identity, trust))
    identity, trust = read_identity_blocking(policy), read_trust_blocking(policy)
    try:
        contexts = TlsContexts(
            identity, trust, _server_context(policy, identity, trust), _client_context(policy, identity, trust)
        )
    except ssl.SSLError as error:
        raise _refused_by_openssl(policy, error) from error
    if policy.is_between_nodes:
        _try_on_each_other(policy, contexts)
    return contexts


def _read_client_stores_blocking(policy: TlsPolicy) -> tuple[Identity | None, Trust | None]:
    return read_identity_blocking(policy) if policy.key_store.is_given else None, read_trust_blocking(policy)


def load_client_context_blocking(policy: TlsPolicy) -> ssl.SSLContext:
    """Read a client's stores, of which there may be none, and make a context of them.

    Raises:
        OperatorError: the stores cannot be used.
    """
    return _make_client_context(policy, *_read_client_stores_blocking(policy))


def _make_client_context(policy: TlsPolicy, identity: Identity | None, trust: Trust | None) -> ssl.SSLContext:
    try:
        return _client_context(policy, identity, trust)
    except ssl.SSLError as error:
        raise _refused_by_openssl(policy, error) from error


def _refused_by_openssl(policy: TlsPolicy, error: ssl.SSLError) -> OperatorError:
    return OperatorError(
        f"{policy.owner}: OpenSSL refuses its keys, certificates or cipher suites: {describe(error)}",
        "Keys need 2048 bits of RSA or an elliptic curve, certificates SHA-256 or better.",
    )


def _server_context(policy: TlsPolicy, identity: Identity, trust: Trust | None) -> ssl.SSLContext:
    context = _context(ssl.PROTOCOL_TLS_SERVER, policy, identity)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.verify_mode = _VERIFY_MODES[policy.client_auth]
    if policy.client_auth is not ClientAuth.NONE:
        # a session that is resumed brings its certificate along without another look at it
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        assert trust is not None, "settings that ask for certificates say whose are believed"
        _load_trust(context, trust)
    return context


def _client_context(policy: TlsPolicy, identity: Identity | None, trust: Trust | None) -> ssl.SSLContext:
    context = _context(ssl.PROTOCOL_TLS_CLIENT, policy, identity)
    context.check_hostname = policy.checks_hosts
    if trust is None:
        context.load_default_certs()
    else:
        _load_trust(context, trust)
    return context


def _context(protocol: int, policy: TlsPolicy, identity: Identity | None) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version, context.maximum_version = _VERSIONS[policy.versions[0]], _VERSIONS[policy.versions[-1]]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if policy.ciphers:
        context.set_ciphers(":".join(policy.ciphers))
    if identity is not None:
        with _private_file(identity.key + identity.chain) as path:
            context.load_cert_chain(path)
    return context


def _load_trust(context: ssl.SSLContext, trust: Trust) -> None:
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java, what is trusted need not be signed by itself
    if trust.has_revocations:
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    with _private_file(trust.pem) as path:
        context.load_verify_locations(path)


@contextmanager
def _private_file(data: bytes) -> Iterator[str]:
    """Give OpenSSL, which takes names of files only, bytes that shall stand in none: on Linux they stay in memory."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as temporary:  # only its owner may read it
            temporary.write(data)
            temporary.flush()
            yield temporary.name


def _try_on_each_other(policy: TlsPolicy, contexts: TlsContexts) -> None:
    """Agree with ourselves as two nodes will, but for the name of the host: that is another one for each node.

    Raises:
        OperatorError: the trust store does not believe the key store.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    checks_hosts, contexts.client.check_hostname = contexts.client.check_hostname, False
    assert contexts.server is not None, "nodes connect to a listener"
    client = contexts.client.wrap_bio(to_client, to_server)
    server = contexts.server.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(_ROUNDS_MAX):
            waiting = 0
            for end in (client, server):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    waiting += 1
            if not waiting:
                break
    except ssl.SSLError as error:
        raise OperatorError(
            f"The listener {policy.listener}: nodes of the cluster connect to it, but its trust store does not believe its own key "
            f"store: {describe(error)}",
            "Put the certificate of the authority that signed ssl.keystore's certificate into ssl.truststore, and the certificates "
            "between them into the key store.",
        ) from error
    finally:
        contexts.client.check_hostname = checks_hosts
