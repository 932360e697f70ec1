"""What brokers tell of their protection."""

from types import SimpleNamespace

import pytest

from esp.cli.kafka.library import DescribeAclsRequest, KafkaConnectionError
from esp.cli.kafka.protection import ProtectionAdmin
from esp.doctor.protection import OwnProtection
from esp.model.acl import AclOperation, AclPermission, PatternType, ResourceType
from esp.model.ids import NodeId

GROUPS = "sasl.oauthbearer.groups.claim.name"
ESP_SETTINGS = {
    "listeners": "CLIENTS://:9092,OLD://:9093,PLAINTEXT://:9094,CONTROLLER://:9095",
    "listener.security.protocol.map": "CLIENTS:SASL_SSL,OLD:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-256",
    "super.users": "User:CN=a,O=b;User:root",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "log.scrub.interval.ms": "1",
}
ACL = {"principal": "User:alice", "host": "*", "operation": 3, "permission_type": 3}


def setting(name, value, *, source=4, is_sensitive=False):
    return {"name": name, "value": value, "config_source": source, "is_sensitive": is_sensitive}


class PlayedClient:
    """Answers for brokers by their settings; None is a broker that has died."""

    def __init__(self, brokers, resources=()):
        self.brokers, self.resources = brokers, resources

    def forget(self):
        """Nothing is remembered."""

    def send(self, request, node):
        if isinstance(request, DescribeAclsRequest):
            return SimpleNamespace(
                to_dict=lambda: {"error_code": 0, "error_message": None, "resources": list(self.resources)}
            )
        if self.brokers[node] is None:
            raise KafkaConnectionError("gone")
        return SimpleNamespace(to_dict=lambda: {"results": [{"error_code": 0, "configs": self.brokers[node]}]})


def look(brokers, resources=()):
    admin = ProtectionAdmin("h:1")
    admin._client = PlayedClient(brokers, resources)
    return admin.protection(dict.fromkeys(brokers, "h:1"), 0)


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
        (ESP_SETTINGS | {GROUPS: "groups"}, True),
        (ESP_SETTINGS | {GROUPS: ""}, False),
        (ESP_SETTINGS | {f"listener.name.clients.oauthbearer.{GROUPS}": "groups"}, True),
        ({"log.retention.ms": "5"}, True),  # Kafka's, whose principals may be any
    ],
)
def test_groups_are_those_that_a_listener_takes_from_tokens(settings, has_groups):
    assert look({1: [setting(name, value) for name, value in settings.items()]}).has_groups is has_groups


def test_passwords_in_the_metadata_log_are_those_of_dynamic_settings():
    found = look(
        {
            1: [
                setting("ssl.keystore.password", None, source=4, is_sensitive=True),
                setting("listener.name.x.ssl.key.password", None, source=2, is_sensitive=True),
                setting("ssl.truststore.password", None, source=3, is_sensitive=True),
                setting("log.retention.ms", "5", source=2),
            ]
        }
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
