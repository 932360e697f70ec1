"""The requests of a client that is mistaken: each of them must be refused, and change nothing that others have.

Each is given by the names of the fields of kio's classes, as the questions of :mod:`esp.simulation.workload.survey_requests` are.
"""

from typing import Final
from uuid import UUID

from esp.model.ids import OFFSETS_TOPIC, TopicId
from esp.protocol.registry import ApiKey, ListenerKind
from esp.records.builder import NewRecord, build_batch
from esp.simulation.nodes_tier.consumer_group_profile import CONSUMER_GROUP
from esp.simulation.workload.survey_requests import SHARE_GROUP, Content, Question, Scene

NO_PRODUCER: Final = 1 << 40
"""A producer id that no cluster of a run comes to give out: no transaction is its."""

_NO_TOPIC: Final = TopicId(UUID(int=7))
"""The id of no topic."""

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


# --- share groups --------------------------------------------------------------------------------------------------------------------

_NO_EPOCH: Final = -7
"""No group, state or session is in it."""


def _beat(scene: Scene) -> Content:
    """A heartbeat of a member that is not there, has an impossible name, or an impossible epoch, or in a group of another protocol."""
    good: Content = {
        "group_id": SHARE_GROUP,
        "member_id": "nobody",
        "member_epoch": 5,
        "rack_id": None,
        "subscribed_topic_names": None,
    }
    wrong: Content = scene.rng.choice(
        (
            {},
            {"group_id": "missing"},
            {"group_id": CONSUMER_GROUP},
            {"group_id": ""},
            {"member_epoch": -1},
            {"member_epoch": _NO_EPOCH},
            {"member_epoch": 0},
            {"member_id": "x" * 37},
            {"member_id": ""},
            {"rack_id": ""},
        )
    )
    return {**good, **wrong}


def _share_fetch(scene: Scene) -> Content:
    """In a session that is not there, or that is opened in a way in which none is."""
    words = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": (1,)}]
    partitions = [{"partition_index": scene.partition, "acknowledgement_batches": words}]
    good: Content = {
        "group_id": SHARE_GROUP,
        "member_id": "nobody",
        "share_session_epoch": 5,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1000,
        "max_records": 1,
        "batch_size": 1,
        "topics": [{"topic_id": scene.topic.topic_id, "partitions": partitions}],
    }
    wrong: Content = scene.rng.choice(
        (
            {},
            {"share_session_epoch": 0},
            {"share_session_epoch": -1},
            {"share_acquire_mode": 9, "share_session_epoch": 0},
            {"is_renew_ack": True},
            {"member_id": "x" * 37},
            {"group_id": ""},
        )
    )
    return {**good, **(wrong if scene.version > 1 or "share_acquire_mode" not in wrong else {})}


def _share_words(scene: Scene) -> Content:
    """Words of a member without a session."""
    batch = {
        "first_offset": 5,
        "last_offset": scene.rng.choice((3, 5)),
        "acknowledge_types": (scene.rng.choice((1, 9)),),
    }
    partitions = [{"partition_index": 0, "acknowledgement_batches": [batch, batch]}]
    return {
        "group_id": SHARE_GROUP,
        "member_id": scene.rng.choice(("nobody", "x" * 37)),
        "share_session_epoch": scene.rng.choice((0, 1, 5, -1)),
        "topics": [{"topic_id": scene.topic.topic_id, "partitions": partitions}],
    }


def _altered(scene: Scene) -> Content:
    """An offset below all; any offset only where no others' group comes about by it.

    An alteration makes a share group that is not there, as in Kafka. Of the name of the consumer group it would keep the members of that
    out: the mistake may come before they do.
    """
    group = scene.rng.choice((SHARE_GROUP, "missing", CONSUMER_GROUP, ""))
    offset = _NO_EPOCH if group in (SHARE_GROUP, CONSUMER_GROUP) else 0
    partitions = [{"partition_index": scene.partition, "start_offset": offset}] * scene.rng.choice((1, 2))
    return {"group_id": group, "topics": [{"topic_name": scene.name, "partitions": partitions}]}


def _forgotten(scene: Scene) -> Content:
    group = scene.rng.choice((SHARE_GROUP, "missing", CONSUMER_GROUP, ""))
    return {"group_id": group, "topics": [{"topic_name": "missing" if group == SHARE_GROUP else scene.name}]}


def _state(scene: Scene) -> Content:
    """A state of a group that is there, in an epoch in which none is; or of a partition, a topic or a group that is not."""
    no_states = [{"first_offset": 0, "last_offset": 3, "delivery_state": 9, "delivery_count": 1}]
    partition = {
        "partition": scene.partition,
        "state_epoch": _NO_EPOCH,
        "leader_epoch": scene.rng.choice((0, 1 << 30)),
        "start_offset": 3,
        "state_batches": scene.rng.choice(((), no_states)),
    }
    return {
        "group_id": scene.rng.choice((SHARE_GROUP, "missing", "")),
        "topics": [{"topic_id": scene.topic.topic_id, "partitions": [partition, {**partition, "partition": -1}]}],
    }


def _no_state(scene: Scene) -> Content:
    """A request for the state of a topic that is not there."""
    partition = {"partition": scene.partition, "leader_epoch": 1}
    topics = [{"topic_id": _NO_TOPIC, "partitions": [partition]}]
    return {"group_id": scene.rng.choice((SHARE_GROUP, "missing")), "topics": topics}


MISTAKES: Final = (
    Question(ApiKey.PRODUCE, _keyless),
    Question(ApiKey.DESCRIBE_QUORUM, _no_metadata),
    Question(ApiKey.DESCRIBE_QUORUM, _no_metadata, listener=ListenerKind.CONTROLLER),
    Question(ApiKey.ADD_PARTITIONS_TO_TXN, _partitions),
    Question(ApiKey.ADD_OFFSETS_TO_TXN, _offsets),
    Question(ApiKey.OFFSET_DELETE, _no_group),
    Question(ApiKey.SHARE_GROUP_HEARTBEAT, _beat),
    Question(ApiKey.SHARE_FETCH, _share_fetch),
    Question(ApiKey.SHARE_ACKNOWLEDGE, _share_words),
    Question(ApiKey.ALTER_SHARE_GROUP_OFFSETS, _altered),
    Question(ApiKey.DELETE_SHARE_GROUP_OFFSETS, _forgotten),
    Question(ApiKey.INITIALIZE_SHARE_GROUP_STATE, _state),
    Question(ApiKey.WRITE_SHARE_GROUP_STATE, _state),
    Question(ApiKey.READ_SHARE_GROUP_STATE, _no_state),
    Question(ApiKey.DELETE_SHARE_GROUP_STATE, _no_state),
)
"""All of them."""
