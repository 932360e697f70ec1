import dataclasses
import importlib
import pkgutil

import kio.schema
import pytest
from kio.schema.index import api_key_map

from esp.model.features import SHARE_VERSION
from esp.protocol.entity_fields import entity_fields
from esp.protocol.messages import load_class
from esp.protocol.registry import SERVED, SERVED_ON, ApiKey, ListenerKind
from tests.unit.protocol.strategies import MESSAGES, message_id, model_class, wire_class

KAFKA_VERSIONS = {  # of Apache Kafka 4.3.1, as the ApiVersions answers of both its kinds of listener give them
    ListenerKind.BROKER: {
        "Produce": (0, 13),
        "Fetch": (4, 18),
        "ListOffsets": (1, 11),
        "Metadata": (0, 13),
        "OffsetCommit": (2, 10),
        "OffsetFetch": (1, 10),
        "FindCoordinator": (0, 6),
        "JoinGroup": (0, 9),
        "Heartbeat": (0, 4),
        "LeaveGroup": (0, 5),
        "SyncGroup": (0, 5),
        "DescribeGroups": (0, 6),
        "ListGroups": (0, 5),
        "SaslHandshake": (0, 1),
        "SaslAuthenticate": (0, 2),
        "ApiVersions": (0, 4),
        "CreateTopics": (2, 7),
        "DeleteTopics": (1, 6),
        "DeleteRecords": (0, 2),
        "InitProducerId": (0, 5),
        "AddPartitionsToTxn": (0, 5),
        "AddOffsetsToTxn": (0, 4),
        "EndTxn": (0, 5),
        "WriteTxnMarkers": (1, 2),
        "TxnOffsetCommit": (0, 5),
        "OffsetForLeaderEpoch": (2, 4),
        "DescribeAcls": (1, 3),
        "CreateAcls": (1, 3),
        "DeleteAcls": (1, 3),
        "DescribeConfigs": (1, 4),
        "AlterConfigs": (0, 2),
        "AlterReplicaLogDirs": (1, 2),
        "DescribeLogDirs": (1, 5),
        "CreatePartitions": (0, 3),
        "CreateDelegationToken": (1, 3),
        "RenewDelegationToken": (1, 2),
        "ExpireDelegationToken": (1, 2),
        "DescribeDelegationToken": (1, 3),
        "DeleteGroups": (0, 2),
        "ElectLeaders": (0, 2),
        "IncrementalAlterConfigs": (0, 1),
        "AlterPartitionReassignments": (0, 1),
        "ListPartitionReassignments": (0, 0),
        "OffsetDelete": (0, 0),
        "DescribeClientQuotas": (0, 1),
        "AlterClientQuotas": (0, 1),
        "DescribeUserScramCredentials": (0, 0),
        "AlterUserScramCredentials": (0, 0),
        "DescribeQuorum": (0, 2),
        "UpdateFeatures": (0, 2),
        "DescribeCluster": (0, 2),
        "DescribeProducers": (0, 0),
        "UnregisterBroker": (0, 0),
        "DescribeTransactions": (0, 0),
        "ListTransactions": (0, 2),
        "ConsumerGroupHeartbeat": (0, 1),
        "ConsumerGroupDescribe": (0, 1),
        "ListConfigResources": (0, 1),
        "DescribeTopicPartitions": (0, 0),
        "AddRaftVoter": (0, 1),
        "RemoveRaftVoter": (0, 0),
        "ShareGroupHeartbeat": (1, 1),
        "ShareGroupDescribe": (1, 1),
        "ShareFetch": (1, 2),
        "ShareAcknowledge": (1, 2),
        "InitializeShareGroupState": (0, 0),
        "ReadShareGroupState": (0, 0),
        "WriteShareGroupState": (0, 1),
        "DeleteShareGroupState": (0, 0),
        "ReadShareGroupStateSummary": (0, 1),
        "DescribeShareGroupOffsets": (0, 1),
        "AlterShareGroupOffsets": (0, 0),
        "DeleteShareGroupOffsets": (0, 0),
    },
    ListenerKind.CONTROLLER: {
        "Fetch": (4, 18),
        "SaslHandshake": (0, 1),
        "SaslAuthenticate": (0, 2),
        "ApiVersions": (0, 4),
        "CreateTopics": (2, 7),
        "DeleteTopics": (1, 6),
        "DescribeAcls": (1, 3),
        "CreateAcls": (1, 3),
        "DeleteAcls": (1, 3),
        "DescribeConfigs": (1, 4),
        "AlterConfigs": (0, 2),
        "CreatePartitions": (0, 3),
        "ElectLeaders": (0, 2),
        "IncrementalAlterConfigs": (0, 1),
        "AlterPartitionReassignments": (0, 1),
        "ListPartitionReassignments": (0, 0),
        "CreateDelegationToken": (1, 3),
        "RenewDelegationToken": (1, 2),
        "ExpireDelegationToken": (1, 2),
        "DescribeDelegationToken": (1, 3),
        "AlterClientQuotas": (0, 1),
        "DescribeUserScramCredentials": (0, 0),
        "AlterUserScramCredentials": (0, 0),
        "Vote": (0, 2),
        "BeginQuorumEpoch": (0, 1),
        "EndQuorumEpoch": (0, 1),
        "DescribeQuorum": (0, 2),
        "AlterPartition": (2, 3),
        "UpdateFeatures": (0, 2),
        "Envelope": (0, 0),
        "FetchSnapshot": (0, 1),
        "DescribeCluster": (0, 2),
        "BrokerRegistration": (0, 4),
        "BrokerHeartbeat": (0, 2),
        "UnregisterBroker": (0, 0),
        "AllocateProducerIds": (0, 0),
        "ControllerRegistration": (0, 0),
        "AssignReplicasToDirs": (0, 0),
        "AddRaftVoter": (0, 1),
        "RemoveRaftVoter": (0, 0),
        "UpdateRaftVoter": (0, 0),
    },
}


