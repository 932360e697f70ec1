"""Expected texts are those that Kafka 4.3's tool printed for the same records."""

import struct
import uuid

import pytest

from esp.cli.dumping.record_payloads import Decoder, describe
from esp.model.errors import CorruptionError
from esp.model.ids import NodeId
from esp.records.builder import Record
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
