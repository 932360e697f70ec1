"""The files of nodes with ``--secure``."""

import json
from pathlib import Path

from esp.cli.node.security import Security
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
