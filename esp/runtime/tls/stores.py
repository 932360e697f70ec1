"""The stores of keys and certificates: read from PEM and PKCS12, and looked at before anything is proved by them.

Every fault is an OperatorError that names the listener, the setting, the fault and the way out; no message holds a secret.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NoReturn

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from esp.model.errors import OperatorError
from esp.model.tls import ClientAuth, KeyStore, StoreType, TlsPolicy, TrustStore
from esp.runtime.tls.pem import CERTIFICATE, REVOCATIONS, PemBlock, join_pem, split_pem

_JKS_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM_MARK: Final = b"-----BEGIN "
_MALFORMED: Final = (
    ValueError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""The errors for certificates and lists that are spoilt, which the library may notice only when a part of them is asked for."""
_STORE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Larger than any store: a file of this size is another one."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key with its certificates, the key's own first; all in PEM."""

    key: bytes
    chain: bytes
    certificate: x509.Certificate

    @property
    def subject(self) -> str:
        """The certificate's distinguished name."""
        return self.certificate.subject.rfc4514_string()

    @property
    def hosts(self) -> frozenset[str]:
        """The host names and addresses that the certificate is for."""
        try:
            names = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return frozenset()
        return frozenset(str(name.value) for name in names)


@dataclass(frozen=True, slots=True)
class Trust:
    """Trusted certificates, and revocation lists, in PEM."""

    pem: bytes
    has_revocations: bool
    revocations_end: datetime | None = None
    """The time by which the first of the revocation lists must have been renewed."""


def read_identity_blocking(policy: TlsPolicy) -> Identity:
    """Read the key store of a listener or a client, and look at it: the key fits, the dates are right, the purpose is.

    Raises:
        OperatorError: it cannot be used.
    """
    store = policy.key_store
    place = _Place(policy.owner, "ssl.keystore.location" if store.location else "ssl.keystore.key", store.location)
    with place.refusing_malformed():
        return _read_identity(place, store, policy)


def _read_identity(place: "_Place", store: KeyStore, policy: TlsPolicy) -> Identity:
    key, chain = _read_key_store(place, store)
    if not chain:
        place.refuse(
            "there is no certificate in it",
            "Put the certificate behind the private key, then those of its authorities.",
        )
    leaf = chain[0]
    if _encoded(key.public_key()) != _encoded(leaf.public_key()):
        place.refuse(
            "the private key does not belong to the first certificate",
            "Put the key's own certificate first, then those of its authorities.",
        )
    _check_dates(place, leaf)
    _check_purpose(place, leaf, policy)
    identity = Identity(
        key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        chain=b"".join(certificate.public_bytes(Encoding.PEM) for certificate in chain),
        certificate=leaf,
    )
    _names = identity.subject, identity.hosts  # asked for later too, where a spoilt one could not be refused
    return identity


def read_trust_blocking(policy: TlsPolicy) -> Trust | None:
    """Read the trust store of a listener or a client; None if there is none.

    Where it has revocation lists, each of its authorities must have one that is not out of date: otherwise a certificate that should be
    refused could not be told from one that is good.

    Raises:
        OperatorError: it cannot be used.
    """
    store = policy.trust_store
    if not store.is_given:
        return None
    setting = "ssl.truststore.location" if store.location else "ssl.truststore.certificates"
    place = _Place(policy.owner, setting, store.location)
    with place.refusing_malformed():
        return _read_trust(place, store)


def _read_trust(place: "_Place", store: TrustStore) -> Trust:
    certificates, lists = _read_trust_store(place, store)
    if not certificates:
        place.refuse("there is no certificate in it", "Put the certificates of the trusted authorities there.")
    if lists:
        _check_revocations(place, certificates, lists)
    parts = [certificate.public_bytes(Encoding.PEM) for certificate in certificates]
    parts += (each.public_bytes(Encoding.PEM) for each in lists)
    ends = [each.next_update_utc for each in lists if each.next_update_utc is not None]
    return Trust(b"".join(parts), has_revocations=bool(lists), revocations_end=min(ends, default=None))


def read_revocations_blocking(policy: TlsPolicy) -> list[tuple[str, datetime | None]]:
    """Return the revocation lists of a trust store, also those that are out of date: the authority, and the time of its next list.

    Raises:
        OperatorError: the store cannot be read.
    """
    store = policy.trust_store
    if not store.is_given:
        return []
    setting = "ssl.truststore.location" if store.location else "ssl.truststore.certificates"
    place = _Place(policy.owner, setting, store.location)
    with place.refusing_malformed():
        _, lists = _read_trust_store(place, store)
        return [(each.issuer.rfc4514_string(), each.next_update_utc) for each in lists]


