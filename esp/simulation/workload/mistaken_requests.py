"""The requests of a client that is mistaken: each of them must be refused, and change nothing that others have.

Each is given by the names of the fields of kio's classes, as the questions of :mod:`esp.simulation.workload.survey_requests` are.
"""

from typing import Final

from esp.model.ids import OFFSETS_TOPIC
from esp.protocol.registry import ApiKey, ListenerKind
from esp.records.builder import NewRecord, build_batch
from esp.simulation.workload.survey_requests import Content, Question, Scene

NO_PRODUCER: Final = 1 << 40
"""A producer id that no cluster of a run comes to give out: no transaction is its."""

_IDS: Final = ("txn-0", "txn-1", "mistaken")


def _keyless(scene: Scene) -> Content:
    """Records without keys: a compacted topic takes none of them. Other topics are sent none, as they would take them."""
    name = scene.topic.name if "compact" in scene.topic.configs.get("cleanup.policy", "") else "missing"
    records = bytes(build_batch([NewRecord(b"mistaken")] * 2, codec=scene.rng.choice((0, 1))))
    data = {"index": 0, "records": records}
    topic = {"name": name, "topic_id": scene.topic.topic_id, "partition_data": [data]}
    return {"transactional_id": None, "acks": -1, "timeout": 2000, "topic_data": [topic] if name != "missing" else []}


def _no_metadata(scene: Scene) -> Content:
    partitions = [{"partition_index": scene.partition}]
    return {"topics": [{"topic_name": scene.topic.name, "partitions": partitions}]}


def _partitions(scene: Scene) -> Content:
    """A partition that is there, beside one that is not or is not for clients."""
    topics = [
        {"name": scene.topic.name, "partitions": [0]},
        {"name": scene.rng.choice(("missing", OFFSETS_TOPIC)), "partitions": [0]},
    ]
    asked = {
        "transactional_id": scene.rng.choice(_IDS),
        "producer_id": NO_PRODUCER,
        "producer_epoch": 0,
        "verify_only": scene.rng.random() < 0.5,
        "topics": topics[: scene.rng.choice((1, 2))],
    }
    older = {f"v3_and_below_{name}": value for name, value in asked.items()}
    return {**older, "transactions": [asked, {**asked, "transactional_id": "mistaken too"}]}


def _offsets(scene: Scene) -> Content:
    return {
        "transactional_id": scene.rng.choice(_IDS),
        "producer_id": NO_PRODUCER,
        "producer_epoch": 0,
        "group_id": "mistaken",
    }


def _no_group(scene: Scene) -> Content:
    partitions = [{"partition_index": scene.partition}]
    return {"group_id": "mistaken", "topics": [{"name": scene.topic.name, "partitions": partitions}]}


MISTAKES: Final = (
    Question(ApiKey.PRODUCE, _keyless),
    Question(ApiKey.DESCRIBE_QUORUM, _no_metadata),
    Question(ApiKey.DESCRIBE_QUORUM, _no_metadata, listener=ListenerKind.CONTROLLER),
    Question(ApiKey.ADD_PARTITIONS_TO_TXN, _partitions),
    Question(ApiKey.ADD_OFFSETS_TO_TXN, _offsets),
    Question(ApiKey.OFFSET_DELETE, _no_group),
)
"""All of them."""
