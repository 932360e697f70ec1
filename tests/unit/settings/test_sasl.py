from datetime import timedelta

import pytest

from esp.authentication.conversation import Reply
from esp.broker.authentication.answers import authenticate_response
from esp.model.errors import ApiError, OperatorError
from esp.model.sasl import BY_PASSWORD, SaslPolicy
from esp.model.tls import ClientAuth
from esp.settings.described import NodeLayers, describe_broker
from esp.settings.dynamic import validate_broker_values
from esp.settings.known import known_settings
from esp.settings.node import load_broker_settings
from esp.settings.sasl import SASL_REFUSED, SASL_SETTINGS, unprefixed

PLAIN, SCRAM_256, SCRAM_512 = BY_PASSWORD
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = f'{MODULE} required user_alice="alice-secret" user_bob="b";'
LISTENER = ("listeners=OUT://:9093", "listener.security.protocol.map=OUT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT")
CLOSED = ("connection.failed.authentication.delay.ms", "sasl.server.max.receive.size")


def policy(*overrides: str) -> SaslPolicy:
    return load_broker_settings(None, (*LISTENER, *overrides)).sasl["OUT"]


def refused(*overrides: str) -> str:
    with pytest.raises(OperatorError) as caught:
        load_broker_settings(None, overrides)
    return str(caught.value)


def test_listener_without_sasl_has_no_terms_and_nothing_is_asked_for():
    assert load_broker_settings(None, ("sasl.enabled.mechanisms=NONE", "sasl.jaas.config=x")).sasl == {}


def test_the_defaults_are_kafka_s():
    made = policy("sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256")
    assert made == SaslPolicy("OUT", (SCRAM_512, SCRAM_256), {}, {SCRAM_512: 0, SCRAM_256: 0}, 524_288, 100, 10_000)
    for name, value in zip(CLOSED, (made.failure_delay_ms, made.receive_bytes_max), strict=True):
        assert known_settings("broker")[name].default == str(value)


@pytest.mark.parametrize(
    "name",
    ["sasl.jaas.config", "listener.name.out.sasl.jaas.config", "listener.name.out.plain.sasl.jaas.config"],
)
def test_users_of_plain_are_options_of_its_login_module(name):
    made = policy("sasl.enabled.mechanisms=PLAIN", f"{name}={USERS}")
    assert made.plain_users == {"alice": "alice-secret", "bob": "b"}


def test_longest_prefix_counts_most():
    made = policy(
        "sasl.enabled.mechanisms=SCRAM-SHA-256",
        "listener.name.out.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
        f"sasl.jaas.config={SCRAM_MODULE} required;",
        f"listener.name.out.plain.sasl.jaas.config={USERS}",
        "connections.max.reauth.ms=1000",
        "listener.name.out.connections.max.reauth.ms=2000",
        "listener.name.out.scram-sha-256.connections.max.reauth.ms=3000",
        "listener.name.in.sasl.server.max.receive.size=5",
        "listener.name.out.sasl.server.max.receive.size=6",
        "connection.failed.authentication.delay.ms=7",
        "connection.authentication.timeout.ms=8",
    )
    assert made.mechanisms == (PLAIN, SCRAM_256)
    assert made.max_reauth_ms == {PLAIN: 2000, SCRAM_256: 3000}
    assert (made.receive_bytes_max, made.failure_delay_ms, made.timeout_ms) == (6, 7, 8)


def test_time_of_a_log_in_is_one_that_a_message_tells():
    made = policy("sasl.enabled.mechanisms=SCRAM-SHA-256", "connections.max.reauth.ms=9223372036854775807")
    answer = authenticate_response(Reply(lifetime_ms=made.max_reauth_ms[SCRAM_256]))
    assert answer.session_lifetime > timedelta(days=36_000)


def test_passwords_of_plain_may_be_those_of_scram():
    made = policy("sasl.enabled.mechanisms=PLAIN", "sasl.plain.credentials=scram")
    assert made.plain_users is None


