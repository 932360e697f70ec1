"""What both brokers hold before the first case, and the names by which cases know it."""

import time
import uuid
from typing import Any, Final

from esp.protocol.registry import ApiKey
from esp.records.builder import NewRecord, build_batch
from esp.schemas.metadata_records import GROUP_RESOURCE
from tests.conformance.comparer.target import Target

RECORDS: Final = "records"
"""Three partitions: two batches of 15 records in the first, a batch of an idempotent producer in the second, none in the third."""
GROWING: Final = "growing"
"""One partition, to which cases add more."""
EMPTY: Final = "empty"
"""Two partitions without records."""
PACKED: Final = "packed"
"""One partition without records, of a topic that keeps batches without compression, of at most 1000 bytes."""
GROUP: Final = "group"
"""A group with offsets and without members."""
TRANSACTED: Final = "transacted"
"""Two partitions, for transactions of scenes that write nothing."""
WRITTEN: Final = "written"
"""Two partitions, for transactions of scenes that write."""
POISONED: Final = "poisoned"
"""One partition that refuses the markers of some producers: their transactions stay as they were decided."""
KEYED: Final = "keyed"
"""One partition of a compacted topic."""
READ: Final = "read"
"""Six partitions, for readers of transactions; their scenes write the records."""
QUEUED: Final = "queued"
"""Two partitions of two batches of 15 records each, which a share group reads."""
QUEUE: Final = "queue"
"""A share group that begins at the first records."""
QUEUE_MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
"""Its member, which has both partitions."""
MISSING: Final = "missing"
"""What is not there."""
MISSING_ID: Final = uuid.UUID(int=4711)

TIMESTAMP_MS: Final = time.time_ns() // 1_000_000
"""The time of the first record: retention would not leave older ones alone."""
PRODUCER_ID: Final = 4_711_000

_TOPICS: Final = {
    RECORDS: 3,
    GROWING: 1,
    EMPTY: 2,
    PACKED: 1,
    TRANSACTED: 2,
    WRITTEN: 2,
    POISONED: 1,
    KEYED: 1,
    READ: 6,
    QUEUED: 2,
}
_SETTINGS: Final = {
    PACKED: {"compression.type": "uncompressed", "max.message.bytes": "1000"},
    KEYED: {"cleanup.policy": "compact"},
}
_PATIENCE_S: Final = 60


def batch(count: int, **header: Any) -> bytes:
    """A batch of so many records, alike wherever it is made."""
    records = [
        NewRecord(value=b"value %d" % number, key=b"key", headers=(), timestamp=TIMESTAMP_MS + number)
        for number in range(count)
    ]
    return bytes(build_batch(records, timestamp_ms=TIMESTAMP_MS, **header))


def produce(topic: str, partition: int, records: bytes | None, *, acks: int = -1) -> dict[str, Any]:
    """A produce request of versions that name topics."""
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": 10_000,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": records}]}],
    }


def prepare(target: Target) -> None:
    """Make it so, and wait until it is served."""
    topics = [
        {
            "name": name,
            "num_partitions": count,
            "replication_factor": 1,
            "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in _SETTINGS.get(name, {}).items()],
        }
        for name, count in _TOPICS.items()
    ]
    target.ask(ApiKey.CREATE_TOPICS, 5, {"topics": topics, "timeout": 30_000})
    _until(lambda: all(_is_served(target, name, count) for name, count in _TOPICS.items()))
    for topic, partition, content in (
        (RECORDS, 0, batch(10)),
        (RECORDS, 0, batch(5)),
        (RECORDS, 1, batch(3, producer_id=PRODUCER_ID, producer_epoch=2, base_sequence=0)),
        *((QUEUED, partition, batch(count)) for partition in range(2) for count in (10, 5)),
    ):
        answer = target.ask(ApiKey.PRODUCE, 9, produce(topic, partition, content))
        assert "'none'" in str(answer), answer
    new_producer = {"transactional_id": None, "transaction_timeout": 1000}
    _until(lambda: target.ask(ApiKey.INIT_PRODUCER_ID, 1, new_producer)["error_code"] == "none")
    new_transactional_producer = {**new_producer, "transactional_id": "first of all"}
    _until(lambda: "'none'" in str(target.ask(ApiKey.FIND_COORDINATOR, 1, {"key": "first of all", "key_type": 1})))
    _until(lambda: target.ask(ApiKey.INIT_PRODUCER_ID, 1, new_transactional_producer)["error_code"] == "none")
    offsets = [
        {"name": RECORDS, "partitions": [{"partition_index": 0, "committed_offset": 7, "committed_metadata": "note"}]}
    ]
    _until(lambda: "'none'" in str(target.ask(ApiKey.FIND_COORDINATOR, 1, {"key": GROUP, "key_type": 0})))
    commit = {"group_id": GROUP, "topics": offsets, "retention_time": -1}
    _until(lambda: "'none'" in str(target.ask(ApiKey.OFFSET_COMMIT, 2, commit)))
    from_the_first = {"name": "share.auto.offset.reset", "value": "earliest", "config_operation": 0}
    queue = {"resource_type": GROUP_RESOURCE, "resource_name": QUEUE, "configs": [from_the_first]}
    answer = target.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [queue]})
    assert "'none'" in str(answer), answer
    _join_queue(target)


def _join_queue(target: Target) -> None:
    beat = {"group_id": QUEUE, "member_id": QUEUE_MEMBER, "subscribed_topic_names": [QUEUED]}
    epoch = 0

    def has_both() -> bool:
        nonlocal epoch
        answer = target.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, {**beat, "member_epoch": epoch})
        epoch = answer["member_epoch"] if answer["error_code"] == "none" else 0
        topics = (answer["assignment"] or {"topic_partitions": []})["topic_partitions"]
        return any(len(topic["partitions"]) == _TOPICS[QUEUED] for topic in topics)

    _until(has_both)


def _is_served(target: Target, topic: str, partitions: int) -> bool:
    asked = [{"partition_index": number, "timestamp": -1} for number in range(partitions)]
    answer = target.ask(ApiKey.LIST_OFFSETS, 2, {"replica_id": -1, "topics": [{"name": topic, "partitions": asked}]})
    return all(partition["error_code"] == "none" for partition in answer["topics"][0]["partitions"])


def _until(claim: Any) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not claim():
        assert time.monotonic() < deadline, f"not true within {_PATIENCE_S} s"
        time.sleep(0.1)
