import pytest

from esp.model.errors import ApiError, OperatorError
from esp.model.tls import TLS_1_2, TLS_1_3, ClientAuth, KeyStore, StoreType, TrustStore
from esp.settings.described import NodeLayers, describe_broker
from esp.settings.dynamic import validate_broker_values
from esp.settings.known import known_settings
from esp.settings.node import load_broker_settings
from esp.settings.tls import TLS_REFUSED, TLS_SETTINGS

KEY = ("ssl.keystore.type=PEM", "ssl.keystore.location=/k.pem")
TRUST = ("ssl.truststore.type=PEM", "ssl.truststore.location=/t.pem")
LISTENER = ("listeners=SSL://127.0.0.1:9093",)
SUITE_1_2, SUITE_1_3 = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"
ALL_1_3 = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"


def policy(*overrides, listener="SSL"):
    return load_broker_settings(None, (*LISTENER, *KEY, *overrides)).tls[listener]


def refused(*overrides):
    with pytest.raises(OperatorError) as caught:
        load_broker_settings(None, overrides)
    return str(caught.value)


def test_a_listener_named_ssl_speaks_it_and_others_do_not():
    settings = load_broker_settings(None, ("listeners=SSL://:9093,PLAINTEXT://:9092", *KEY))
    assert settings.security_protocols == {"SSL": "SSL", "PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    assert list(settings.tls) == ["SSL"]
    assert settings.inter_broker_terms.tls is None, "other brokers use the listener PLAINTEXT"
    assert settings.controller_terms.tls is None


def test_without_a_listener_that_speaks_it_nothing_of_it_is_asked_for():
    assert load_broker_settings(None, ("ssl.client.auth=required",)).tls == {}


def test_the_defaults_are_kafka_s_and_good():
    made = policy()
    assert made.versions == (TLS_1_2, TLS_1_3)
    assert made.client_auth is ClientAuth.NONE
    assert made.checks_hosts
    assert made.handshake_timeout_ms == 10_000
    assert made.key_store == KeyStore(StoreType.PEM, "/k.pem")
    assert made.trust_store == TrustStore()


def test_a_setting_for_one_listener_counts_more_than_that_for_all():
    settings = load_broker_settings(
        None,
        (
            "listeners=IN://:1,OUT://:2",
            "listener.security.protocol.map=IN:SSL,OUT:SSL,CONTROLLER:PLAINTEXT",
            *KEY,
            *TRUST,
            "ssl.client.auth=required",
            "listener.name.out.ssl.client.auth=none",
            "listener.name.out.ssl.keystore.location=/out.pem",
            "listener.name.out.connection.authentication.timeout.ms=7",
        ),
    )
    inside, outside = settings.tls["IN"], settings.tls["OUT"]
    assert (inside.client_auth, outside.client_auth) == (ClientAuth.REQUIRED, ClientAuth.NONE)
    assert (inside.key_store.location, outside.key_store.location) == ("/k.pem", "/out.pem")
    assert (inside.handshake_timeout_ms, outside.handshake_timeout_ms) == (10_000, 7)
    assert inside.is_between_nodes, "without inter.broker.listener.name it is the first"
    assert not outside.is_between_nodes
    assert settings.inter_broker_terms.tls == inside


def test_a_broker_has_the_terms_of_controllers_that_are_other_nodes():
    settings = load_broker_settings(
        None,
        (
            "process.roles=broker",
            "controller.quorum.bootstrap.servers=a:1",
            "listeners=SSL://:9093",
            "controller.listener.names=Q",
            "listener.security.protocol.map=Q:SSL,SSL:SSL",
            "security.inter.broker.protocol=SSL",
            *KEY,
            "listener.name.q.ssl.truststore.type=PEM",
            "listener.name.q.ssl.truststore.location=/q.pem",
        ),
    )
    assert settings.controller_terms.tls.trust_store.location == "/q.pem"
    assert settings.controller_terms.tls.is_between_nodes
    assert settings.inter_broker_listener_name == "SSL"


@pytest.mark.parametrize(
    ("given", "versions", "ciphers"),
    [
        (("ssl.enabled.protocols=TLSv1.3",), (TLS_1_3,), ()),
        (("ssl.protocol=TLSv1.2",), (TLS_1_2,), ()),
        (("ssl.protocol=TLS",), (TLS_1_2, TLS_1_3), ()),
        ((f"ssl.cipher.suites={SUITE_1_2}",), (TLS_1_2,), ("ECDHE-RSA-AES256-GCM-SHA384",)),
        ((f"ssl.cipher.suites={ALL_1_3}",), (TLS_1_3,), ()),
        ((f"ssl.cipher.suites={ALL_1_3},{SUITE_1_2}",), (TLS_1_2, TLS_1_3), ("ECDHE-RSA-AES256-GCM-SHA384",)),
        (("ssl.cipher.suites=",), (TLS_1_2, TLS_1_3), ()),
    ],
)
def test_versions_and_suites_go_together(given, versions, ciphers):
    assert (policy(*given).versions, policy(*given).ciphers) == (versions, ciphers)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("listeners=A://:1", "listener.security.protocol.map=A:TLS"), "TLS is none of PLAINTEXT, SSL"),
        (("listeners=A://:1", "listener.security.protocol.map=A:SSL", *KEY), "for the listener CONTROLLER"),
        (LISTENER, "needs a private key and a certificate"),
        ((*LISTENER, *KEY, "ssl.client.auth=required"), "a certificate of any public authority"),
        ((*LISTENER, *KEY, "ssl.client.auth=perhaps"), "must be one of"),
        ((*LISTENER, *KEY, "ssl.enabled.protocols=TLSv1.1"), "TLS before 1.2"),
        ((*LISTENER, *KEY, "ssl.enabled.protocols="), "At least one version"),
        ((*LISTENER, *KEY, "ssl.protocol=SSLv3"), "must be one of"),
        ((*LISTENER, *KEY, "ssl.enabled.protocols=TLSv1.3", "ssl.protocol=TLSv1.2"), "no version of TLS is left"),
        ((*LISTENER, *KEY, "ssl.cipher.suites=TLS_RSA_WITH_NULL_MD5"), "keep recorded traffic secret"),
        ((*LISTENER, *KEY, f"ssl.cipher.suites={SUITE_1_3}"), "name these too, or none of them"),
        ((*LISTENER, *KEY, "ssl.endpoint.identification.algorithm=LDAPS"), "https"),
        ((*LISTENER, *KEY, "ssl.keymanager.algorithm=Other"), "must be one of"),
        ((*LISTENER, *KEY, "ssl.keystore.key=x"), "a file or texts, not both"),
        ((*LISTENER, "ssl.keystore.type=PEM", "ssl.keystore.key=x"), "given together"),
        ((*LISTENER, "ssl.keystore.key=x", "ssl.keystore.certificate.chain=y"), "need ssl.keystore.type=PEM"),
        ((*LISTENER, *KEY, "ssl.keystore.password=x"), "ssl.key.password"),
        ((*LISTENER, *KEY, "ssl.principal.mapping.rules=RULE:("), "it is no rule"),
        ((*LISTENER, *KEY, "ssl.principal.mapping.rules=RULE:(?=a)/b/"), "RE2 cannot read"),
        *(((f"{name}=x",), reason) for name, reason in TLS_REFUSED.items()),
        (("security.providers=x.Fips",), "no providers of Java's"),
        (("listener.name.ssl.ssl.provider=x",), TLS_REFUSED["ssl.provider"]),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(given, words):
    assert words in refused(*given)


