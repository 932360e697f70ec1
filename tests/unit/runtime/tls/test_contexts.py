import os
import ssl
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from esp.model.errors import OperatorError
from esp.model.tls import TLS_1_2, ClientAuth, KeyStore, StoreType, TlsPolicy, TrustStore
from esp.runtime.tls.contexts import load_contexts_blocking
from tests.models.certificates import Authority

AUTHORITY = Authority()
ISSUED = AUTHORITY.issue()
STORE = KeyStore(StoreType.PEM, key=ISSUED.key_pem(), chain=ISSUED.certificate_pem)
TRUST = TrustStore(StoreType.PEM, certificates=AUTHORITY.pem)


def test_nothing_old_is_offered():
    server = load_contexts_blocking(TlsPolicy("OUT", STORE)).server
    assert server.minimum_version is ssl.TLSVersion.TLSv1_2
    assert server.options & ssl.OP_NO_RENEGOTIATION
    assert server.options & ssl.OP_NO_COMPRESSION


def test_versions_and_suites_are_those_of_the_policy():
    policy = TlsPolicy("OUT", STORE, versions=(TLS_1_2,), ciphers=("ECDHE-ECDSA-AES128-GCM-SHA256",))
    server = load_contexts_blocking(policy).server
    assert server.maximum_version is ssl.TLSVersion.TLSv1_2
    offered = [cipher["name"] for cipher in server.get_ciphers() if cipher["protocol"] == "TLSv1.2"]
    assert offered == ["ECDHE-ECDSA-AES128-GCM-SHA256"]


def test_no_tickets_are_given_where_clients_show_certificates():
    server = load_contexts_blocking(TlsPolicy("OUT", STORE, TRUST, client_auth=ClientAuth.REQUESTED)).server
    assert server.num_tickets == 0
    assert server.options & ssl.OP_NO_TICKET
    assert server.verify_mode is ssl.CERT_OPTIONAL


def test_a_node_that_connects_checks_the_other_s_host_name_unless_told_not_to():
    assert load_contexts_blocking(TlsPolicy("OUT", STORE, TRUST)).client.check_hostname
    assert not load_contexts_blocking(TlsPolicy("OUT", STORE, TRUST, checks_hosts=False)).client.check_hostname
    tried = load_contexts_blocking(TlsPolicy("OUT", STORE, TRUST, is_between_nodes=True))
    assert tried.client.check_hostname, "also after the contexts were tried on one another"


def test_a_key_that_openssl_finds_too_weak_is_refused_in_words():
    weak = AUTHORITY.issue(key=rsa.generate_private_key(65537, 1024))
    store = KeyStore(StoreType.PEM, key=weak.key_pem(), chain=weak.certificate_pem)
    with pytest.raises(OperatorError, match="2048 bits"):
        load_contexts_blocking(TlsPolicy("OUT", store))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a private file is made for a moment")
def test_the_private_key_stands_in_no_file_and_no_descriptor_is_left():
    before = os.listdir("/proc/self/fd")
    load_contexts_blocking(TlsPolicy("OUT", STORE, TRUST))
    assert len(os.listdir("/proc/self/fd")) == len(before)
