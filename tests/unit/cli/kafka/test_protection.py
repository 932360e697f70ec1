"""What brokers tell of their protection."""

from types import SimpleNamespace

import pytest

from esp.cli.kafka import protection
from esp.cli.kafka.library import DescribeAclsRequest, DescribeUserScramCredentialsRequest, KafkaConnectionError
from esp.cli.kafka.protection import ProtectionAdmin
from esp.cli.kafka.tokens import KnownToken
from esp.doctor.protection import HashedPassword, LivingToken, OwnProtection
from esp.model.acl import AclOperation, AclPermission, PatternType, ResourceType
from esp.model.delegation_token import DelegationToken
from esp.model.errors import ErrorCode, OperatorError
from esp.model.ids import NodeId

GROUPS = "sasl.oauthbearer.groups.claim.name"
ESP_SETTINGS = {
    "listeners": "CLIENTS://:9092,OLD://:9093,PLAINTEXT://:9094,CONTROLLER://:9095",
    "listener.security.protocol.map": "CLIENTS:SASL_SSL,OLD:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-256",
    "super.users": "User:CN=a,O=b;User:root",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ACL = {"principal": "User:alice", "host": "*", "operation": 3, "permission_type": 3}


def setting(name, value, *, source=4, is_sensitive=False):
    return {"name": name, "value": value, "config_source": source, "is_sensitive": is_sensitive}


class PlayedClient:
    """Answers for brokers by their settings; None is a broker that has died."""

    def __init__(self, brokers, resources=(), credentials=()):
        self.brokers, self.resources, self.credentials = brokers, resources, credentials

    def forget(self):
        """Nothing is remembered."""

    def send(self, request, node):
        if isinstance(request, DescribeAclsRequest):
            return SimpleNamespace(
                to_dict=lambda: {"error_code": 0, "error_message": None, "resources": list(self.resources)}
            )
        if isinstance(request, DescribeUserScramCredentialsRequest):
            code = 0 if self.credentials is not None else ErrorCode.cluster_authorization_failed
            results = [
                {"user": user, "error_code": 0, "error_message": None, "credential_infos": infos}
                for user, infos in self.credentials or ()
            ]
            return SimpleNamespace(
                to_dict=lambda: {"error_code": code, "error_message": "not allowed", "results": results}
            )
        if self.brokers[node] is None:
            raise KafkaConnectionError("gone")
        return SimpleNamespace(to_dict=lambda: {"results": [{"error_code": 0, "configs": self.brokers[node]}]})


@pytest.fixture(autouse=True)
def _of_esp(monkeypatch):
    """The brokers are of ESP, but for those of servers with that name."""
    monkeypatch.setattr(protection, "is_of_esp", lambda servers: servers != "kafka:1")


def look(brokers, resources=(), credentials=(), now_ms=0, servers="h:1"):
    admin = ProtectionAdmin(servers)
    admin._client = PlayedClient(brokers, resources, credentials)
    return admin.protection(dict.fromkeys(brokers, "h:1"), now_ms)


def test_the_settings_of_each_broker_that_answers():
    found = look({1: [setting(name, value) for name, value in ESP_SETTINGS.items()], 2: None})
    assert found.brokers == {
        NodeId(1): OwnProtection(
            {"CLIENTS": "SASL_SSL", "OLD": "SASL_PLAINTEXT", "PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"},
            frozenset({"PLAIN", "SCRAM-SHA-256"}),
            ("User:CN=a,O=b", "User:root"),
            has_authorizer=True,
            is_open_without_rule=True,
        )
    }
    assert found.matches_networks
    assert found.certificates == ()


@pytest.mark.parametrize(
    ("settings", "has_groups"),
    [
        (ESP_SETTINGS, False),
        (ESP_SETTINGS | {GROUPS: None}, True),  # it is none of Kafka's: its value is not told
        (ESP_SETTINGS | {GROUPS: ""}, False),
        (ESP_SETTINGS | {f"listener.name.clients.oauthbearer.{GROUPS}": None}, True),
    ],
)
def test_groups_are_those_that_a_listener_takes_from_tokens(settings, has_groups):
    brokers = {1: [setting(name, value) for name, value in settings.items()]}
    assert look(brokers).has_groups is has_groups
    assert look(brokers, servers="kafka:1").has_groups, "principals of Kafka may be any"


def test_passwords_in_the_metadata_log_are_those_of_dynamic_settings():
    found = look(
        {
            1: [
                setting("ssl.keystore.password", None, source=4, is_sensitive=True),
                setting("listener.name.x.ssl.key.password", None, source=2, is_sensitive=True),
                setting("ssl.truststore.password", None, source=3, is_sensitive=True),
                setting("log.retention.ms", "5", source=2),
            ]
        },
        servers="kafka:1",
    )
    own = found.brokers[NodeId(1)]
    assert own.secrets == ("listener.name.x.ssl.key.password", "ssl.truststore.password")
    assert not found.matches_networks


def test_rules_of_kinds_that_are_not_known_are_left_out():
    resource = {"resource_type": 2, "resource_name": "t", "pattern_type": 4, "acls": [ACL, ACL | {"operation": 99}]}
    (rule,) = look({}, [resource]).rules
    assert (rule.resource_type, rule.pattern_type, rule.operation, rule.permission) == (
        ResourceType.TOPIC,
        PatternType.PREFIXED,
        AclOperation.READ,
        AclPermission.ALLOW,
    )


@pytest.mark.parametrize("mechanisms", ["PLAIN,SCRAM-SHA-256", "PLAIN"])
def test_passwords_are_asked_for_where_clients_log_in_by_them(mechanisms):
    brokers = {1: [setting("sasl.enabled.mechanisms", mechanisms)]}
    credentials = [("alice", [{"mechanism": 1, "iterations": 4096}, {"mechanism": 2, "iterations": 1000}])]
    expected = (HashedPassword("alice", "SCRAM-SHA-256", 4096), HashedPassword("alice", "SCRAM-SHA-512", 1000))
    assert look(brokers, credentials=credentials).passwords == (expected if "SCRAM" in mechanisms else ())
    assert look(brokers, credentials=None).passwords == ()


def test_tokens_are_asked_for_where_there_are_some(monkeypatch):
    token = DelegationToken("id", "User:alice", "User:alice", (), issue_ms=1_000, max_ms=101_000, expiry_ms=50_000)
    monkeypatch.setattr(protection, "tokens", lambda _servers: [KnownToken(token, b"")])
    with_secret = {1: [setting("delegation.token.secret.key", None, is_sensitive=True)]}
    assert look(with_secret, now_ms=21_000).tokens == (LivingToken("id", "User:alice", 100, 80),)
    assert look({1: [setting("delegation.token.secret.key", None, source=5, is_sensitive=True)]}).tokens == ()
    assert look({1: []}).tokens == ()

    def refuse(_servers):
        raise OperatorError("not logged in", "")

    monkeypatch.setattr(protection, "tokens", refuse)
    assert look(with_secret).tokens == ()
