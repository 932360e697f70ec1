"""Authorities and certificates that tests make for themselves: P-256, valid for a day, for the loopback address unless asked otherwise."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

DAY = timedelta(days=1)
BOTH = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
LOOPBACK = ("127.0.0.1", "localhost")
PASSWORD = "open sesame"
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def name_of(text: str) -> x509.Name:
    """A name by its RFC 4514 text."""
    return x509.Name.from_rfc4514_string(text)


def encryption(password: str | None) -> KeySerializationEncryption:
    return BestAvailableEncryption(password.encode()) if password else NoEncryption()


@dataclass
class Issued:
    """A certificate with its key, and the authority that issued it."""

    key: PrivateKey
    certificate: x509.Certificate
    authority: x509.Certificate

    def key_pem(self, password: str | None = None) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption(password)).decode()

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        """Write the key with its certificate."""
        path.write_text(self.key_pem(password) + self.certificate_pem)
        return path

    def write_pkcs12(self, path: Path, password: str = PASSWORD) -> Path:
        data = pkcs12.serialize_key_and_certificates(
            b"node", self.key, self.certificate, [self.authority], encryption(password)
        )
        path.write_bytes(data)
        return path


class Authority:
    """Issues certificates and revokes them; an authority without an issuer has signed its own."""

    def __init__(self, name: str = "CN=Test CA", issuer: "Authority | None" = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = name_of(name)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        signer = issuer or self
        self.certificate = (
            _builder(self.name, signer.name, self.key.public_key(), datetime.now(UTC) - DAY, datetime.now(UTC) + DAY)
            .add_extension(constraints, critical=True)
            .sign(signer.key, hashes.SHA256())
        )
        self.revoked: list[x509.Certificate] = []

    def issue(
        self,
        name: str = "CN=node",
        *,
        hosts: Sequence[str] = LOOPBACK,
        purposes: Sequence[x509.ObjectIdentifier] = BOTH,
        begins: datetime | None = None,
        ends: datetime | None = None,
        key: PrivateKey | None = None,
    ) -> Issued:
        now = datetime.now(UTC)
        key = key or ec.generate_private_key(ec.SECP256R1())
        builder = _builder(name_of(name), self.name, key.public_key(), begins or now - DAY, ends or now + DAY)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        if purposes:
            builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        return Issued(key, builder.sign(self.key, hashes.SHA256()), self.certificate)

    def issue_authority(self, name: str) -> "Authority":
        """An authority between this one and the certificates that it issues."""
        return Authority(name, self)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def certificate_der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def revoke(self, issued: Issued) -> Self:
        self.revoked.append(issued.certificate)
        return self

    def revocations_pem(self, *, renewed: datetime | None = None) -> str:
        now = datetime.now(UTC)
        builder = x509.CertificateRevocationListBuilder(self.name, now - 2 * DAY, renewed or now + DAY)
        for certificate in self.revoked:
            entry = x509.RevokedCertificateBuilder(certificate.serial_number, now - DAY).build()
            builder = builder.add_revoked_certificate(entry)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()

    def write_pem(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def write_pkcs12(self, path: Path, password: str = PASSWORD) -> Path:
        """Write the certificate as Java's keytool does: as trusted, without a key."""
        entry = pkcs12.PKCS12Certificate(self.certificate, b"ca")
        path.write_bytes(pkcs12.serialize_java_truststore([entry], encryption(password)))
        return path


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
    begins: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number(), begins, ends)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
