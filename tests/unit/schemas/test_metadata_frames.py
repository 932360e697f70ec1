"""The bytes of metadata records, compared with those of a real Kafka 4.3.1."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.schemas import metadata_records as records
from esp.schemas.metadata_frames import UnknownRecordError, decode_record, encode_record

_TOPIC = uuid.UUID("250ec257-9b8b-4758-9365-42e75e59e1a5")
_DIRECTORY = uuid.UUID("014ea0f8-2366-963a-74c2-252131d47380")

_FROM_KAFKA = [
    ("01170001001212426f6f747374726170207265636f726473", records.BeginTransactionRecord(name="Bootstrap records")),
    (
        "010c00116d657461646174612e76657273696f6e001e00",
        records.FeatureLevelRecord(name="metadata.version", feature_level=30),
    ),
    (
        "0104000401146d696e2e696e73796e632e7265706c69636173023100",
        records.ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
    ),
    ("01180000", records.EndTransactionRecord()),
    ("01140000", records.NoOpRecord()),
    ("01020003743125" + "0ec2579b8b4758936542e75e59e1a500", records.TopicRecord(name="t1", topic_id=_TOPIC)),
    (
        (
            "01030200000000250ec2579b8b4758936542e75e59e1a502000000010200000001010100000001000000000000000002"
            "014ea0f82366963a74c2252131d4738000"
        ),
        records.PartitionRecord(
            partition_id=0,
            topic_id=_TOPIC,
            replicas=(1,),
            isr=(1,),
            removing_replicas=(),
            adding_replicas=(),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=(_DIRECTORY,),
        ),
    ),
    ("011c0003633400", records.ClearElrRecord(topic_name="c4")),
    ("010900250ec2579b8b4758936542e75e59e1a500", records.RemoveTopicRecord(topic_id=_TOPIC)),
    (
        "01050200000000250ec2579b8b4758936542e75e59e1a5040001010104ffffffff0605020000000107050200000001",
        records.PartitionChangeRecord(
            partition_id=0,
            topic_id=_TOPIC,
            isr=(),
            leader=-1,
            eligible_leader_replicas=(1,),
            last_known_elr=(1,),
        ),
    ),
    (
        "01050200000000250ec2579b8b4758936542e75e59e1a5010009030000000200000001",
        records.PartitionChangeRecord(partition_id=0, topic_id=_TOPIC, isr=(2, 1)),
    ),
    (
        "01110000000002000000000000000d010001ff",
        records.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=13, fenced=records.UNFENCE),
    ),
    (
        "01110000000001000000000000000b01000101",
        records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=11, fenced=records.FENCE),
    ),
    (
        "01110300000001000000000000000b01030101",
        records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=11, cordoned_log_dirs=()),
    ),
    (
        "010f0000000001000000000000000b00000000000003e800",
        records.ProducerIdsRecord(broker_id=1, broker_epoch=11, next_producer_id=1000),
    ),
    (
        (
            "0100040000000100780c03c2ccb240918dc3b9439981675700000000000000"
            "0b020a504c41494e544558540a3132372e302e302e31"
            "526400000002116d657461646174612e76657273696f6e0007001e0000010001001102014ea0f82366963a74c2252131d47380"
        ),
        records.RegisterBrokerRecord(
            broker_id=1,
            is_migrating_zk_broker=False,
            incarnation_id=uuid.UUID("780c03c2-ccb2-4091-8dc3-b94399816757"),
            broker_epoch=11,
            end_points=(records.BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=21092, security_protocol=0),),
            features=(
                records.SupportedFeature(name="metadata.version", min_supported_version=7, max_supported_version=30),
            ),
            rack=None,
            fenced=True,
            in_controlled_shutdown=False,
            log_dirs=(_DIRECTORY,),
        ),
    ),
]


@pytest.mark.parametrize(("hexadecimal", "record"), _FROM_KAFKA, ids=lambda value: type(value).__name__)
def test_a_record_has_the_bytes_that_kafka_gives_it(hexadecimal, record):
    assert encode_record(record).hex() == hexadecimal
    assert decode_record(bytes.fromhex(hexadecimal)) == record


def _int(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_NODES = st.lists(_int(32), max_size=4).map(tuple)
_UUIDS = st.uuids().filter(lambda value: value.int != 0)
_NAMES = st.text(max_size=20)


@given(
    st.builds(
        records.PartitionChangeRecord,
        partition_id=_int(32),
        topic_id=_UUIDS,
        isr=st.none() | _NODES,
        leader=_int(32),
        replicas=st.none() | _NODES,
        removing_replicas=st.none() | _NODES,
        adding_replicas=st.none() | _NODES,
        leader_recovery_state=st.sampled_from((-1, 0, 1)),
        eligible_leader_replicas=st.none() | _NODES,
        last_known_elr=st.none() | _NODES,
        directories=st.none() | st.lists(st.none() | _UUIDS, max_size=3).map(tuple),
    )
    | st.builds(
        records.ConfigRecord,
        resource_type=_int(8),
        resource_name=_NAMES,
        name=_NAMES,
        value=st.none() | _NAMES,
    )
    | st.builds(
        records.BrokerRegistrationChangeRecord,
        broker_id=_int(32),
        broker_epoch=_int(64),
        fenced=st.sampled_from((-1, 0, 1)),
        in_controlled_shutdown=st.sampled_from((0, 1)),
        log_dirs=st.lists(_UUIDS, max_size=2).map(tuple),
        cordoned_log_dirs=st.none() | st.lists(_UUIDS, max_size=2).map(tuple),
    )
    | st.builds(records.AbortTransactionRecord, reason=st.none() | _NAMES)
    | st.builds(records.UnregisterBrokerRecord, broker_id=_int(32), broker_epoch=_int(64))
)
def test_a_record_is_read_back_as_it_was_written(record):
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    ("change", "version"),
    [
        ({"fenced": 1}, 0),
        ({"in_controlled_shutdown": 1}, 1),
        ({"log_dirs": (_DIRECTORY,)}, 2),
        ({"cordoned_log_dirs": ()}, 3),
    ],
)
def test_a_change_of_a_broker_is_written_in_the_lowest_version_that_can_say_it(change, version):
    record = records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, **change)
    assert encode_record(record)[2] == version


@pytest.mark.parametrize(
    ("hexadecimal", "problem"),
    [
        ("02140000", "frame of version 2"),
        ("01060000", "unknown key 6"),
        ("01c8010000", "unknown key 200"),
        ("01140100", "NoOpRecord of version 1"),
        ("010302", "PartitionRecord"),
        ("0114000120" + "0100", "Unknown tagged field"),
    ],
)
def test_what_newer_software_wrote_is_refused_by_name(hexadecimal, problem):
    with pytest.raises((UnknownRecordError, CorruptionError), match=problem):
        decode_record(bytes.fromhex(hexadecimal))


@pytest.mark.parametrize("hexadecimal", ["", "01", "0114", "ffffffffffff", "0114000000", "010200"])
def test_a_frame_that_is_cut_or_too_long_is_corrupt(hexadecimal):
    with pytest.raises(CorruptionError):
        decode_record(bytes.fromhex(hexadecimal))
