"""The log-in of a node at others, as its settings give it."""

import pytest

from esp.model.errors import OperatorError
from esp.model.sasl import SaslMechanism
from esp.settings.node import load_broker_settings

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
NODE = {
    "listeners": "CLIENTS://:9092,NODES://:9093,CONTROLLER://:9094",
    "advertised.listeners": "CLIENTS://h:9092,NODES://h:9093",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,NODES:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "NODES",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@h:9094,2@i:9094,3@j:9094",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} username="node" password="c-secret" user_node="c-secret";',
    "listener.name.nodes.scram-sha-512.sasl.jaas.config": f'{SCRAM} username="broker" password="b-secret";',
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "sasl.mechanism.controller.protocol": "PLAIN",
}


def load(**changes):
    given = {**NODE, **{name: value for name, value in changes.items() if value is not None}}
    for name, value in changes.items():
        if value is None:
            del given[name]
    return load_broker_settings("".join(f"{name}={value}\n" for name, value in given.items()))


def told(login):
    return login and (login.mechanism, login.username, login.password, login.setting)


def refusal(**changes):
    with pytest.raises(OperatorError) as caught:
        load(**changes)
    assert "secret" not in str(caught.value)
    return caught.value.problem


def test_each_listener_has_its_own_log_in():
    settings = load()
    assert told(settings.inter_broker_login) == (
        SaslMechanism.SCRAM_SHA_512,
        "broker",
        "b-secret",
        "listener.name.nodes.scram-sha-512.sasl.jaas.config",
    )
    assert told(settings.controller_login) == (
        SaslMechanism.PLAIN,
        "node",
        "c-secret",
        "listener.name.controller.plain.sasl.jaas.config",
    )
    assert settings.inter_broker_terms == (None, settings.inter_broker_login)
    assert settings.controller_terms == (None, settings.controller_login)
    assert "secret" not in repr(settings.inter_broker_login)


@pytest.mark.parametrize("name", ["listener.name.nodes.sasl.jaas.config", "sasl.jaas.config"])
def test_names_that_say_less_are_looked_at_too(name):
    text = NODE["listener.name.nodes.scram-sha-512.sasl.jaas.config"]
    settings = load(**{"listener.name.nodes.scram-sha-512.sasl.jaas.config": None, name: text})
    assert told(settings.inter_broker_login)[1:] == ("broker", "b-secret", name)


def test_a_log_in_by_token_says_so():
    settings = load(
        **{"listener.name.nodes.scram-sha-512.sasl.jaas.config": f'{SCRAM} username="t" password="h" tokenauth="true";'}
    )
    assert settings.inter_broker_login.is_token


def test_no_log_in_is_needed_where_there_is_no_sasl():
    settings = load(
        **{
            "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,NODES:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": None,
            "sasl.mechanism.controller.protocol": None,
        }
    )
    assert (settings.inter_broker_login, settings.controller_login) == (None, None)


def test_a_controller_alone_needs_no_log_in_at_brokers():
    settings = load(
        **{
            "process.roles": "controller",
            "node.id": "1",
            "listeners": "CONTROLLER://:9094",
            "advertised.listeners": None,
            "inter.broker.listener.name": None,
            "sasl.mechanism.inter.broker.protocol": None,
        }
    )
    assert settings.inter_broker_login is None
    assert settings.controller_login is not None


def test_a_cluster_of_its_own_needs_none_until_it_is_named():
    changes = {"controller.quorum.voters": "1@h:9094", "sasl.mechanism.inter.broker.protocol": None}
    settings = load(**changes)
    assert settings.inter_broker_login is None
    assert settings.controller_login is not None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sasl.mechanism.inter.broker.protocol": None}, "default is GSSAPI"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "no Kerberos"),
        ({"sasl.mechanism.inter.broker.protocol": "NOPE"}, "NOPE is no mechanism that is known"),
        ({"sasl.mechanism.inter.broker.protocol": "PLAIN"}, "must be among the mechanisms"),
        ({"listener.name.nodes.scram-sha-512.sasl.jaas.config": None}, "has no name and password"),
        (
            {"listener.name.nodes.scram-sha-512.sasl.jaas.config": f'{SCRAM} username="broker";'},
            "has no name and password",
        ),
        (
            {"listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} user_node="c-secret";'},
            "has no name and password",
        ),
        ({"sasl.mechanism.controller.protocol": None}, "default is GSSAPI"),
    ],
)
def test_a_log_in_that_cannot_be_made_is_refused(changes, problem):
    if changes.get("sasl.mechanism.inter.broker.protocol") == "PLAIN":
        changes = {**changes, "listener.name.nodes.plain.sasl.jaas.config": f'{PLAIN} username="x" password="secret";'}
    assert problem in refusal(**changes)


_SCRAM_AT_CONTROLLERS = {
    "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
    "listener.name.controller.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.controller.plain.sasl.jaas.config": None,
    "listener.name.controller.scram-sha-512.sasl.jaas.config": f'{SCRAM} username="node" password="c-secret";',
}


def test_controllers_of_several_cannot_log_in_by_scram_at_one_another():
    problem = refusal(**_SCRAM_AT_CONTROLLERS)
    assert "before they can read SCRAM credentials" in problem
    assert "PLAIN" in problem


def test_brokers_may_log_in_at_controllers_by_scram():
    settings = load(
        **_SCRAM_AT_CONTROLLERS,
        **{
            "process.roles": "broker",
            "node.id": "7",
            "listeners": "CLIENTS://:9092,NODES://:9093",
        },
    )
    assert settings.controller_login.mechanism is SaslMechanism.SCRAM_SHA_512


def test_a_single_controller_may_serve_scram():
    settings = load(**_SCRAM_AT_CONTROLLERS, **{"controller.quorum.voters": "1@h:9094"})
    assert settings.controller_login.mechanism is SaslMechanism.SCRAM_SHA_512
