"""Expected texts are those that Kafka 4.3's tool printed for the same records."""

import struct
import uuid

import pytest

from esp.cli.dumping.record_payloads import Decoder, describe
from esp.model.errors import CorruptionError
from esp.model.ids import NodeId, TopicId
from esp.records.builder import Record
from esp.schemas.consumer_group_record_codec import encode_consumer_group_key, encode_consumer_group_value
from esp.schemas.consumer_group_records import (
    NO_EPOCH,
    ClassicMemberValue,
    ClassicProtocol,
    ConsumerGroupKey,
    ConsumerGroupRecordType,
    CurrentValue,
    GroupEpochValue,
    MemberState,
    MemberValue,
    RegexValue,
    TargetEpochValue,
    TargetValue,
    TopicIdPartition,
)
from esp.schemas.control_records import encode_control_record, leader_change
from esp.schemas.group_record_codec import (
    encode_group_metadata_key,
    encode_group_metadata_value,
    encode_offset_commit_key,
    encode_offset_commit_value,
)
from esp.schemas.group_records import (
    GroupMember,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from esp.schemas.metadata_frames import encode_record
from esp.schemas.metadata_records import BROKER_RESOURCE, ConfigRecord, FeatureLevelRecord, UserScramCredentialRecord
from esp.schemas.share_group_record_codec import encode_share_group_key, encode_share_group_value
from esp.schemas.share_group_records import (
    KnownPartitions,
    ShareCurrentValue,
    ShareGroupKey,
    ShareGroupRecordType,
    ShareMemberValue,
    SharePartitionsValue,
)
from esp.schemas.share_state_record_codec import (
    encode_share_snapshot_key,
    encode_share_snapshot_value,
    encode_share_update_key,
    encode_share_update_value,
)
from esp.schemas.share_state_records import (
    RecordState,
    ShareSnapshotValue,
    ShareStateKey,
    ShareUpdateValue,
    StateBatch,
)
from esp.schemas.transaction_record_codec import encode_transaction_key, encode_transaction_value
from esp.schemas.transaction_records import PartitionsOfTopic, TransactionStatus, TransactionValue

TOPIC_ID = uuid.UUID(bytes=bytes(range(16)))


def text(key, value, decoder=Decoder.TEXT, *, is_control=False):
    return describe(Record(0, 1, key, value), decoder, is_control=is_control)[0]


def test_text_is_shown_whatever_the_bytes_are():
    assert text(None, b"v") == "payload: v"
    assert text(b"k", None) == "key: k"
    assert "\ufffd" in text(None, b"\xff")


def test_keys_of_users_are_hidden():
    record = encode_record(
        UserScramCredentialRecord(
            name="alice", mechanism=2, salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4096
        )
    )
    assert text(None, record, Decoder.METADATA) == (
        'payload: {"type":"USER_SCRAM_CREDENTIAL_RECORD","version":0,"data":{"name":"alice","mechanism":2,'
        '"salt":"[hidden]","storedKey":"[hidden]","serverKey":"[hidden]","iterations":4096}}'
    )


@pytest.mark.parametrize(
    "name",
    [
        "ssl.keystore.password",
        "listener.name.internal.ssl.key.password",
        "listener.name.x.plain.sasl.jaas.config",
        "of.some.plugin",
    ],
)
def test_passwords_that_kafka_wrote_into_its_log_are_hidden(name):
    record = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="1", name=name, value="secret")
    told = text(None, encode_record(record), Decoder.METADATA)
    assert "secret" not in told
    assert '"value":"[hidden]"' in told


def test_other_settings_are_shown():
    record = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="1", name="log.cleaner.threads", value="2")
    assert '"value":"2"' in text(None, encode_record(record), Decoder.METADATA)
    record = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="1", name="ssl.key.password", value=None)
    assert '"value":null' in text(None, encode_record(record), Decoder.METADATA)


def test_metadata_is_shown_as_json():
    record = encode_record(FeatureLevelRecord(name="metadata.version", feature_level=30))
    assert text(None, record, Decoder.METADATA) == (
        'payload: {"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version","featureLevel":30}}'
    )


@pytest.mark.parametrize("value", [None, b"", b"\x01\x7f\x00", b"\x02\x00\x00"])
def test_what_is_no_metadata_is_refused(value):
    with pytest.raises(CorruptionError):
        text(None, value, Decoder.METADATA)


