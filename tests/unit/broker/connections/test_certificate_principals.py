import pytest

from esp.broker.connections.certificate_principals import CertificatePrincipals
from esp.broker.request import ClientContext
from esp.ports.network import Address
from tests.models.certificates import Authority

CAROL = Authority().issue("CN=carol,OU=Data").der


@pytest.fixture
def client():
    return ClientContext("SSL", Address("127.0.0.1", 5))


def test_the_principal_is_the_name_of_the_certificate_by_the_rules(client):
    CertificatePrincipals("DEFAULT").authenticate(client, CAROL)
    assert client.principal == "User:CN=carol,OU=Data"
    CertificatePrincipals("RULE:^CN=(.*?),.*$/$1/U").authenticate(client, CAROL)
    assert client.principal == "User:CAROL"


def test_a_client_without_a_certificate_stays_anonymous(client):
    CertificatePrincipals("DEFAULT").authenticate(client, None)
    assert client.principal == "User:ANONYMOUS"


@pytest.mark.parametrize(
    ("certificate", "words"), [(CAROL, "no rule"), (CAROL[:50], "cannot be read")], ids=["unnamed", "cut"]
)
def test_a_client_that_gets_no_name_is_refused_with_a_line(client, caplog, certificate, words):
    with pytest.raises(ConnectionAbortedError):
        CertificatePrincipals("RULE:^CN=dave$/x/").authenticate(client, certificate)
    assert client.principal == "User:ANONYMOUS"
    assert words in caplog.text
    assert "127.0.0.1:5" in caplog.text


def test_a_name_with_a_line_break_makes_one_line(client, caplog):
    forger = Authority().issue(r"CN=mallory\0AINFO all is well").der
    with pytest.raises(ConnectionAbortedError):
        CertificatePrincipals("RULE:^CN=dave$/x/").authenticate(client, forger)
    (line,) = caplog.messages
    assert line.isprintable()
    assert "all is well" in line


@pytest.mark.parametrize(
    ("certificate", "rules"),
    [(Authority().issue("").der, "DEFAULT"), (CAROL, "RULE:^CN=.*$//")],
    ids=["no subject", "an empty name by a rule"],
)
def test_a_client_whose_name_would_be_empty_is_refused(client, caplog, certificate, rules):
    with pytest.raises(ConnectionAbortedError):
        CertificatePrincipals(rules).authenticate(client, certificate)
    assert client.principal == "User:ANONYMOUS"
    assert "no rule of ssl.principal.mapping.rules names a principal" in caplog.text