def check_successor(policy: TlsPolicy, present: Identity, new: Identity) -> None:
    """Hold a new certificate against the present one (``ssl.allow.dn.changes``, ``ssl.allow.san.changes``): it must be for the same node.

    Raises:
        OperatorError: it is for another.
    """
    place = _Place(policy.owner, "ssl.keystore.location", policy.key_store.location)
    if new.subject != present.subject and not policy.allows_other_subject:
        place.refuse(
            f"its certificate is {new.subject}, but the present one is {present.subject}",
            "Put a certificate of the same name there, or set ssl.allow.dn.changes=true and restart the node.",
        )
    missing = present.hosts - new.hosts
    if missing and not policy.allows_other_hosts:
        place.refuse(
            f"its certificate is not for {', '.join(sorted(missing))}, as the present one is",
            "Put a certificate for these hosts there, or set ssl.allow.san.changes=true and restart the node.",
        )


class _Place:
    """The place of a store, for messages."""

    def __init__(self, owner: str, setting: str, location: str) -> None:
        self.location = location
        self._shown = f"{owner}: {setting}" + (f"={location}" if location else "")

    def refuse(self, reason: str, remedy: str, cause: Exception | None = None) -> NoReturn:
        raise OperatorError(f"{self._shown}: {reason}", remedy) from cause

    @contextmanager
    def refusing_malformed(self) -> Iterator[None]:
        """Refuse the store if a certificate or a list in it turns out to be spoilt."""
        try:
            yield
        except _MALFORMED as error:
            self.refuse(
                f"a certificate or a revocation list in it cannot be read: {error}", "Put it there again.", error
            )

    def read_blocking(self, kind: StoreType) -> bytes:
        """Return the file's bytes, if it is none of Java's own formats."""
        try:
            with open(self.location, "rb") as file:
                data = file.read(_STORE_BYTES_MAX)
        except OSError as error:
            self.refuse(error.strerror or str(error), "Name a file that the node's user can read.", error)
        if data.startswith(_JKS_MAGIC):
            self.refuse(
                "it is in Java's own format, which only Java reads",
                f"Convert it: keytool -importkeystore -srckeystore {self.location} -destkeystore {self.location}.p12 "
                "-deststoretype PKCS12; then name the new file.",
            )
        if data.lstrip().startswith(_PEM_MARK) and kind is StoreType.PKCS12:
            self.refuse("it is PEM, not PKCS12", "Set the store's type to PEM.")
        return data


def _read_key_store(place: _Place, store: KeyStore) -> tuple[PrivateKeyTypes, Sequence[x509.Certificate]]:
    if not store.location:
        return _read_pem_identity(place, store.key + "\n" + store.chain, store.key_password)
    data = place.read_blocking(store.type)
    if _is_pem(data, store.type):
        return _read_pem_identity(place, data.decode("latin-1"), store.key_password)
    if store.key_password and store.key_password != store.password:
        place.refuse(
            "ssl.key.password is another one than ssl.keystore.password, but PKCS12 has one password",
            "Leave ssl.key.password out.",
        )
    bag = _open_pkcs12(place, data, store.password, "ssl.keystore.password")
    if bag.key is None:
        place.refuse("there is no private key in it", "Name the store that holds the node's private key.")
    leaf = [bag.cert.certificate] if bag.cert is not None else []
    return bag.key, _in_order(leaf, [each.certificate for each in bag.additional_certs])


def _read_pem_identity(place: _Place, text: str, password: str) -> tuple[PrivateKeyTypes, Sequence[x509.Certificate]]:
    blocks = split_pem(text)
    keys = [block for block in blocks if block.is_key]
    if len(keys) != 1:
        place.refuse(
            f"there are {len(keys)} private keys in it, not one", "Put one private key and its certificates there."
        )
    try:
        key = load_pem_private_key(keys[0].text.encode(), password.encode() or None)
    except TypeError as error:
        needs = "needs ssl.key.password" if not password else "is not encrypted, and ssl.key.password is given"
        place.refuse(f"its private key {needs}", "Correct ssl.key.password.", error)
    except (ValueError, UnsupportedAlgorithm) as error:
        problem = "ssl.key.password does not open its private key" if password else "its private key cannot be read"
        place.refuse(problem, "Give the key in PKCS#8 with the right password, or without one.", error)
    return key, _certificates(place, blocks)