def test_every_api_key_is_served():
    assert set(SERVED) == set(ApiKey)
    assert all(api.key == key for key, api in SERVED.items())


@pytest.mark.parametrize("api", SERVED.values(), ids=lambda api: api.name)
def test_nothing_is_advertised_beyond_kafka_on_any_listener(api):
    assert api.listeners
    for kind in api.listeners:
        low, high = KAFKA_VERSIONS[kind][api.name]
        assert low <= api.advertised_min <= api.min_version <= api.max_version <= high
        assert SERVED_ON[kind][api.key] is api


def test_apis_of_a_feature_are_offered_from_its_level_1_on():
    api = SERVED[ApiKey.READ_SHARE_GROUP_STATE]
    assert [api.is_offered(levels) for levels in ({}, {SHARE_VERSION: 0}, {SHARE_VERSION: 1}, {SHARE_VERSION: 2})] == [
        False,
        False,
        True,
        True,
    ]
    assert SERVED[ApiKey.FETCH].is_offered({})


def test_only_produce_advertises_what_it_does_not_serve():
    assert [api.name for api in SERVED.values() if api.advertised_min != api.min_version] == ["Produce"]


@pytest.mark.parametrize("api", SERVED.values(), ids=lambda api: api.name)
def test_kio_has_the_served_versions_under_that_key(api):
    classes = load_class(
        api, api.max_version, "request"
    ).__mro__  # ours, where a message has a field more, is made from kio's
    assert f"kio.schema.{api_key_map[api.key]}.v{api.max_version}.request" in {each.__module__ for each in classes}
    package = importlib.import_module(f"kio.schema.{api_key_map[api.key]}")
    versions = {int(module.name[1:]) for module in pkgutil.iter_modules(package.__path__)}
    assert set(range(api.min_version, api.max_version + 1)) <= versions


@pytest.mark.parametrize("message", MESSAGES, ids=message_id)
def test_flexibility_is_what_kio_says(message):
    key, version, _kind = message
    entity = wire_class(message)
    assert entity.__api_key__ == key
    assert entity.__version__ == version
    assert entity.__flexible__ == SERVED[key].is_flexible(version)


@pytest.mark.parametrize("api", SERVED.values(), ids=lambda api: api.name)
def test_model_versions_ascend_to_the_newest_version(api):
    for models in (api.request_models, api.response_models):
        assert list(models) == sorted(set(models))
        assert models[-1] == api.max_version
        assert models[0] >= api.min_version


def paths(entity, prefix=""):
    for field in entity_fields(entity):
        yield prefix + field.name
        if field.entity is not None:
            yield from paths(field.entity, f"{prefix}{field.name}.")


@pytest.mark.parametrize("message", MESSAGES, ids=message_id)
def test_a_model_class_has_every_field_of_its_versions(message):
    wire, model = wire_class(message), model_class(message)
    assert set(paths(wire)) <= set(paths(model))


def test_kio_has_its_schema_where_it_is_looked_for():
    assert dataclasses.is_dataclass(load_class(SERVED[ApiKey.METADATA], 0, "request"))
    assert kio.schema.__name__ == "kio.schema"