def test_a_committed_offset_is_shown_with_its_topic_id():
    key = encode_offset_commit_key(OffsetCommitKey("simple", "t", 0))
    value = encode_offset_commit_value(OffsetCommitValue(42, 3, "note", 1795286884576, topic_id=TOPIC_ID))
    assert text(key, value, Decoder.OFFSETS) == (
        'key: {"type":"1","data":{"group":"simple","topic":"t","partition":0}} payload: {"version":"4","data":{"offset":42,'
        '"leaderEpoch":3,"metadata":"note","commitTimestamp":1795286884576,"topicId":"AAECAwQFBgcICQoLDA0ODw"}}'
    )
    assert text(key, None, Decoder.OFFSETS).endswith("payload: <DELETE>")


def test_the_state_of_a_transactional_id_is_shown():
    key = encode_transaction_key("tx-\u00fc")
    partitions = (PartitionsOfTopic("t", (0, 1)),)
    value = TransactionValue(
        7, 3, 60_000, TransactionStatus.PREPARE_COMMIT, partitions, 1795517206430, 1795517206419, previous_producer_id=7
    )
    assert text(key, encode_transaction_value(value, 1), Decoder.TRANSACTIONS) == (
        'key: {"type":"0","data":{"transactionalId":"tx-\u00fc"}} payload: {"version":"1","data":{"producerId":7,"previousProducerId":7,'
        '"producerEpoch":3,"transactionTimeoutMs":60000,"transactionStatus":2,"transactionPartitions":[{"topic":"t","partitionIds":[0,1]}],'
        '"transactionLastUpdateTimestampMs":1795517206430,"transactionStartTimestampMs":1795517206419}}'
    )
    empty = value._replace(status=TransactionStatus.EMPTY, partitions=None, previous_producer_id=-1, client_version=2)
    shown = text(key, encode_transaction_value(empty, 1), Decoder.TRANSACTIONS)
    assert '"transactionPartitions":null' in shown
    assert "previousProducerId" not in shown
    assert shown.endswith('"clientTransactionVersion":2}}')
    assert text(key, None, Decoder.TRANSACTIONS).endswith("payload: <DELETE>")
    assert text(b"\0\1x", b"y", Decoder.TRANSACTIONS).startswith("key: ")


def test_the_partitions_of_a_consumer_are_shown_and_what_others_put_there_stays_bytes():
    partitions = struct.pack(">hih1siii", 0, 1, 1, b"t", 1, 0, -1)
    for protocol_type, assignment, shown in (
        (
            "consumer",
            partitions,
            '"assignment":{"assignedPartitions":[{"topic":"t","partitions":[0]}],"userData":null}',
        ),
        ("consumer", b"\0", '"assignment":"AA=="'),
        ("connect", b"\0", '"assignment":"AA=="'),
    ):
        member = GroupMember("m", None, "c", "/127.0.0.1", 10, 20, b"", assignment)
        value = GroupMetadataValue(protocol_type, 1, "range", "m", 5, (member,))
        told = text(
            encode_group_metadata_key(GroupMetadataKey("g")), encode_group_metadata_value(value), Decoder.OFFSETS
        )
        assert shown in told
        assert '"clientHost":"/127.0.0.1","rebalanceTimeout":10,"sessionTimeout":20' in told


def test_control_records_are_shown_by_what_they_are():
    record = encode_control_record(leader_change(NodeId(1), [NodeId(1)], [NodeId(1)]))
    assert text(*record, is_control=True) == (
        'LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]}'
    )
    assert text(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 9), is_control=True) == (
        "endTxnMarker: COMMIT coordinatorEpoch: 9"
    )
    assert text(struct.pack(">hh", 0, 99), b"", is_control=True) == "controlType: 99"


def keyed(key, value, decoder=Decoder.OFFSETS):
    """Key and payload as a reader of JSON sees them."""
    told = describe(Record(0, 1, key, value), decoder, is_control=False)[1]
    return told["key"], told["payload"]


MEMBER = {"groupId": "g", "memberId": "m"}
ID = "AAECAwQFBgcICQoLDA0ODw"
P0, P1 = (TopicIdPartition(TOPIC_ID, number) for number in (0, 1))


