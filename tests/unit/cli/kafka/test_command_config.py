from pathlib import Path

import pytest

from esp.cli.kafka.command_config import read_command_config, settings_for, using
from esp.model.errors import OperatorError


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "client.properties"
    path.write_text(text)
    return str(path)


def test_settings_have_kafka_s_names(tmp_path: Path) -> None:
    text = (
        "# a client\nclient.id = tools\nrequest.timeout.ms=5000\nbootstrap.servers=x:1\nsecurity.protocol=PLAINTEXT\n"
    )
    assert read_command_config(written(tmp_path, text)) == {"client_id": "tools", "request_timeout_ms": 5000}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("security.protocol=SASL_SSL", "without encryption"),
        ("ssl.truststore.location=/x", "without encryption"),
        ("sasl.mechanism=PLAIN", "without encryption"),
        ("request.timeout.ms=soon", "not a number"),
        ("acks=all", "no effect"),
        ("client.id=\\u12", "line 2"),
    ],
)
def test_what_is_not_kept_is_refused_with_its_line(tmp_path: Path, line: str, word: str) -> None:
    with pytest.raises(OperatorError) as refused:
        read_command_config(written(tmp_path, f"\n{line}\n"))
    assert word in refused.value.problem
    assert "line 2" in refused.value.problem


def test_settings_hold_for_one_command_and_for_clients_that_have_them() -> None:
    with using({"client_id": "a", "send_buffer_bytes": 5}):
        assert settings_for({"client_id": "x"}) == {"client_id": "a"}
    assert settings_for({"client_id": "x"}) == {}
