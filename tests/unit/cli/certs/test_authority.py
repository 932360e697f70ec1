"""What is certified, as the nodes' own code and OpenSSL see it."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from esp.cli.certs.authority import EARLIER, Certified, Wanted, certify, hosts_of, make_authority, read_certified
from esp.model.errors import OperatorError
from esp.model.tls import ClientAuth, KeyStore, StoreType, TlsPolicy, TrustStore
from esp.runtime.tls.contexts import load_client_context_blocking, load_contexts_blocking
from tests.unit.runtime.tls.test_endpoint import agree_both

NOW = datetime.now(UTC).replace(microsecond=0)
AUTHORITY = make_authority("ESP", 3650, NOW)
NODE = certify(AUTHORITY, Wanted("broker1", ("localhost", "127.0.0.1"), 30), NOW)
CLIENT = certify(AUTHORITY, Wanted("carol", (), 30), NOW)
PEM = AUTHORITY.certificate.public_bytes(Encoding.PEM).decode()


def stores(own):
    return {
        "key_store": KeyStore(
            StoreType.PEM, key=own.key_pem.decode(), chain=own.pem.decode().split("-----END PRIVATE KEY-----")[1]
        ),
        "trust_store": TrustStore(StoreType.PEM, certificates=PEM),
    }


def test_nodes_and_clients_agree():
    contexts = load_contexts_blocking(
        TlsPolicy("OUT", client_auth=ClientAuth.REQUIRED, is_between_nodes=True, **stores(NODE))
    )
    _, there = agree_both(contexts.server, contexts.client)
    assert there.getpeercert(binary_form=True)
    client = load_client_context_blocking(TlsPolicy("", **stores(CLIENT)))
    here, there = agree_both(contexts.server, client)
    assert here.getpeercert()["subjectAltName"] == (("DNS", "localhost"), ("IP Address", "127.0.0.1"))
    assert there.getpeercert()["subject"] == ((("commonName", "carol"),),)


def test_a_client_s_certificate_is_for_no_node():
    with pytest.raises(OperatorError, match="not for servers"):
        load_contexts_blocking(TlsPolicy("OUT", **stores(CLIENT)))


def test_a_certificate_signs_no_other():
    forged = certify(NODE, Wanted("mallory", (), 30), NOW)
    contexts = load_contexts_blocking(TlsPolicy("OUT", client_auth=ClientAuth.REQUIRED, **stores(NODE)))
    chain = forged.certificate.public_bytes(Encoding.PEM) + NODE.certificate.public_bytes(Encoding.PEM)
    key_store = KeyStore(StoreType.PEM, key=forged.key_pem.decode(), chain=chain.decode())
    client = load_client_context_blocking(TlsPolicy("", **(stores(CLIENT) | {"key_store": key_store})))
    with pytest.raises(ssl.SSLError, match="invalid CA certificate"):
        agree_both(contexts.server, client)


def test_what_an_authority_has_issued_stays_good_when_it_is_renewed():
    renewed = make_authority("ESP", 3650, NOW + timedelta(days=1), AUTHORITY.key)
    assert renewed.certificate.serial_number != AUTHORITY.certificate.serial_number
    CLIENT.certificate.verify_directly_issued_by(renewed.certificate)


def test_a_certificate_begins_before_it_is_made_and_ends_with_its_authority_at_the_latest():
    short = make_authority("short", 10, NOW)
    issued = certify(short, Wanted("a", (), 30), NOW).certificate
    assert issued.not_valid_before_utc == NOW - EARLIER
    assert issued.not_valid_after_utc == short.certificate.not_valid_after_utc
    assert NODE.certificate.not_valid_after_utc == NOW + timedelta(days=30)


def test_keys_and_certificates_are_read_as_they_were_written():
    assert read_certified(NODE.pem, NODE.pem).certificate == NODE.certificate
    assert hosts_of(NODE.certificate) == ("localhost", "127.0.0.1")
    assert hosts_of(CLIENT.certificate) == ()
    with pytest.raises(ValueError, match="another key"):
        read_certified(CLIENT.key_pem, NODE.pem)
    with pytest.raises(ValueError):  # noqa: PT011  # cryptography's words
        read_certified(b"none", NODE.pem)


@pytest.mark.parametrize("wanted", [Wanted("", (), 1), Wanted("a" * 65, (), 1), Wanted("a", ("höst",), 1)])
def test_what_cannot_stand_in_a_certificate_is_refused(wanted):
    with pytest.raises(ValueError):  # noqa: PT011  # cryptography's words
        certify(AUTHORITY, wanted, NOW)


def test_a_key_is_shown_in_no_text():
    assert "PRIVATE" not in repr(Certified(NODE.key, NODE.certificate))