def test_only_this_node_s_own_listeners_have_terms():
    settings = load_broker_settings(
        None,
        (
            "process.roles=broker",
            "node.id=2",
            "controller.quorum.bootstrap.servers=a:1",
            "listeners=OUT://:9093",
            "controller.listener.names=C",
            "listener.security.protocol.map=OUT:SASL_PLAINTEXT,C:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms=SCRAM-SHA-256",
            "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256",
            "sasl.mechanism.controller.protocol=SCRAM-SHA-256",
            f'sasl.jaas.config={SCRAM_MODULE} required username="a" password="b";',
        ),
    )
    assert list(settings.sasl) == ["OUT"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "needs a mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        (("sasl.enabled.mechanisms=",), "needs a mechanism"),
        (("sasl.enabled.mechanisms=GSSAPI",), "no Kerberos"),
        (("sasl.enabled.mechanisms=OAUTHBEARER",), "would believe any token"),
        (("sasl.enabled.mechanisms=plain",), "plain is no mechanism that is known"),
        (("sasl.enabled.mechanisms=PLAIN",), "give listener.name.out.plain.sasl.jaas.config a PlainLoginModule"),
        (("sasl.enabled.mechanisms=PLAIN", f"sasl.jaas.config={SCRAM_MODULE} required;"), "knows no user"),
        (
            ("sasl.enabled.mechanisms=PLAIN", f'sasl.jaas.config={MODULE} required username="a" password="b";'),
            "knows no user",
        ),
        (
            ("sasl.enabled.mechanisms=PLAIN", f"listener.name.out.plain.sasl.jaas.config={SCRAM_MODULE} required;"),
            "not the one of PLAIN",
        ),
        (
            ("sasl.enabled.mechanisms=PLAIN", f"listener.name.out.plain.sasl.jaas.config={USERS[:-1]}"),
            "does not end with a semicolon",
        ),
        (
            (
                "sasl.enabled.mechanisms=SCRAM-SHA-256",
                "listener.name.out.scram-sha-256.sasl.jaas.config=com.sun.security.auth.module.JndiLoginModule required;",
            ),
            "no other class is loaded",
        ),
        (
            (
                "sasl.enabled.mechanisms=PLAIN",
                "listener.name.out.plain.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required;",
            ),
            "no Kerberos",
        ),
        (("sasl.enabled.mechanisms=SCRAM-SHA-256", "connections.max.reauth.ms=-1"), "at least 0"),
        (("sasl.enabled.mechanisms=SCRAM-SHA-256", "sasl.server.max.receive.size=0"), "at least 1"),
        (("sasl.enabled.mechanisms=SCRAM-SHA-256", "connection.authentication.timeout.ms=no"), "Not a number"),
        (("sasl.enabled.mechanisms=PLAIN", "sasl.plain.credentials=ldap"), "must be one of: jaas, scram"),
        (("sasl.enabled.mechanisms=SCRAM-SHA-256", "principal.builder.class=org.example.Builder"), "must be one of"),
        (("listener.name.out.principal.builder.class=org.example.Builder",), "must be one of"),
        *(((f"{name}=x",), reason) for name, reason in SASL_REFUSED.items()),
        (
            ("sasl.enabled.mechanisms=PLAIN", "listener.name.out.plain.sasl.server.callback.handler.class=x"),
            "no foreign classes",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(given, words):
    assert words in refused(*LISTENER, *given)


def test_no_refusal_quotes_a_password():
    for text in (USERS[:-1], USERS.replace("user_", "u-"), USERS + USERS, USERS.replace('"', "")[:-1]):
        told = refused(*LISTENER, "sasl.enabled.mechanisms=PLAIN", f"listener.name.out.plain.sasl.jaas.config={text}")
        assert "secret" not in told


def test_secrets_are_not_shown():
    settings = load_broker_settings(
        None,
        (
            *LISTENER,
            "sasl.enabled.mechanisms=PLAIN",
            f"sasl.jaas.config={USERS}",
            f"listener.name.out.plain.sasl.jaas.config={USERS}",
        ),
    )
    assert "alice-secret" not in repr(settings.sasl)
    assert "alice-secret" not in repr(describe_broker(NodeLayers(settings)))


def test_every_setting_of_the_family_is_read_or_refused():
    family = {name for name in known_settings("broker") if name.startswith("sasl.")}
    assert family == {name for name in {*SASL_SETTINGS, *SASL_REFUSED} if name in family}


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("listener.name.out.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.out.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.out.gssapi.sasl.kerberos.service.name", "sasl.kerberos.service.name"),
        ("listener.name.out.other.sasl.jaas.config", None),
        ("listener.name.out.ssl.client.auth", None),
        ("sasl.jaas.config", None),
    ],
)
def test_names_with_prefixes(name, setting):
    assert unprefixed(name) == setting


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.out.plain.sasl.jaas.config",
        "listener.name.out.sasl.enabled.mechanisms",
        "listener.name.out.plain.connections.max.reauth.ms",
        "listener.name.out.plain.sasl.login.class",
    ],
)
def test_no_secret_comes_into_the_metadata_log(name):
    with pytest.raises(ApiError, match="no secret is kept in the metadata log") as caught:
        validate_broker_values({name: "hunter2"}, for_all=False)
    assert ("hunter2" in str(caught.value)) is (name.rpartition(".")[2] in ("mechanisms", "ms"))


def test_certificates_are_asked_for_beside_sasl_only_by_the_listener_s_own_setting():
    given = (
        "listeners=SASL_SSL://:9093",
        "listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms=SCRAM-SHA-256",
        "ssl.keystore.type=PEM",
        "ssl.keystore.location=/k.pem",
        "ssl.truststore.type=PEM",
        "ssl.truststore.location=/t.pem",
        "ssl.client.auth=required",
    )
    assert load_broker_settings(None, given).tls["SASL_SSL"].client_auth is ClientAuth.NONE
    own = (*given, "listener.name.sasl_ssl.ssl.client.auth=required")
    assert load_broker_settings(None, own).tls["SASL_SSL"].client_auth is ClientAuth.REQUIRED