def test_a_refusal_names_the_setting_as_it_was_given():
    message = refused(*LISTENER, *KEY, "listener.name.ssl.ssl.client.auth=perhaps")
    assert "listener.name.ssl.ssl.client.auth=perhaps" in message


def test_no_message_and_no_representation_shows_a_password():
    assert "geheim" not in refused(*LISTENER, *KEY, "ssl.keystore.password=geheim")
    assert "geheim" not in repr(policy("ssl.key.password=geheim", "ssl.truststore.password=geheim"))
    settings = load_broker_settings(None, (*LISTENER, *KEY, "listener.name.ssl.ssl.key.password=geheim"))
    assert "geheim" not in repr(describe_broker(NodeLayers(settings)))


def test_rules_for_principals_are_those_of_the_listener_or_of_the_node():
    node, own = "RULE:^CN=(.*?),.*$/$1/", "RULE:^CN=(.*?)$/$1/L,DEFAULT"
    assert policy().principal_rules == "DEFAULT"
    assert policy(f"ssl.principal.mapping.rules={node}").principal_rules == node
    given = f"ssl.principal.mapping.rules={node}", f"listener.name.ssl.ssl.principal.mapping.rules={own}"
    assert policy(*given).principal_rules == own
    message = refused(*LISTENER, *KEY, "listener.name.ssl.ssl.principal.mapping.rules=RULE:(")
    assert "listener.name.ssl.ssl.principal.mapping.rules=RULE:(" in message


def test_names_of_settings_for_one_listener_cause_no_warning(caplog):
    policy("listener.name.ssl.ssl.client.auth=none")
    assert not caplog.records


def test_every_setting_of_the_family_is_read_or_refused():
    family = {name for name in known_settings("broker") if name.startswith("ssl.")}
    assert family == {name for name in TLS_SETTINGS if name.startswith("ssl.")} | TLS_REFUSED.keys()


@pytest.mark.parametrize(
    "name", ["ssl.client.auth", "listener.name.ssl.ssl.client.auth", "listener.name.ssl.ssl.keystore.key"]
)
def test_what_changes_while_a_node_runs_are_files_not_settings(name):
    with pytest.raises(ApiError, match="read again when their files change") as caught:
        validate_broker_values({name: "none"}, for_all=False)
    assert ("Invalid value [hidden]" in str(caught.value)) == name.endswith("key")
