"""The directory of an authority: its certificate and key, and a key store for each node and client.

``ca.pem`` is the certificate, which is no secret: nodes and clients trust it. ``ca-key.pem`` and ``NAME.pem`` (key, then certificate) only
their owner may read.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from esp.cli.certs.authority import Certified, Wanted, certify, common_name, hosts_of, make_authority, read_certified
from esp.cli.whole_files import PUBLIC, SECRET, make_private_directory_blocking, write_whole_blocking
from esp.model.errors import OperatorError
from esp.runtime.tls.pem import CERTIFICATE, split_pem

AUTHORITY_FILE: Final = "ca.pem"
AUTHORITY_KEY_FILE: Final = "ca-key.pem"
_AUTHORITY_NAMES: Final = ("ca", "ca-key")
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Listed(NamedTuple):
    """A certificate of the directory."""

    name: str
    """The name of its file without ``.pem``; ``ca`` is the authority's own."""
    certificate: x509.Certificate


class CertificateDirectory:
    """An authority's directory.

    Args:
        path: where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def trusted(self) -> Path:
        """The certificate that nodes and clients trust."""
        return self.path / AUTHORITY_FILE

    def store_of(self, name: str) -> Path:
        """The key store of a node or a client."""
        return self.path / f"{name}.pem"

    def create_blocking(self, name: str, days: int, now: datetime) -> x509.Certificate:
        """Make an authority.

        Raises:
            OperatorError: there is one already, or the files cannot be written.
        """
        if self.trusted.exists() or (self.path / AUTHORITY_KEY_FILE).exists():
            raise OperatorError(
                f"There is an authority in {self.path} already",
                "Issue certificates of it (esp certs issue), renew it (esp certs renew), or name another --dir.",
            )
        authority = _made(lambda: make_authority(name, days, now))
        make_private_directory_blocking(self.path)
        self._write_authority(authority)
        return authority.certificate

    def issue_blocking(self, file_name: str, wanted: Wanted, now: datetime, *, replaces: bool) -> x509.Certificate:
        """Certify a new key, and write its store.

        Args:
            file_name: of the store, without ``.pem``.
            wanted: the certificate.
            now: the present time.
            replaces: whether the store may be there already.

        Raises:
            OperatorError: there is no authority, the name or a host is none, or the store is there.
        """
        if not _FILE_NAME.fullmatch(file_name) or file_name in _AUTHORITY_NAMES:
            raise OperatorError(
                f"{file_name} cannot be the name of a file here",
                "Use letters, digits, dots, dashes and underscores, and neither ca nor ca-key.",
            )
        store = self.store_of(file_name)
        if store.exists() and not replaces:
            raise OperatorError(
                f"{store} is there already", "Renew it (esp certs renew), or give --replace for another certificate."
            )
        authority = self._read_authority()
        certified = _made(lambda: certify(authority, wanted, now))
        write_whole_blocking(store, certified.pem, SECRET)
        return certified.certificate

    def renew_blocking(self, name: str, days: int, now: datetime) -> x509.Certificate:
        """Put a new key and certificate for the same name, hosts and purpose into a store; of the authority, a new certificate only.

        Raises:
            OperatorError: there is none, or it cannot be read or written.
        """
        if name == "ca":
            old = self._read_authority()
            renewed = _made(lambda: make_authority(common_name(old.certificate), days, now, old.key))
            write_whole_blocking(self.trusted, self._trusted_with(old.certificate, renewed.certificate), PUBLIC)
            return renewed.certificate
        present = self._read(self.store_of(name)).certificate
        return self.issue_blocking(name, Wanted(common_name(present), hosts_of(present), days), now, replaces=True)

    def find_missing_hosts_blocking(self, name: str, hosts: Sequence[str]) -> tuple[str, ...]:
        """Return the hosts that the certificate of a node is not for; a name in it may begin with ``*.``.

        Raises:
            OperatorError: its store cannot be read.
        """
        present = {host.lower() for host in hosts_of(self._read(self.store_of(name)).certificate)}
        return tuple(host for host in hosts if not present & {_written(host), "*." + host.lower().partition(".")[2]})

    def add_hosts_blocking(self, name: str, hosts: Sequence[str], days: int, now: datetime) -> None:
        """Put a new key and certificate into the store of a node, for further hosts too.

        Raises:
            OperatorError: the authority or the store cannot be read, the certificate is of another authority, or a host is none.
        """
        present = self._read(self.store_of(name)).certificate
        try:
            present.verify_directly_issued_by(self._read_authority().certificate)
        except (ValueError, TypeError, InvalidSignature) as error:
            raise OperatorError(f"{self.store_of(name)} is of another authority", "Have it issued there.") from error
        wanted = Wanted(common_name(present), (*hosts_of(present), *hosts), days)
        self.issue_blocking(name, wanted, now, replaces=True)

    def list_blocking(self) -> Iterator[Listed]:
        """The certificates of the directory, the authority's first.

        Raises:
            OperatorError: there is no authority, or a store cannot be read.
        """
        yield Listed("ca", self._read_authority().certificate)
        for store in sorted(self.path.glob("*.pem")):
            if store.stem not in _AUTHORITY_NAMES:
                yield Listed(store.stem, self._read(store).certificate)

    def _trusted_with(self, old: x509.Certificate, renewed: x509.Certificate) -> bytes:
        """Return what is trusted with another certificate in the place of an old one.

        All else stays: without its revocation list a client that was shut out would be let in again, and a second authority is trusted
        while nodes move from one to the other.
        """
        parts: list[bytes] = []
        for block in split_pem(self.trusted.read_text(encoding="latin-1")):
            text = block.text.encode("latin-1")
            is_old = block.label == CERTIFICATE and x509.load_pem_x509_certificate(text) == old
            parts.append(renewed.public_bytes(Encoding.PEM) if is_old else text)
        return b"".join(parts)

    def _write_authority(self, authority: Certified) -> None:
        write_whole_blocking(self.path / AUTHORITY_KEY_FILE, authority.key_pem, SECRET)
        write_whole_blocking(self.trusted, authority.certificate.public_bytes(Encoding.PEM), PUBLIC)

    def _read_authority(self) -> Certified:
        if not self.trusted.exists():
            raise OperatorError(f"There is no authority in {self.path}", "Make one: esp certs create --dir DIR")
        return self._read(self.path / AUTHORITY_KEY_FILE, self.trusted)

    def _read(self, key: Path, certificate: Path | None = None) -> Certified:
        try:
            return read_certified(key.read_bytes(), (certificate or key).read_bytes())
        except OSError as error:
            raise OperatorError(f"{key} cannot be read: {error.strerror}", "Name a file of this directory.") from error
        except ValueError as error:
            if certificate is not None:
                raise OperatorError(
                    f"{certificate} and {key} are no authority of this command: {error}",
                    "Put the certificate and the key of one authority there.",
                ) from error
            raise OperatorError(
                f"{key} is no store of this command: {error}", "Move it out of the directory."
            ) from error


def _written(host: str) -> str:
    """A host as it is written in certificates."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower()


def _made(make: Callable[[], Certified]) -> Certified:
    try:
        return make()
    except ValueError as error:
        raise OperatorError(
            f"This cannot stand in a certificate: {error}", "Give a name of 1 to 64 characters, and hosts in ASCII."
        ) from error
