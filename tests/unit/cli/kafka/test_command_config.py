import ssl
from pathlib import Path

import pytest

from esp.cli.kafka.command_config import read_command_config, settings_for, using
from esp.model.errors import OperatorError
from tests.models.certificates import PASSWORD, Authority


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
        ("security.protocol=SASL_SSL", "without SASL"),
        ("ssl.truststore.location=/x", "no effect while security.protocol is PLAINTEXT"),
        ("sasl.mechanism=PLAIN", "no SASL"),
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


def test_a_client_with_a_certificate_speaks_tls_as_its_file_says(tmp_path: Path) -> None:
    authority = Authority()
    trusted = authority.write_pem(tmp_path / "ca.pem")
    own = authority.issue("CN=carol", hosts=()).write_pkcs12(tmp_path / "carol.p12")
    text = (
        f"security.protocol=SSL\nssl.truststore.location={trusted}\nssl.keystore.location={own}\n"
        f"ssl.keystore.password={PASSWORD}\nclient.id=tools\n"
    )
    settings = read_command_config(written(tmp_path, text))
    context = settings.pop("ssl_context")
    assert settings == {"security_protocol": "SSL", "client_id": "tools"}
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert [each["subject"] for each in context.get_ca_certs()] == [((("commonName", "Test CA"),),)]


def test_the_check_of_host_names_is_switched_off_by_an_empty_setting_only(tmp_path: Path) -> None:
    trusted = Authority().write_pem(tmp_path / "ca.pem")
    text = f"security.protocol=SSL\nssl.truststore.location={trusted}\nssl.endpoint.identification.algorithm="
    assert not read_command_config(written(tmp_path, text))["ssl_context"].check_hostname


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ("ssl.client.auth=required", "no effect on these tools"),
        ("ssl.provider=x", "no providers of Java's"),
        ("ssl.keystore.type=JCEKS", "ssl.keystore.type"),
        ("ssl.truststore.location=/missing", "/missing"),
    ],
)
def test_settings_of_tls_that_cannot_be_kept_are_refused(tmp_path: Path, lines: str, word: str) -> None:
    with pytest.raises(OperatorError) as refused:
        read_command_config(written(tmp_path, f"security.protocol=SSL\n{lines}\n"))
    assert word in refused.value.problem
    assert "listener" not in refused.value.problem
