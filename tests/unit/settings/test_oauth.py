"""The settings of OAUTHBEARER, of a listener that takes tokens and of a node that logs in by them."""

import pytest

from esp.model.errors import OperatorError
from esp.model.oauth import OauthLogin, OauthTerms
from esp.model.sasl import BY_PASSWORD, SaslMechanism
from esp.model.tls import StoreType
from esp.model.web_place import WebPlace, parse_web_place
from esp.settings.known import known_settings
from esp.settings.node import load_broker_settings
from esp.settings.oauth import OAUTH_REFUSED, OAUTH_SETTINGS
from esp.settings.sasl import BROKER_MECHANISM

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
MODULE = PACKAGE + "OAuthBearerLoginModule"
LISTENER = {
    "listeners": "OUT://:9093",
    "listener.security.protocol.map": "OUT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
}
URL = "sasl.oauthbearer.jwks.endpoint.url"
TOKENS = "sasl.oauthbearer.token.endpoint.url"
TERMS = {
    URL: "https://login.example/keys?v=2",
    "sasl.oauthbearer.expected.issuer": "https://login.example/",
    "sasl.oauthbearer.expected.audience": "kafka,other",
}
OWN = {
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    TOKENS: "https://login.example:8443/token",
    "sasl.oauthbearer.client.credentials.client.id": "broker-1",
    "sasl.oauthbearer.client.credentials.client.secret": "the-secret",
}


def load(*parts, **changes):
    given = {name: value for part in (LISTENER, *parts, changes) for name, value in part.items()}
    return load_broker_settings("".join(f"{name}={value}\n" for name, value in given.items() if value is not None))


def terms(**changes) -> OauthTerms:
    return load(TERMS, changes).sasl["OUT"].oauth


def login(**changes) -> OauthLogin:
    return load(TERMS, OWN, changes).inter_broker_login.oauth


def refused(*parts, **changes) -> str:
    with pytest.raises(OperatorError) as caught:
        load(*parts, changes)
    assert "the-secret" not in str(caught.value)
    return str(caught.value)


def test_the_defaults_are_kafka_s():
    made = terms()
    assert made.keys == WebPlace(TERMS[URL], "login.example", 443, "/keys?v=2")
    assert (made.issuer, made.audiences) == ("https://login.example/", ("kafka", "other"))
    default = {name: known_settings("broker")[name].default for name in OAUTH_SETTINGS if "groups" not in name}
    assert made.clock_skew_ms == 1000 * int(default["sasl.oauthbearer.clock.skew.seconds"])
    assert str(made.refresh_ms) == default["sasl.oauthbearer.jwks.endpoint.refresh.ms"]
    assert str(made.backoff_ms) == default["sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"]
    assert str(made.backoff_max_ms) == default["sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"]
    assert made.scope_claim == default["sasl.oauthbearer.scope.claim.name"]
    assert made.subject_claim == default["sasl.oauthbearer.sub.claim.name"]
    assert not made.groups_claim
    own = login()
    assert str(own.backoff_ms) == default["sasl.login.retry.backoff.ms"]
    assert str(own.backoff_max_ms) == default["sasl.login.retry.backoff.max.ms"]
    assert str(own.refresh_factor) == default["sasl.login.refresh.window.factor"]
    assert str(own.refresh_jitter) == default["sasl.login.refresh.window.jitter"]
    assert own.refresh_min_ms == 1000 * int(default["sasl.login.refresh.min.period.seconds"])
    assert own.refresh_buffer_ms == 1000 * int(default["sasl.login.refresh.buffer.seconds"])


