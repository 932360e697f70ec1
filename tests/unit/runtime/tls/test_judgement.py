"""Chains that are held against a trust store, with the chain that Python's OpenSSL gives after a handshake."""

import ssl

import pytest

from esp.runtime.tls.chains import proved_chain
from esp.runtime.tls.judgement import find_untrusted_blocking
from esp.runtime.tls.stores import Trust
from tests.models.certificates import Authority
from tests.unit.runtime.tls.test_endpoint import agree_both

ROOT = Authority("CN=Root")
BETWEEN = ROOT.issue_authority("CN=Between")
CAROL = BETWEEN.issue("CN=carol")
CHAIN = (CAROL.der, BETWEEN.certificate_der, ROOT.certificate_der)


def trust(*authorities, lists=()):
    return Trust("".join([*(each.pem for each in authorities), *lists]).encode(), has_revocations=bool(lists))


def judged(store, chain=CHAIN):
    return find_untrusted_blocking(store, [chain]).get(chain)


@pytest.fixture
def client(tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=ROOT.pem)
    path = tmp_path / "carol.pem"
    path.write_text(CAROL.key_pem() + CAROL.certificate_pem + BETWEEN.pem)
    context.load_cert_chain(path)
    return context


@pytest.fixture
def server(tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ROOT.issue("CN=node").write_pem(tmp_path / "node.pem"))
    context.load_verify_locations(cadata=ROOT.pem)
    return context


def test_the_chain_is_that_which_was_believed(server, client):
    server.verify_mode = ssl.CERT_REQUIRED
    _, there = agree_both(server, client)
    assert proved_chain(there) == CHAIN


def test_a_peer_without_a_certificate_has_no_chain(server, client):
    _, there = agree_both(server, client)
    assert proved_chain(there) == ()


def test_a_chain_is_believed_by_each_of_its_authorities():
    assert judged(trust(ROOT)) is None
    assert judged(trust(BETWEEN)) is None, "what is trusted need not be signed by itself"
    assert judged(trust(ROOT), CHAIN[:2]) is None, "the chain need not bring its root"


def test_a_chain_of_an_authority_that_is_gone_is_not():
    assert "unable to get" in judged(trust(Authority("CN=Other"))) or "self-signed" in judged(
        trust(Authority("CN=Other"))
    )
    assert judged(trust(ROOT), CHAIN[:1]) is not None, "nobody says who is between"


def test_a_chain_with_a_revoked_certificate_is_not():
    assert judged(trust(ROOT, lists=(ROOT.revocations_pem(), BETWEEN.revocations_pem()))) is None
    revoking = Authority("CN=Revoking")
    dave = revoking.issue("CN=dave")
    lists = (revoking.revoke(dave).revocations_pem(),)
    chain = (dave.der, revoking.certificate_der)
    assert "revoked" in judged(trust(revoking, lists=lists), chain)
