"""Makes an authority, and has it certify the keys of nodes and clients: elliptic curve P-256, SHA-256, X.509 version 3.

The certificates satisfy :mod:`esp.runtime.tls`, OpenSSL and Java: an authority may sign certificates and revocation lists and nothing
else, a certificate is for servers, for clients or for both, and for the host names and addresses that it names.
"""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

EARLIER: Final = timedelta(hours=1)
"""A certificate counts from so long before it is made: other machines' clocks differ."""


class Certified(NamedTuple):
    """A private key, and the certificate of it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        """The key, then the certificate: a key store of type PEM."""
        return self.key_pem + self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key in PKCS#8, unencrypted."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class Wanted(NamedTuple):
    """The certificate that is asked for."""

    name: str
    """The common name."""
    hosts: Sequence[str]
    """Host names and addresses of a node; none of a mere client."""
    days: int

    @property
    def is_of_node(self) -> bool:
        """True for a node, which others connect to and which connects to others."""
        return bool(self.hosts)


def make_authority(name: str, days: int, now: datetime, key: ec.EllipticCurvePrivateKey | None = None) -> Certified:
    """Return a new authority, which has signed its own certificate.

    Args:
        name: its common name.
        days: the days for which it counts.
        now: the present time, with its zone.
        key: the key of an authority that is renewed: what it has signed stays good.

    Raises:
        ValueError: the name cannot stand in a certificate.
    """
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    usage = _usage(signs_certificates=True)
    certificate = (
        _builder(subject, subject, key.public_key(), days, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Certified(key, certificate)


def certify(authority: Certified, wanted: Wanted, now: datetime) -> Certified:
    """Return a new key with a certificate of an authority, which ends when that does at the latest.

    Raises:
        ValueError: the name or a host cannot stand in a certificate.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if wanted.is_of_node:
        purposes.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
    issuer = authority.certificate
    builder = (
        _builder(_name(wanted.name), issuer.subject, key.public_key(), wanted.days, now, issuer.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    if wanted.is_of_node:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_host, wanted.hosts))), critical=False)
    return Certified(key, builder.sign(authority.key, hashes.SHA256()))


def read_certified(key: bytes, certificate: bytes) -> Certified:
    """Read a key and the certificate of it, both in PEM.

    Raises:
        ValueError: they are none of those that are made here, or do not belong together.
    """
    try:
        found = load_pem_private_key(key, None)
    except TypeError as error:
        raise ValueError("its key is encrypted") from error
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise ValueError("its key is not of an elliptic curve")
    public_key = found.public_key()
    own = next((each for each in x509.load_pem_x509_certificates(certificate) if each.public_key() == public_key), None)
    if own is None:
        raise ValueError("its certificate is of another key")
    return Certified(found, own)


def common_name(certificate: x509.Certificate) -> str:
    """The common name of a certificate's subject; empty if it has none."""
    names = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def hosts_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """The host names and addresses that a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in names)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    days: int,
    now: datetime,
    latest: datetime | None = None,
) -> x509.CertificateBuilder:
    ends = now + timedelta(days=days)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=public,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - EARLIER,
        not_valid_after=ends if latest is None else min(ends, latest),
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