def test_every_setting_of_a_listener_has_its_effect():
    made = terms(
        **{
            "listener.name.out.oauthbearer.sasl.oauthbearer.clock.skew.seconds": 7,
            "listener.name.out.sasl.oauthbearer.groups.claim.name": "groups",
            "sasl.oauthbearer.sub.claim.name": "upn",
            "sasl.oauthbearer.scope.claim.name": "scp",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": 1,
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": 2,
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": 3,
            "sasl.oauthbearer.jwt.validator.class": PACKAGE + "BrokerJwtValidator",
            "sasl.server.callback.handler.class": PACKAGE + "OAuthBearerValidatorCallbackHandler",
            "listener.name.out.oauthbearer.sasl.server.callback.handler.class": PACKAGE
            + "secured.OAuthBearerValidatorCallbackHandler",
            "listener.name.out.oauthbearer.sasl.jaas.config": (
                f'{MODULE} required ssl.truststore.type="PEM" ssl.truststore.location="/etc/ca.pem";'
            ),
        }
    )
    assert (made.clock_skew_ms, made.groups_claim, made.subject_claim) == (7000, "groups", "upn")
    assert (made.scope_claim, made.refresh_ms, made.backoff_ms, made.backoff_max_ms) == ("scp", 1, 2, 3)
    assert (made.tls.trust_store.type, made.tls.trust_store.location) == (StoreType.PEM, "/etc/ca.pem")


def test_keys_may_stand_in_a_file():
    made = terms(**{URL: "file:///etc/esp/my%20keys.json"})
    assert (made.keys.path, made.tls) == ("/etc/esp/my keys.json", None)


def test_terms_of_connections_to_providers_are_loaded_with_those_of_listeners():
    settings = load(TERMS, OWN)
    assert settings.tls_policies == (settings.sasl["OUT"].oauth.tls,)
    assert not settings.tls_policies[0].listener


def test_every_setting_of_a_log_in_has_its_effect():
    options = 'scope="ignored" extension_tenant="a b"'
    own = login(
        **{
            "sasl.oauthbearer.scope": "kafka",
            "sasl.login.connect.timeout.ms": 1,
            "sasl.login.read.timeout.ms": 2,
            "sasl.login.retry.backoff.ms": 3,
            "sasl.login.retry.backoff.max.ms": 4,
            "sasl.login.refresh.window.factor": 0.5,
            "sasl.login.refresh.window.jitter": 0.1,
            "sasl.login.refresh.min.period.seconds": 5,
            "sasl.login.refresh.buffer.seconds": 6,
            "sasl.login.callback.handler.class": PACKAGE + "OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.jwt.retriever.class": PACKAGE + "ClientCredentialsJwtRetriever",
            "sasl.jaas.config": f"{MODULE} required {options};",
        }
    )
    assert own.source == WebPlace(OWN[TOKENS], "login.example", 8443, "/token")
    assert (own.client_id, own.client_secret, own.scope) == ("broker-1", "the-secret", "kafka")
    assert own.extensions == {"tenant": "a b"}
    assert (own.connect_timeout_ms, own.read_timeout_ms, own.backoff_ms, own.backoff_max_ms) == (1, 2, 3, 4)
    assert (own.refresh_factor, own.refresh_jitter, own.refresh_min_ms, own.refresh_buffer_ms) == (0.5, 0.1, 5000, 6000)
    assert "the-secret" not in repr(own)


def test_credentials_may_be_options_of_the_login_module():
    own = login(
        **{
            "sasl.oauthbearer.client.credentials.client.id": None,
            "sasl.oauthbearer.client.credentials.client.secret": None,
            "sasl.jaas.config": f'{MODULE} required clientId="a" clientSecret="the-secret" scope="s";',
        }
    )
    assert (own.client_id, own.client_secret, own.scope) == ("a", "the-secret", "s")


def test_a_token_may_stand_in_a_file():
    settings = load(TERMS, {BROKER_MECHANISM: "OAUTHBEARER", TOKENS: "file:///run/token"})
    made = settings.inter_broker_login
    assert (made.mechanism, made.username) == (SaslMechanism.OAUTHBEARER, "the user of the token in /run/token")
    assert made.oauth.source.path == "/run/token"


@pytest.mark.parametrize("name", TERMS)
def test_a_node_that_would_believe_any_token_does_not_start(name):
    told = refused(TERMS, **{name: None})
    assert f"would believe any token without {name}" in told
    assert ".well-known/openid-configuration" in told
    assert told.endswith(" Set it.")
    assert "would believe" in refused(TERMS, **{name: ""})


