"""Stores of keys and certificates, good ones and each kind of bad one."""

import base64
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from esp.model.errors import OperatorError
from esp.model.tls import ClientAuth, KeyStore, StoreType, TlsPolicy, TrustStore
from esp.runtime.tls.stores import read_identity_blocking, read_trust_blocking
from tests.models.certificates import DAY, PASSWORD, Authority

AUTHORITY = Authority()
ISSUED = AUTHORITY.issue("CN=node,O=Org")
PEM = StoreType.PEM


def identity(store: KeyStore, **options):
    return read_identity_blocking(TlsPolicy("OUT", store, **options))


def trust(store: TrustStore):
    return read_trust_blocking(TlsPolicy("OUT", trust_store=store))


def refused(store: KeyStore | TrustStore, **options) -> str:
    with pytest.raises(OperatorError) as caught:
        identity(store, **options) if isinstance(store, KeyStore) else trust(store)
    assert "The listener OUT: ssl." in caught.value.problem
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


def pem_file(path: Path, *texts: str) -> KeyStore:
    path.write_text("".join(texts))
    return KeyStore(PEM, str(path))


@pytest.mark.parametrize("kind", list(StoreType))
def test_a_pkcs12_store_is_read_also_under_java_s_default_name(tmp_path, kind):
    path = str(ISSUED.write_pkcs12(tmp_path / "k"))
    if kind is PEM:
        assert "private keys in it" in refused(KeyStore(kind, path))
    else:
        assert identity(KeyStore(kind, path, PASSWORD)).certificate == ISSUED.certificate


def test_the_chain_of_a_pkcs12_store_begins_with_the_key_s_own_certificate(tmp_path):
    chain = identity(KeyStore(StoreType.PKCS12, str(ISSUED.write_pkcs12(tmp_path / "k")), PASSWORD)).chain
    assert chain.decode() == ISSUED.certificate_pem + AUTHORITY.pem


def test_pem_is_read_from_a_file_and_from_texts_with_and_without_a_password(tmp_path):
    stores = [
        KeyStore(PEM, str(ISSUED.write_pem(tmp_path / "a"))),
        KeyStore(PEM, str(ISSUED.write_pem(tmp_path / "b", PASSWORD)), key_password=PASSWORD),
        KeyStore(PEM, key=ISSUED.key_pem(), chain=ISSUED.certificate_pem),
        KeyStore(PEM, key=ISSUED.key_pem(PASSWORD), chain=ISSUED.certificate_pem, key_password=PASSWORD),
    ]
    read = [identity(store) for store in stores]
    assert {one.key for one in read} == {ISSUED.key_pem().encode()}
    assert {one.subject for one in read} == {"CN=node,O=Org"}
    assert read[0].hosts == {"127.0.0.1", "localhost"}


def test_a_key_of_rsa_does_as_well(tmp_path):
    issued = AUTHORITY.issue(key=rsa.generate_private_key(65537, 2048))
    assert identity(KeyStore(PEM, str(issued.write_pem(tmp_path / "k")))).certificate == issued.certificate


@pytest.mark.parametrize(
    ("texts", "options", "words"),
    [
        ([], {}, "there are 0 private keys"),
        ([ISSUED.key_pem(), ISSUED.key_pem()], {}, "there are 2 private keys"),
        ([ISSUED.key_pem()], {}, "no certificate"),
        ([ISSUED.key_pem(), AUTHORITY.pem], {}, "does not belong to the first certificate"),
        ([ISSUED.key_pem(PASSWORD), ISSUED.certificate_pem], {}, "needs ssl.key.password"),
        ([ISSUED.key_pem(), ISSUED.certificate_pem], {"key_password": PASSWORD}, "is not encrypted"),
        ([ISSUED.key_pem("other"), ISSUED.certificate_pem], {"key_password": PASSWORD}, "does not open"),
        ([ISSUED.key_pem().replace("M", "A", 40)], {}, "cannot be read"),
        ([ISSUED.key_pem(), ISSUED.certificate_pem.replace("M", "A", 40)], {}, "cannot be read"),
    ],
)
def test_a_bad_pem_key_store_is_refused_with_the_fault(tmp_path, texts, options, words):
    store = pem_file(tmp_path / "k", *texts)
    assert words in refused(KeyStore(store.type, store.location, **options))


def test_a_certificate_out_of_date_is_refused(tmp_path):
    now = datetime.now(UTC)
    old, new = AUTHORITY.issue(ends=now - DAY / 2), AUTHORITY.issue(begins=now + DAY / 2)
    assert "ended at" in refused(KeyStore(PEM, str(old.write_pem(tmp_path / "old"))))
    assert "begins at" in refused(KeyStore(PEM, str(new.write_pem(tmp_path / "new"))))


