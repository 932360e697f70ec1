"""The files of nodes with ``--secure``."""

import json
import logging
from pathlib import Path

import pytest
from cryptography import x509

from esp.cli.certs.authority import hosts_of
from esp.cli.node.security import Security
from esp.model.ids import NodeId
from esp.runtime.env import real_env
from esp.settings.properties import parse_properties


def test_java_reads_the_settings_of_clients_whatever_the_path(tmp_path: Path) -> None:
    directory = tmp_path / "Sécurité \\ 😀"
    security = Security(directory)
    security.create_blocking(real_env().random)
    security.write_client_settings_blocking("127.0.0.1:9092")
    text = security.command_config.read_text("iso-8859-1")  # as Java does
    assert text.isascii()
    read = {each.name: each.value for each in parse_properties(text)}
    trusted = str(directory / "certs" / "ca.pem")
    assert read["ssl.truststore.location"] == trusted
    assert read["bootstrap.servers"] == "127.0.0.1:9092"
    admin = directory / "admin"
    assert f"ssl.ca.location={trusted}\n" in (admin / "librdkafka.properties").read_text("utf-8")
    assert json.loads((admin / "kafka-python.json").read_text("utf-8"))["ssl_cafile"] == trusted
    assert json.loads((admin / "spark.json").read_text("utf-8"))["kafka.ssl.truststore.location"] == trusted


def made(directory: Path) -> Security:
    security = Security(directory / "security")
    security.create_blocking(real_env().random)
    return security


def hosts(security: Security) -> tuple[str, ...]:
    return hosts_of(x509.load_pem_x509_certificate((security.path / "certs" / "node-1.pem").read_bytes()))


def test_a_node_that_is_found_at_another_host_gets_a_certificate_for_it_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    security = made(tmp_path)
    security.settings_of_blocking(NodeId(1), ("localhost", "::1"))
    store = security.path / "certs" / "node-1.pem"
    before = store.read_bytes()
    security.settings_of_blocking(NodeId(1), ("LOCALHOST", "0:0:0:0:0:0:0:1"))
    assert (store.read_bytes(), caplog.records) == (before, [])
    security.settings_of_blocking(NodeId(1), ("localhost", "broker1.example", "10.0.0.1"))
    assert hosts(security) == ("localhost", "::1", "broker1.example", "10.0.0.1")
    assert "was not for broker1.example, 10.0.0.1: it is renewed" in caplog.text
    assert store.stat().st_mode & 0o077 == 0
    trusted = x509.load_pem_x509_certificate((store.parent / "ca.pem").read_bytes())
    x509.load_pem_x509_certificate(store.read_bytes()).verify_directly_issued_by(trusted)


@pytest.mark.parametrize("key", [None, b"garbage"])
def test_without_the_key_of_the_authority_a_warning_names_the_hosts_and_the_command(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: bytes | None
) -> None:
    security = made(tmp_path)
    security.settings_of_blocking(NodeId(1), ("localhost",))
    path = security.path / "certs" / "ca-key.pem"
    path.unlink() if key is None else path.write_bytes(key)
    security.settings_of_blocking(NodeId(1), ("localhost", "broker1.example"))
    assert hosts(security) == ("localhost",)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "is not known to be for broker1.example, and cannot be renewed" in caplog.text
    assert (
        f"esp certs issue node-1 --dir {path.parent} --host localhost --host broker1.example --replace" in caplog.text
    )


def test_a_certificate_of_another_authority_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    security, other = made(tmp_path), made(tmp_path / "other")
    for each in (security, other):
        each.settings_of_blocking(NodeId(1), ("localhost",))
    foreign = (other.path / "certs" / "node-1.pem").read_bytes()
    store = security.path / "certs" / "node-1.pem"
    store.write_bytes(foreign)
    security.settings_of_blocking(NodeId(1), ("localhost", "broker1.example"))
    assert store.read_bytes() == foreign
    assert "of another authority" in caplog.text
