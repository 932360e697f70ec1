import copy
import re
import ssl
from pathlib import Path

import pytest

from esp.cli.kafka.command_config import SASL_LOGIN, read_command_config, settings_for, using
from esp.cli.kafka.login import LibraryLogin, refused_login
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
        ("security.protocol=TLS", "there is no such protocol"),
        ("ssl.truststore.location=/x", "no effect while security.protocol is PLAINTEXT"),
        ("sasl.mechanism=PLAIN", "no effect while security.protocol is PLAINTEXT"),
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


PROVIDERS = """config.providers=file,env
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
"""


def test_values_may_stand_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLS_PASSWORD", "open sesame")
    (tmp_path / "others").write_text("id=tools\n")
    text = (
        f"{PROVIDERS}client.id=${{file:{tmp_path}/others:id}}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="alice" password="${env:TOOLS_PASSWORD}";\n'
    )
    settings = read_command_config(written(tmp_path, text))
    assert settings["client_id"] == "tools"
    assert settings["sasl_plain_password"] == "open sesame"


def test_without_providers_a_reference_is_a_text(tmp_path: Path) -> None:
    assert read_command_config(written(tmp_path, "client.id=${env:NAME}\n")) == {"client_id": "${env:NAME}"}


def test_a_reference_that_leads_nowhere_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as refused:
        read_command_config(written(tmp_path, f"{PROVIDERS}client.id=${{env:NO_SUCH_NAME}}\n"))
    assert "line 4: client.id: ${env:NO_SUCH_NAME}: there is no such variable" in refused.value.problem


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


MODULE = "org.apache.kafka.common.security"
JAAS = f'sasl.jaas.config={MODULE}.scram.ScramLoginModule required \\\n  username="alice" \\\n  password="a \\\\"secret\\\\"";\n'


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_client_logs_in_as_its_file_says(tmp_path: Path, mechanism: str) -> None:
    settings = read_command_config(
        written(tmp_path, f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n{JAAS}")
    )
    login = settings.pop(SASL_LOGIN)
    assert settings == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": 'a "secret"',
    }
    assert (login.mechanism.value, login.username, login.password) == (mechanism, "alice", 'a "secret"')
    with using({SASL_LOGIN: login}):
        assert settings_for({SASL_LOGIN: None}) == {SASL_LOGIN: login}


def test_a_client_logs_in_by_a_delegation_token(tmp_path: Path) -> None:
    jaas = JAAS.replace(";", ' tokenauth="true";')
    settings = read_command_config(
        written(tmp_path, f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n{jaas}")
    )
    assert settings[SASL_LOGIN].is_token
    known = {"sasl_mechanism", "sasl_plain_username", "sasl_plain_password"}
    login = LibraryLogin(**copy.deepcopy({name: settings[name] for name in known}))  # the library copies its settings
    assert re.fullmatch(rb"n,,n=alice,r=[^,]+,tokenauth=true", login.auth_bytes())
    with using(settings):
        assert "esp tokens create" in refused_login("a:1", "no").remedy
    assert "esp users rotate" in refused_login("a:1", "no").remedy


def test_a_login_over_tls_has_the_terms_of_both(tmp_path: Path) -> None:
    trusted = Authority().write_pem(tmp_path / "ca.pem")
    plain = f'sasl.jaas.config={MODULE}.plain.PlainLoginModule required username="a" password="b";'
    text = f"security.protocol=SASL_SSL\nssl.truststore.location={trusted}\nsasl.mechanism=PLAIN\n{plain}\n"
    settings = read_command_config(written(tmp_path, text))
    assert settings["ssl_context"].verify_mode is ssl.CERT_REQUIRED
    assert (settings["security_protocol"], settings["sasl_mechanism"]) == ("SASL_SSL", "PLAIN")


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (JAAS, "needs sasl.mechanism"),
        ("sasl.mechanism=SCRAM-SHA-256", "needs sasl.jaas.config"),
        (f"sasl.mechanism=PLAIN\n{JAAS}", "login module is not the one of PLAIN"),
        (f"sasl.mechanism=GSSAPI\n{JAAS}", "these tools do not have it"),
        (f"sasl.mechanism=SCRAM-SHA-256\nsasl.kerberos.service.name=kafka\n{JAAS}", "no Kerberos"),
        (f"sasl.mechanism=SCRAM-SHA-256\nsasl.enabled.mechanisms=PLAIN\n{JAAS}", "no effect on these tools"),
        (f"sasl.mechanism=SCRAM-SHA-256\nssl.truststore.location=/x\n{JAAS}", "ssl settings have no effect"),
        (
            f'sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={MODULE}.scram.ScramLoginModule required username="secret";',
            "needs the option password",
        ),
        ("sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config=secret", "line 3: sasl.jaas.config"),
    ],
)
def test_logins_that_cannot_be_made_are_refused(tmp_path: Path, lines: str, word: str) -> None:
    with pytest.raises(OperatorError) as refused:
        read_command_config(written(tmp_path, f"security.protocol=SASL_PLAINTEXT\n{lines}\n"))
    assert word in refused.value.problem
