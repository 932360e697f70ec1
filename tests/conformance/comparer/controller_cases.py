"""Cases for controller listeners: what members of the quorum, brokers and tools ask controllers.

Nothing here may change the quorum: requests that a leader would believe name an old epoch, another cluster or somebody who is no member.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from esp.protocol.enclosed import encode_address, encode_principal
from esp.protocol.messages import LENGTH_BYTES, encode_request
from esp.protocol.registry import SERVED_ON, ApiKey, ListenerKind
from esp.simulation.workload.survey_requests import build
from tests.conformance.comparer.case import Case, Content
from tests.conformance.comparer.setup import EMPTY, MISSING_ID
from tests.conformance.comparer.target import Target

METADATA: Final = "__cluster_metadata"
METADATA_ID: Final = UUID(int=1)
THIS, STRANGER = 1, 77
_TOPIC_IDS_FROM: Final = 13
_KEY = ApiKey

Make = Callable[[Target, int], Content]


_OF_BROKERS_ONLY: Final = (
    (_KEY.FETCH, "*"),
    *(
        (_KEY.DESCRIBE_USER_SCRAM_CREDENTIALS, name)
        for name in ("all", "after additions", "no names", "after removals")
    ),
)
"""Cases that are none at controllers: a fetch is another one there, and a Kafka controller does not answer who asks for all credentials."""


def at_controllers(cases: Iterable[Case]) -> Iterator[Case]:
    """The cases of broker listeners whose APIs controller listeners serve alike."""
    for case in cases:
        is_another = (case.key, "*") in _OF_BROKERS_ONLY or (case.key, case.name) in _OF_BROKERS_ONLY
        if case.key in SERVED_ON[ListenerKind.CONTROLLER] and not is_another:
            yield replace(case, listener=ListenerKind.CONTROLLER)


def _case(name: str, key: ApiKey, content: Content | Make, first_version: int = 0) -> Case:
    return Case(name, key, content, first_version, listener=ListenerKind.CONTROLLER)


def _of_partition(topic: str = METADATA, number: int = 0, **fields: Any) -> dict[str, Any]:
    return {"topics": [{"topic_name": topic, "partitions": [{"partition_index": number, **fields}]}]}


def _vote(cluster: str | None = None, voter: int = THIS, topic: str = METADATA, number: int = 0, **more: Any) -> Make:
    fields = {
        "replica_epoch": 0,
        "replica_id": STRANGER,
        "replica_directory_id": MISSING_ID,
        "voter_directory_id": None,
        "last_offset_epoch": 0,
        "last_offset": 0,
        "pre_vote": False,
        **more,
    }
    return lambda t, _: (
        {"cluster_id": cluster or t.cluster_id, "voter_id": voter} | _of_partition(topic, number, **fields)
    )


def _begin(cluster: str | None = None, voter: int = THIS, topic: str = METADATA, number: int = 0, **more: Any) -> Make:
    fields = {"voter_directory_id": None, "leader_id": STRANGER, "leader_epoch": 0, **more}
    endpoints = [{"name": "CONTROLLER", "host": "localhost", "port": 9}]
    return lambda t, _: (
        {
            "cluster_id": cluster or t.cluster_id,
            "voter_id": voter,
            "leader_endpoints": endpoints,
        }
        | _of_partition(topic, number, **fields)
    )


def _end(cluster: str | None = None, topic: str = METADATA, number: int = 0, **more: Any) -> Make:
    candidates = [{"candidate_id": THIS, "candidate_directory_id": MISSING_ID}]
    fields = {
        "leader_id": STRANGER,
        "leader_epoch": 0,
        "preferred_successors": [THIS],
        "preferred_candidates": candidates,
        **more,
    }
    return lambda t, _: (
        {"cluster_id": cluster or t.cluster_id, "leader_endpoints": []} | _of_partition(topic, number, **fields)
    )


def _fetch(cluster: str | None = None, topic: str = METADATA, number: int = 0, **more: Any) -> Make:
    def content(target: Target, version: int) -> Content:
        asked = {
            "partition": number,
            "current_leader_epoch": -1,
            "fetch_offset": 0,
            "last_fetched_epoch": 0,
            "partition_max_bytes": 1000,
            "replica_directory_id": MISSING_ID,
            **more,
        }
        topic_id = METADATA_ID if topic == METADATA else MISSING_ID
        return {
            "cluster_id": cluster or target.cluster_id,
            "replica_id": STRANGER,
            "replica_state": {"replica_id": STRANGER, "replica_epoch": -1},
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": 1000,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": topic, "topic_id": topic_id, "partitions": [asked]}],
        }

    return content


def _snapshot(cluster: str | None = None, topic: str = METADATA, number: int = 0, **more: Any) -> Make:
    def content(target: Target, _: int) -> Content:
        asked = {
            "partition": number,
            "current_leader_epoch": target.quorum["leader_epoch"],
            "snapshot_id": {"end_offset": 1 << 40, "epoch": 0},
            "position": 0,
            "replica_directory_id": MISSING_ID,
            **more,
        }
        return {
            "cluster_id": cluster or target.cluster_id,
            "replica_id": STRANGER,
            "max_bytes": 1000,
            "topics": [{"name": topic, "partitions": [asked]}],
        }

    return content


def _registration(broker: int = STRANGER, cluster: str | None = None, **more: Any) -> Make:
    features = [{"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 30}]
    listeners = [{"name": "PLAINTEXT", "host": "localhost", "port": 9, "security_protocol": 0}]
    return lambda t, _: {
        "broker_id": broker,
        "cluster_id": cluster or t.cluster_id,
        "incarnation_id": MISSING_ID,
        "listeners": listeners,
        "features": features,
        "log_dirs": [MISSING_ID],
        "previous_broker_epoch": -1,
        **more,
    }


def _heartbeat(broker: int, epoch: int, **more: Any) -> Content:
    return {
        "broker_id": broker,
        "broker_epoch": epoch,
        "current_metadata_offset": 0,
        "want_fence": False,
        "want_shut_down": False,
        **more,
    }


def _isr(broker: int, epoch: int, topic: str | None = EMPTY, number: int = 0, **more: Any) -> Make:
    change = {
        "partition_index": number,
        "leader_epoch": 0,
        "new_isr": [broker],
        "new_isr_with_epochs": [{"broker_id": broker, "broker_epoch": epoch}],
        "leader_recovery_state": 0,
        "partition_epoch": 0,
        **more,
    }
    return lambda t, _: {
        "broker_id": broker,
        "broker_epoch": epoch,
        "topics": [{"topic_id": MISSING_ID if topic is None else t.topic_id(topic), "partitions": [change]}],
    }


def _directories(broker: int, epoch: int) -> Make:
    return lambda t, _: {
        "broker_id": broker,
        "broker_epoch": epoch,
        "directories": [
            {"id_": MISSING_ID, "topics": [{"topic_id": t.topic_id(EMPTY), "partitions": [{"partition_index": 0}]}]}
        ],
    }


def _voter(cluster: str | None = None, voter: int = STRANGER, **more: Any) -> Make:
    fields = {
        "timeout": 1000,
        "voter_id": voter,
        "voter_directory_id": MISSING_ID,
        "listeners": [{"name": "CONTROLLER", "host": "localhost", "port": 9}],
        "ack_when_committed": True,
        **more,
    }
    return lambda t, _: {"cluster_id": cluster or t.cluster_id, **fields}


def _removed(voter: int) -> Make:
    return lambda t, _: {"cluster_id": t.cluster_id, "voter_id": voter, "voter_directory_id": MISSING_ID}


def _update(cluster: str | None = None, voter: int = STRANGER, epoch: int | None = None, **more: Any) -> Make:
    return lambda t, _: {
        "cluster_id": cluster or t.cluster_id,
        "current_leader_epoch": t.quorum["leader_epoch"] if epoch is None else epoch,
        "voter_id": voter,
        "voter_directory_id": MISSING_ID,
        "listeners": [{"name": "CONTROLLER", "host": "localhost", "port": 9}],
        "k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
        **more,
    }


def _envelope(key: ApiKey, version: int, content: Content, **changes: Any) -> Content:
    """A request of a client, as its broker passes it on."""
    frame = encode_request(key, version, 77, "client", build(key, version, content))
    enclosed = {
        "request_data": frame[LENGTH_BYTES:],
        "request_principal": encode_principal("User:ANONYMOUS"),
        "client_host_address": encode_address("127.0.0.1"),
    }
    return enclosed | changes


_NEW_TOKEN: Final = {"renewers": [], "max_lifetime": -1}
_MOVES: Final = (_KEY.LIST_PARTITION_REASSIGNMENTS, 0, {"topics": [], "timeout_ms": 1000})


CASES: Final = (
    _case("of a client", _KEY.ENVELOPE, _envelope(*_MOVES)),
    _case("no principal", _KEY.ENVELOPE, _envelope(*_MOVES, request_principal=None)),
    _case("another form of principal", _KEY.ENVELOPE, _envelope(*_MOVES, request_principal=b"\0\1\0")),
    _case("cut principal", _KEY.ENVELOPE, _envelope(*_MOVES, request_principal=b"\0\0\5Us")),
    _case("no address", _KEY.ENVELOPE, _envelope(*_MOVES, client_host_address=b"")),
    _case("three bytes of address", _KEY.ENVELOPE, _envelope(*_MOVES, client_host_address=b"\1\2\3")),
    _case("nothing enclosed", _KEY.ENVELOPE, _envelope(*_MOVES, request_data=b"")),
    _case("an unknown version", _KEY.ENVELOPE, _envelope(*_MOVES, request_data=b"\0\x13\0\x63\0\0\0\1\xff\xff\0")),
    _case("a request that is never passed on", _KEY.ENVELOPE, _envelope(_KEY.METADATA, 12, {"topics": None})),
    _case("one of nodes", _KEY.ENVELOPE, _envelope(_KEY.VOTE, 0, {})),
    _case("a client's token", _KEY.ENVELOPE, _envelope(_KEY.CREATE_DELEGATION_TOKEN, 3, _NEW_TOKEN)),
    _case("renewal of a client's token", _KEY.ENVELOPE, _envelope(_KEY.RENEW_DELEGATION_TOKEN, 2, {"hmac": b"x"})),
    _case("end of a client's token", _KEY.ENVELOPE, _envelope(_KEY.EXPIRE_DELEGATION_TOKEN, 2, {"hmac": b"x"})),
    _case(
        "a token by a token",
        _KEY.ENVELOPE,
        _envelope(
            *(_KEY.CREATE_DELEGATION_TOKEN, 3, _NEW_TOKEN),
            request_principal=encode_principal("User:a", is_by_token=True),
        ),
    ),
    _case("an envelope in it", _KEY.ENVELOPE, _envelope(_KEY.ENVELOPE, 0, _envelope(*_MOVES))),
    _case("old epoch", _KEY.VOTE, _vote()),
    _case("other cluster", _KEY.VOTE, _vote("other")),
    _case("other topic", _KEY.VOTE, _vote(topic="other")),
    _case("other partition", _KEY.VOTE, _vote(number=1)),
    _case("another voter", _KEY.VOTE, _vote(voter=5), 1),
    _case("another directory", _KEY.VOTE, _vote(voter_directory_id=MISSING_ID), 1),
    _case("nobody", _KEY.VOTE, _vote(replica_id=-1)),
    _case("negative epoch", _KEY.VOTE, _vote(replica_epoch=-1)),
    _case("newer log", _KEY.VOTE, _vote(last_offset_epoch=5, last_offset=5)),
    _case("negative offset", _KEY.VOTE, _vote(last_offset=-1)),
    _case("before the vote", _KEY.VOTE, _vote(pre_vote=True), 2),
    _case("no topic", _KEY.VOTE, lambda t, _: {"cluster_id": t.cluster_id, "voter_id": THIS, "topics": []}),
    _case("old epoch", _KEY.BEGIN_QUORUM_EPOCH, _begin()),
    _case("other cluster", _KEY.BEGIN_QUORUM_EPOCH, _begin("other")),
    _case("other topic", _KEY.BEGIN_QUORUM_EPOCH, _begin(topic="other")),
    _case("other partition", _KEY.BEGIN_QUORUM_EPOCH, _begin(number=1)),
    _case("another voter", _KEY.BEGIN_QUORUM_EPOCH, _begin(voter=5), 1),
    _case("nobody", _KEY.BEGIN_QUORUM_EPOCH, _begin(leader_id=-1)),
    _case("old epoch", _KEY.END_QUORUM_EPOCH, _end()),
    _case("other cluster", _KEY.END_QUORUM_EPOCH, _end("other")),
    _case("other topic", _KEY.END_QUORUM_EPOCH, _end(topic="other")),
    _case("other partition", _KEY.END_QUORUM_EPOCH, _end(number=1)),
    _case("other cluster", _KEY.FETCH, _fetch("other"), 12),
    _case("other topic", _KEY.FETCH, _fetch(topic="other")),
    _case("other partition", _KEY.FETCH, _fetch(number=1)),
    _case("old epoch", _KEY.FETCH, _fetch(current_leader_epoch=0), 12),
    _case("newer epoch", _KEY.FETCH, _fetch(current_leader_epoch=1 << 20), 12),
    _case("negative offset", _KEY.FETCH, _fetch(fetch_offset=-1), 12),
    _case("unknown", _KEY.FETCH_SNAPSHOT, _snapshot()),
    _case("other cluster", _KEY.FETCH_SNAPSHOT, _snapshot("other")),
    _case("other topic", _KEY.FETCH_SNAPSHOT, _snapshot(topic="other")),
    _case("other partition", _KEY.FETCH_SNAPSHOT, _snapshot(number=1)),
    _case("old epoch", _KEY.FETCH_SNAPSHOT, _snapshot(current_leader_epoch=0)),
    _case("newer epoch", _KEY.FETCH_SNAPSHOT, _snapshot(current_leader_epoch=1 << 20)),
    _case("negative position", _KEY.FETCH_SNAPSHOT, _snapshot(position=-1)),
    _case("other partition", _KEY.DESCRIBE_QUORUM, _of_partition(number=1)),
    _case("other cluster", _KEY.BROKER_REGISTRATION, _registration(cluster="other")),
    _case("somebody else", _KEY.BROKER_REGISTRATION, _registration(THIS)),
    _case("no listener", _KEY.BROKER_REGISTRATION, _registration(listeners=[])),
    _case("no features", _KEY.BROKER_REGISTRATION, _registration(features=[])),
    _case("no directories", _KEY.BROKER_REGISTRATION, _registration(log_dirs=[]), 2),
    _case("directory twice", _KEY.BROKER_REGISTRATION, _registration(log_dirs=[MISSING_ID, MISSING_ID]), 2),
    _case("migrating", _KEY.BROKER_REGISTRATION, _registration(is_migrating_zk_broker=True), 1),
    _case("a stranger", _KEY.BROKER_HEARTBEAT, _heartbeat(STRANGER, 5)),
    _case("another epoch", _KEY.BROKER_HEARTBEAT, _heartbeat(THIS, 1 << 40)),
    _case("old epoch", _KEY.BROKER_HEARTBEAT, _heartbeat(THIS, -1)),
    _case("negative", _KEY.BROKER_HEARTBEAT, _heartbeat(-1, -1)),
    _case("a stranger", _KEY.ALTER_PARTITION, _isr(STRANGER, 5)),
    _case("another epoch", _KEY.ALTER_PARTITION, _isr(THIS, 1 << 40)),
    _case("missing topic of a stranger", _KEY.ALTER_PARTITION, _isr(STRANGER, 5, None)),
    _case("a stranger", _KEY.ALLOCATE_PRODUCER_IDS, {"broker_id": STRANGER, "broker_epoch": 5}),
    _case("another epoch", _KEY.ALLOCATE_PRODUCER_IDS, {"broker_id": THIS, "broker_epoch": 1 << 40}),
    _case("negative", _KEY.ALLOCATE_PRODUCER_IDS, {"broker_id": -1, "broker_epoch": -1}),
    _case("a stranger", _KEY.ASSIGN_REPLICAS_TO_DIRS, _directories(STRANGER, 5)),
    _case("another epoch", _KEY.ASSIGN_REPLICAS_TO_DIRS, _directories(THIS, 1 << 40)),
    _case(
        "no listener",
        _KEY.CONTROLLER_REGISTRATION,
        {"controller_id": STRANGER, "incarnation_id": MISSING_ID, "listeners": [], "features": []},
    ),
    _case("no listener", _KEY.ADD_RAFT_VOTER, _voter(listeners=[])),
    _case("there already", _KEY.ADD_RAFT_VOTER, _voter(voter=THIS)),
    _case("negative", _KEY.ADD_RAFT_VOTER, _voter(voter=-1)),
    _case("a stranger", _KEY.REMOVE_RAFT_VOTER, _removed(STRANGER)),
    _case("another directory", _KEY.REMOVE_RAFT_VOTER, _removed(THIS)),
    _case("other cluster", _KEY.UPDATE_RAFT_VOTER, _update("other")),
    _case("a stranger", _KEY.UPDATE_RAFT_VOTER, _update()),
    _case("another directory", _KEY.UPDATE_RAFT_VOTER, _update(voter=THIS)),
    _case("old epoch", _KEY.UPDATE_RAFT_VOTER, _update(epoch=0)),
    _case("newer epoch", _KEY.UPDATE_RAFT_VOTER, _update(epoch=1 << 20)),
)