def _read_trust_store(
    place: _Place, store: TrustStore
) -> tuple[list[x509.Certificate], list[x509.CertificateRevocationList]]:
    if not store.location:
        return _read_pem_trust(place, store.certificates)
    data = place.read_blocking(store.type)
    if _is_pem(data, store.type):
        return _read_pem_trust(place, data.decode("latin-1"))
    bag = _open_pkcs12(place, data, store.password, "ssl.truststore.password")
    return [each.certificate for each in bag.additional_certs], []


def _read_pem_trust(place: _Place, text: str) -> tuple[list[x509.Certificate], list[x509.CertificateRevocationList]]:
    blocks = split_pem(text)
    try:
        lists = [x509.load_pem_x509_crl(block.text.encode()) for block in blocks if block.label == REVOCATIONS]
    except ValueError as error:
        place.refuse("a revocation list in it cannot be read", "Put the list there again, in PEM.", error)
    return _certificates(place, blocks), lists


def _is_pem(data: bytes, kind: StoreType) -> bool:
    return kind is StoreType.PEM or data.lstrip().startswith(_PEM_MARK)


def _certificates(place: _Place, blocks: Iterable[PemBlock]) -> list[x509.Certificate]:
    text = join_pem(block for block in blocks if block.label == CERTIFICATE)
    try:
        return x509.load_pem_x509_certificates(text.encode()) if text else []
    except ValueError as error:
        place.refuse("a certificate in it cannot be read", "Put the certificate there again, in PEM.", error)


def _open_pkcs12(place: _Place, data: bytes, password: str, setting: str) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(data, password.encode() or None)
    except (ValueError, UnsupportedAlgorithm) as error:
        place.refuse(
            "it is no PKCS12 store, or its password is another one"
            if password
            else "it is no PKCS12 store without a password",
            f"Correct {setting}, or the type of the store.",
            error,
        )


def _in_order(leaf: list[x509.Certificate], others: list[x509.Certificate]) -> list[x509.Certificate]:
    """Return the chain that begins with the leaf: a PKCS12 store keeps no order."""
    chain = leaf
    left = list(others)
    while chain:
        issuer = next((each for each in left if each.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        left.remove(issuer)
        chain = [*chain, issuer]
    return chain


def _encoded(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _check_dates(place: _Place, certificate: x509.Certificate) -> None:
    now = datetime.now(UTC)
    if certificate.not_valid_after_utc <= now:
        place.refuse(
            f"its certificate ended at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC", "Put a new one there."
        )
    if certificate.not_valid_before_utc > now:
        place.refuse(
            f"its certificate begins at {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC only",
            "Put one there that is valid now, or set the machine's clock.",
        )


def _check_purpose(place: _Place, certificate: x509.Certificate, policy: TlsPolicy) -> None:
    try:
        purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if not policy.listener:
        if ExtendedKeyUsageOID.CLIENT_AUTH not in purposes:
            place.refuse("its certificate is not for clients", "Have it issued with the extended key usage clientAuth.")
        return
    if ExtendedKeyUsageOID.SERVER_AUTH not in purposes:
        place.refuse("its certificate is not for servers", "Have it issued with the extended key usage serverAuth.")
    connects_too = policy.is_between_nodes and policy.client_auth is not ClientAuth.NONE
    if connects_too and ExtendedKeyUsageOID.CLIENT_AUTH not in purposes:
        place.refuse(
            "its certificate is not for clients, but this node connects to the others with it",
            "Have it issued with the extended key usages serverAuth and clientAuth.",
        )


def _check_revocations(
    place: _Place, certificates: Iterable[x509.Certificate], lists: Iterable[x509.CertificateRevocationList]
) -> None:
    by_issuer = {each.issuer: each for each in lists}
    now = datetime.now(UTC)
    for certificate in certificates:
        name = certificate.subject.rfc4514_string()
        found = by_issuer.get(certificate.subject)
        if found is None:
            place.refuse(
                f"it has revocation lists, but none of {name}", "Add a list of each authority, or remove all of them."
            )
        if found.next_update_utc is not None and found.next_update_utc <= now:
            place.refuse(
                f"the revocation list of {name} was to be renewed at {found.next_update_utc:%Y-%m-%d %H:%M} UTC",
                "Put the authority's newest list there.",
            )
