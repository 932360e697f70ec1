"""The stores of a client that runs for long: new certificates are used from the next connection on."""

from pathlib import Path

import pytest

from esp.consumer.errors import ConsumerError
from esp.consumer.security import ClientStores, read_security
from tests.models.certificates import Authority

AUTHORITY = Authority()
CAROL, DAVE = AUTHORITY.issue("CN=carol"), AUTHORITY.issue("CN=dave")


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    trusted = AUTHORITY.write_pem(tmp_path / "ca.pem")
    own = CAROL.write_pem(tmp_path / "own.pem")
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own),
    }


def test_files_are_read_once_and_again_when_they_have_changed(settings: dict[str, str], tmp_path: Path) -> None:
    stores = ClientStores(read_security(settings))
    first = stores.context_blocking()
    assert stores.context_blocking() is first
    DAVE.write_pem(tmp_path / "own.pem")
    second = stores.context_blocking()
    assert second is not first
    assert stores.context_blocking() is second
    other = Authority("CN=Other CA")
    (tmp_path / "ca.pem").write_text(AUTHORITY.pem + other.pem)
    third = stores.context_blocking()
    assert len(third.get_ca_certs()) == len(second.get_ca_certs()) + 1


def test_files_that_cannot_be_used_yet_leave_those_before_in_force(settings: dict[str, str], tmp_path: Path) -> None:
    stores = ClientStores(read_security(settings))
    first = stores.context_blocking()
    (tmp_path / "own.pem").write_text(CAROL.key_pem() + DAVE.certificate_pem)
    assert stores.context_blocking() is first
    (tmp_path / "own.pem").unlink()
    assert stores.context_blocking() is first
    DAVE.write_pem(tmp_path / "own.pem")
    assert stores.context_blocking() is not first


def test_files_that_were_never_of_use_are_told(settings: dict[str, str]) -> None:
    stores = ClientStores(read_security(settings | {"ssl.keystore.location": "/none"}))
    with pytest.raises(ConsumerError, match="/none"):
        stores.context_blocking()


def test_no_password_stands_in_the_terms_as_text() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="hidden-one";'
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    stores = {"ssl.truststore.location": "/t", "ssl.truststore.password": "hidden-two"}
    security = read_security(settings | stores)
    assert "hidden" not in repr(security)