def test_a_certificate_for_another_purpose_is_refused(tmp_path):
    client = AUTHORITY.issue(purposes=[ExtendedKeyUsageOID.CLIENT_AUTH]).write_pem(tmp_path / "c")
    server = AUTHORITY.issue(purposes=[ExtendedKeyUsageOID.SERVER_AUTH]).write_pem(tmp_path / "s")
    assert "not for servers" in refused(KeyStore(PEM, str(client)))
    between = {"is_between_nodes": True, "client_auth": ClientAuth.REQUIRED}
    assert "not for clients" in refused(KeyStore(PEM, str(server)), **between)
    assert identity(KeyStore(PEM, str(server)))
    assert identity(KeyStore(PEM, str(AUTHORITY.issue(purposes=[]).write_pem(tmp_path / "any"))), **between)


def test_java_s_own_format_is_refused_with_the_command_that_converts_it(tmp_path):
    path = tmp_path / "k.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    for store in (KeyStore(location=str(path)), TrustStore(location=str(path))):
        assert f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12" in refused(
            store
        )


def test_a_store_that_cannot_be_opened_is_refused(tmp_path):
    assert "No such file" in refused(KeyStore(PEM, str(tmp_path / "none")))
    pkcs12 = str(ISSUED.write_pkcs12(tmp_path / "k"))
    assert "its password is another one" in refused(KeyStore(StoreType.PKCS12, pkcs12, "wrong"))
    assert "without a password" in refused(KeyStore(StoreType.PKCS12, pkcs12))
    assert "PKCS12 has one password" in refused(KeyStore(StoreType.PKCS12, pkcs12, PASSWORD, key_password="other"))
    assert "it is PEM" in refused(KeyStore(StoreType.PKCS12, str(ISSUED.write_pem(tmp_path / "p"))))
    assert "no private key" in refused(
        KeyStore(location=str(AUTHORITY.write_pkcs12(tmp_path / "t")), password=PASSWORD)
    )


def test_trusted_certificates_are_read_from_pem_texts_and_java_s_pkcs12(tmp_path):
    stores = [
        TrustStore(PEM, str(AUTHORITY.write_pem(tmp_path / "a"))),
        TrustStore(PEM, certificates=AUTHORITY.pem),
        TrustStore(StoreType.JKS, str(AUTHORITY.write_pkcs12(tmp_path / "b")), PASSWORD),
    ]
    assert {trust(store).pem.decode() for store in stores} == {AUTHORITY.pem}
    assert trust(TrustStore()) is None


def test_revocation_lists_must_be_there_for_every_authority_and_new(tmp_path):
    other = Authority("CN=Other CA")
    good = trust(TrustStore(PEM, certificates=AUTHORITY.pem + AUTHORITY.revocations_pem()))
    assert good.has_revocations
    assert timedelta(0) < good.revocations_end - datetime.now(UTC) <= DAY
    assert "X509 CRL" in good.pem.decode()
    assert trust(TrustStore(PEM, certificates=AUTHORITY.pem)).revocations_end is None
    assert "none of CN=Other CA" in refused(
        TrustStore(PEM, certificates=AUTHORITY.pem + other.pem + AUTHORITY.revocations_pem())
    )
    late = AUTHORITY.revocations_pem(renewed=datetime.now(UTC) - DAY)
    assert "was to be renewed" in refused(TrustStore(PEM, certificates=AUTHORITY.pem + late))
    assert "no certificate" in refused(TrustStore(PEM, certificates=AUTHORITY.revocations_pem()))


def spoilt(pem: str) -> Iterator[str]:
    """A block of PEM with one of its bytes changed, each in turn."""
    label, der = re.fullmatch(r"-----BEGIN ([A-Z0-9 ]+)-----\n(.+)-----END .+", pem, re.DOTALL).groups()
    good = base64.b64decode(der)
    for place in range(len(good)):
        for change in (0x08, 0x70):
            bad = bytearray(good)
            bad[place] ^= change
            yield f"-----BEGIN {label}-----\n{base64.encodebytes(bad).decode()}-----END {label}-----\n"


def test_a_spoilt_certificate_or_list_is_refused_as_an_operator_s_error_or_taken():
    """Nothing else may come of files that are changed while a node runs."""
    faults = set()

    def read(policy: TlsPolicy) -> None:
        for read_blocking in (read_identity_blocking, read_trust_blocking):
            try:
                read_blocking(policy)
            except OperatorError as error:
                faults.add(error.problem)

    key, trusted = ISSUED.key_pem(), AUTHORITY.pem
    lists = AUTHORITY.revocations_pem()
    good = KeyStore(PEM, key=key, chain=ISSUED.certificate_pem)
    for bad in spoilt(ISSUED.certificate_pem):
        read(TlsPolicy("OUT", KeyStore(PEM, key=key, chain=bad), TrustStore(PEM, certificates=trusted)))
    for bad in spoilt(trusted):
        read(TlsPolicy("OUT", good, TrustStore(PEM, certificates=bad + lists)))
    for bad in spoilt(lists):
        read(TlsPolicy("OUT", good, TrustStore(PEM, certificates=trusted + bad)))
    assert any("cannot be read: " in fault for fault in faults)