@pytest.mark.parametrize(
    ("type_", "value", "told"),
    [
        (3, GroupEpochValue(5), {"epoch": 5}),
        (3, GroupEpochValue(5, -7), {"epoch": 5, "metadataHash": -7}),
        (
            5,
            MemberValue(
                None, "r", "c", "/h", ("t",), None, 1000, "range", ClassicMemberValue(9, (ClassicProtocol("p", b"d"),))
            ),
            {
                "instanceId": None,
                "rackId": "r",
                "clientId": "c",
                "clientHost": "/h",
                "subscribedTopicNames": ["t"],
                "subscribedTopicRegex": "",
                "rebalanceTimeoutMs": 1000,
                "serverAssignor": "range",
                "classicMemberMetadata": {
                    "sessionTimeoutMs": 9,
                    "supportedProtocols": [{"name": "p", "metadata": "ZA=="}],
                },
            },
        ),
        (
            5,
            MemberValue("i", None, "c", "/h", (), "t.*", 1, None),
            {
                "instanceId": "i",
                "rackId": None,
                "clientId": "c",
                "clientHost": "/h",
                "subscribedTopicNames": [],
                "subscribedTopicRegex": "t.*",
                "rebalanceTimeoutMs": 1,
                "serverAssignor": None,
                "classicMemberMetadata": None,
            },
        ),
        (6, TargetEpochValue(4, 99), {"assignmentEpoch": 4, "assignmentTimestamp": 99}),
        (7, TargetValue(frozenset((P1, P0))), {"topicPartitions": [{"topicId": ID, "partitions": [0, 1]}]}),
        (
            8,
            CurrentValue(4, 3, MemberState.UNREVOKED_PARTITIONS, {P0: 2}, {P1: NO_EPOCH}),
            {
                "memberEpoch": 4,
                "previousMemberEpoch": 3,
                "state": 1,
                "assignedPartitions": [{"topicId": ID, "partitions": [0], "assignmentEpochs": [2]}],
                "partitionsPendingRevocation": [{"topicId": ID, "partitions": [1]}],
            },
        ),
        (16, RegexValue(("t", "u"), 12, 99), {"topics": ["t", "u"], "version": 12, "timestamp": 99}),
    ],
)
def test_parts_of_consumer_groups_are_shown(type_, value, told):
    names = {5: ("memberId",), 7: ("memberId",), 8: ("memberId",), 16: ("regularExpression",)}.get(type_, ())
    key = encode_consumer_group_key(ConsumerGroupKey(ConsumerGroupRecordType(type_), "g", "m"))
    shown = {"type": str(type_), "data": {"groupId": "g", **dict.fromkeys(names, "m")}}
    assert keyed(key, encode_consumer_group_value(value)) == (shown, {"version": "0", "data": told})
    assert keyed(key, None) == (shown, None)
    assert text(key, None, Decoder.OFFSETS).endswith(" payload: <DELETE>")


@pytest.mark.parametrize(
    ("type_", "value", "told"),
    [
        (
            10,
            ShareMemberValue(None, "c", "/h", ("t",)),
            {"rackId": None, "clientId": "c", "clientHost": "/h", "subscribedTopicNames": ["t"]},
        ),
        (11, GroupEpochValue(5), {"epoch": 5, "metadataHash": 0}),
        (12, TargetEpochValue(4), {"assignmentEpoch": 4}),
        (13, TargetValue(frozenset((P0,))), {"topicPartitions": [{"topicId": ID, "partitions": [0]}]}),
        (
            14,
            ShareCurrentValue(4, 3, frozenset((P0,))),
            {
                "memberEpoch": 4,
                "previousMemberEpoch": 3,
                "state": 0,
                "assignedPartitions": [{"topicId": ID, "partitions": [0]}],
            },
        ),
        (
            15,
            SharePartitionsValue(
                {TopicId(TOPIC_ID): KnownPartitions("t", frozenset((1,)), frozenset((1,)))},
                {TopicId(TOPIC_ID): KnownPartitions("t", frozenset((0,)))},
                {TopicId(TOPIC_ID): "u"},
            ),
            {
                "initializingTopics": [{"topicId": ID, "topicName": "t", "partitions": [1]}],
                "initializedTopics": [{"topicId": ID, "topicName": "t", "partitions": [0]}],
                "deletingTopics": [{"topicId": ID, "topicName": "u"}],
            },
        ),
    ],
)
def test_parts_of_share_groups_are_shown(type_, value, told):
    key = encode_share_group_key(ShareGroupKey(ShareGroupRecordType(type_), "g", "m"))
    (shown, payload) = keyed(key, encode_share_group_value(value))
    assert shown == {"type": str(type_), "data": MEMBER if type_ in (10, 13, 14) else {"groupId": "g"}}
    assert payload == {"version": "0", "data": told}