def test_mechanisms_beside_it_need_no_keys():
    settings = load(**{"sasl.enabled.mechanisms": "SCRAM-SHA-256"})
    assert settings.sasl["OUT"].oauth is None
    assert SaslMechanism.OAUTHBEARER not in BY_PASSWORD


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({URL: "http://login.example/keys"}, "must begin with https://"),
        ({URL: "https://user@login.example/keys"}, "named by host and path"),
        ({URL: "https:///keys"}, "named by host and path"),
        ({URL: "https://login.example/keys#a"}, "named by host and path"),
        ({URL: "https://login.example:no/keys"}, "ort could not be cast"),
        ({URL: "https://login.example/k eys"}, "no blanks"),
        ({URL: "file://other.host/etc/keys"}, "whole path"),
        ({URL: "file:keys.json"}, "whole path"),
        ({URL: "ldap://login.example/keys"}, "must begin with https://"),
        ({"sasl.oauthbearer.clock.skew.seconds": "-1"}, "at least 0"),
        ({"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "at least 1"),
        ({"sasl.oauthbearer.jwt.validator.class": "org.example.Validator"}, "no foreign classes"),
        ({"sasl.oauthbearer.jwt.validator.class": PACKAGE + "ClientJwtValidator"}, "no foreign classes"),
        ({"sasl.server.callback.handler.class": "org.example.Handler"}, "no foreign classes"),
        (
            {
                "listener.name.out.oauthbearer.sasl.server.callback.handler.class": PACKAGE
                + "internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
            },
            "no foreign classes",
        ),
        ({"sasl.login.callback.handler.class": "org.example.Handler"}, "no foreign classes"),
        ({"listener.name.out.oauthbearer.sasl.login.callback.handler.class": "x"}, "no foreign classes"),
        ({"sasl.oauthbearer.jwt.retriever.class": PACKAGE + "JwtBearerJwtRetriever"}, "no foreign classes"),
        ({"sasl.jaas.config": f'{MODULE} required unsecuredLoginStringClaim_sub="a";'}, "prove nothing"),
        ({"sasl.jaas.config": f'{MODULE} required surprise="a";'}, "the option surprise: it has no effect"),
        ({"sasl.jaas.config": f'{MODULE} required ssl.truststore.type="BKS";'}, "ssl.truststore.type"),
        (
            {
                "sasl.jaas.config": "x.PlainLoginModule required;",
                "listener.name.out.oauthbearer.sasl.jaas.config": (
                    "org.apache.kafka.common.security.plain.PlainLoginModule required;"
                ),
            },
            "not the one of OAUTHBEARER",
        ),
        *(({name: "1"}, reason) for name, reason in OAUTH_REFUSED.items()),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(changes, words):
    assert words in refused(TERMS, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({TOKENS: None}, "needs a token"),
        ({TOKENS: "http://login.example/token"}, "must begin with https://"),
        ({"sasl.oauthbearer.client.credentials.client.id": None}, "a client's name and password"),
        ({"sasl.oauthbearer.client.credentials.client.secret": None}, "a client's name and password"),
        ({"sasl.oauthbearer.jwt.retriever.class": PACKAGE + "FileJwtRetriever"}, "does not get tokens from https"),
        (
            {TOKENS: "file:///t", "sasl.oauthbearer.jwt.retriever.class": PACKAGE + "ClientCredentialsJwtRetriever"},
            "does not get tokens from file",
        ),
        ({"sasl.login.refresh.window.factor": "0.4"}, "at least 0.5"),
        ({"sasl.login.read.timeout.ms": "0"}, "at least 1"),
    ],
)
def test_a_log_in_that_cannot_be_is_refused_with_the_reason(changes, words):
    assert words in refused(TERMS, OWN, **changes)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://a", WebPlace("https://a", "a", 443, "/")),
        ("https://[::1]:8443/k", WebPlace("https://[::1]:8443/k", "::1", 8443, "/k")),
        ("file:/k", WebPlace("file:/k", path="/k")),
        ("file://localhost/k", WebPlace("file://localhost/k", path="/k")),
    ],
)
def test_places(url, place):
    assert parse_web_place(url) == place


@pytest.mark.parametrize("url", ["https://a/\r\nHost: b", "https://a/é", "", "https://a:99999/", "file:///k?x"])
def test_texts_that_are_no_places(url):
    with pytest.raises(ValueError, match=r"."):
        parse_web_place(url)