def test_states_of_share_partitions_are_shown():
    key = ShareStateKey("g", TopicId(TOPIC_ID), 3)
    batches = (StateBatch(5, 8, RecordState.ARCHIVED, 2),)
    told = {"firstOffset": 5, "lastOffset": 7, "deliveryState": 4, "deliveryCount": 2}
    shown = {"groupId": "g", "topicId": ID, "partition": 3}
    snapshot = encode_share_snapshot_value(ShareSnapshotValue(1, 2, 3, 4, 5, 6, batches, 9))
    assert '"startOffset":4,"deliveryCompleteCount":9,"createTimestamp":5' in text(
        encode_share_snapshot_key(key), snapshot, Decoder.SHARE_STATES
    )
    snapshot = encode_share_snapshot_value(ShareSnapshotValue(1, 2, 3, 4, 5, 6, batches))
    assert keyed(encode_share_snapshot_key(key), snapshot, Decoder.SHARE_STATES) == (
        {"type": "0", "data": shown},
        {
            "version": "0",
            "data": {
                "snapshotEpoch": 1,
                "stateEpoch": 2,
                "leaderEpoch": 3,
                "startOffset": 4,
                "createTimestamp": 5,
                "writeTimestamp": 6,
                "stateBatches": [told],
            },
        },
    )
    update = encode_share_update_value(ShareUpdateValue(1, 3, -1, batches, 9))
    data = {"snapshotEpoch": 1, "leaderEpoch": 3, "startOffset": -1, "stateBatches": [told], "deliveryCompleteCount": 9}
    told_key = {"type": "1", "data": shown}
    assert '"startOffset":-1,"deliveryCompleteCount":9,"stateBatches":[' in text(
        encode_share_update_key(key), update, Decoder.SHARE_STATES
    )
    assert keyed(encode_share_update_key(key), update, Decoder.SHARE_STATES) == (
        told_key,
        {"version": "0", "data": data},
    )
    assert text(encode_share_snapshot_key(key), None, Decoder.SHARE_STATES).endswith(" payload: <DELETE>")


def test_records_of_types_that_are_not_known_stay_text_and_broken_ones_are_refused():
    streams = struct.pack(">hh", 17, 1) + b"g"
    assert text(streams, b"v", Decoder.OFFSETS).startswith("key: ")
    assert text(struct.pack(">h", 9), b"v", Decoder.SHARE_STATES).startswith("key: ")
    assert text(None, b"v", Decoder.SHARE_STATES) == "payload: v"
    key = encode_consumer_group_key(ConsumerGroupKey(ConsumerGroupRecordType.GROUP_EPOCH, "g"))
    for value in (b"\0\1\0\0\0\5\0", b"\0\0\0\0", b"\0\0\0\0\0\5\0rest"):
        with pytest.raises(CorruptionError):
            text(key, value, Decoder.OFFSETS)


def subscribed(version, *parts):
    return struct.pack(">hi", version, 1) + b"\0\1t" + b"".join(parts)


NO_DATA, OWNED = struct.pack(">i", -1), struct.pack(">i", 1) + b"\0\1t" + struct.pack(">ii", 1, 3)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (subscribed(0, NO_DATA), {"topics": ["t"], "userData": None}),
        (subscribed(0, struct.pack(">i", 2), b"ud"), {"topics": ["t"], "userData": "dWQ="}),
        (
            subscribed(1, NO_DATA, OWNED),
            {"topics": ["t"], "userData": None, "ownedPartitions": [{"topic": "t", "partitions": [3]}]},
        ),
        (
            subscribed(4, NO_DATA, struct.pack(">ii", 0, 7), b"\0\1r", b"more"),
            {"topics": ["t"], "userData": None, "ownedPartitions": [], "generationId": 7, "rackId": "r"},
        ),
        (b"", ""),
        (b"\0\1", "AAE="),
        (struct.pack(">hi", 0, -1), "AAD/////"),
        (b"\xff" + subscribed(0, NO_DATA)[1:], "/wAAAAABAAF0/////w=="),
    ],
)
def test_the_subscription_of_a_consumer_is_shown_by_its_version(data, told):
    member = GroupMember("m", None, "c", "/h", 1, 1, data, b"")
    value = GroupMetadataValue("consumer", 1, "range", "m", 1, (member,))
    _, payload = keyed(encode_group_metadata_key(GroupMetadataKey("g")), encode_group_metadata_value(value))
    assert payload["data"]["members"][0]["subscription"] == told
