"""Cases about topics, partitions and what brokers tell of the cluster."""

from typing import Any, Final

from esp.protocol.registry import ApiKey
from tests.conformance.comparer.case import Case
from tests.conformance.comparer.setup import EMPTY, GROWING, MISSING, MISSING_ID, RECORDS


def _new(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [],
        "configs": [],
        **more,
    }


def _create(*topics: dict[str, Any], timeout: int = 30_000, validate_only: bool = False) -> dict[str, Any]:
    return {"topics": topics, "timeout": timeout, "validate_only": validate_only}


def _assigned(*replicas: list[int]) -> dict[str, Any]:
    assignments = [{"partition_index": number, "broker_ids": brokers} for number, brokers in enumerate(replicas)]
    return _new("assigned", -1, -1, assignments=assignments)


def _grow(
    count: int,
    assignments: list[list[int]] | None = None,
    topic: str = GROWING,
    *,
    timeout: int = 30_000,
    dry: bool = False,
) -> dict[str, Any]:
    brokers = None if assignments is None else [{"broker_ids": each} for each in assignments]
    return {
        "topics": [{"name": topic, "count": count, "assignments": brokers}],
        "timeout": timeout,
        "validate_only": dry,
    }


def _delete(*names: str, timeout: int = 30_000) -> dict[str, Any]:
    """By name, in every version."""
    return {
        "topic_names": names,
        "topics": [{"name": name, "topic_id": None} for name in names],
        "timeout": timeout,
    }


def _elect(election_type: int, partitions: list[tuple[str, list[int]]] | None, timeout: int = 10_000) -> dict[str, Any]:
    topics = None if partitions is None else [{"topic": topic, "partitions": numbers} for topic, numbers in partitions]
    return {"election_type": election_type, "topic_partitions": topics, "timeout": timeout}


def _metadata(names: list[str] | None, **more: Any) -> dict[str, Any]:
    topics = None if names is None else [{"name": name, "topic_id": None} for name in names]
    return {"topics": topics, "allow_auto_topic_creation": False, **more}


def _pages(names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None) -> dict[str, Any]:
    return {
        "topics": [{"name": name} for name in names],
        "response_partition_limit": limit,
        "cursor": None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]},
    }


_KEY = ApiKey

CASES: Final = (
    Case("served", _KEY.API_VERSIONS, {"client_software_name": "comparer", "client_software_version": "1"}),
    Case("bad name", _KEY.API_VERSIONS, {"client_software_name": "", "client_software_version": "1"}),
    Case("without SASL", _KEY.SASL_HANDSHAKE, {"mechanism": "PLAIN"}),
    Case("without SASL", _KEY.SASL_AUTHENTICATE, {"auth_bytes": b"x"}),
    Case("all", _KEY.METADATA, _metadata(None), first_version=1),
    Case("none", _KEY.METADATA, _metadata([]), first_version=1),
    Case("some", _KEY.METADATA, _metadata([RECORDS, EMPTY])),
    Case("missing", _KEY.METADATA, _metadata([MISSING]), first_version=4),
    Case("twice", _KEY.METADATA, _metadata([EMPTY, EMPTY])),
    Case("bad name", _KEY.METADATA, _metadata(["a b", "", ".."])),
    Case(
        "operations",
        _KEY.METADATA,
        _metadata([EMPTY], include_topic_authorized_operations=True, include_cluster_authorized_operations=True),
    ),
    Case("by id", _KEY.METADATA, lambda t, _: {"topics": [{"name": None, "topic_id": t.topic_id(EMPTY)}]}, 12),
    Case("missing id", _KEY.METADATA, {"topics": [{"name": None, "topic_id": MISSING_ID}]}, 12),
    Case("neither", _KEY.METADATA, {"topics": [{"name": None, "topic_id": None}]}, 10),
    Case("some", _KEY.DESCRIBE_TOPIC_PARTITIONS, _pages([RECORDS, EMPTY, MISSING])),
    Case("pages", _KEY.DESCRIBE_TOPIC_PARTITIONS, _pages([EMPTY, RECORDS], 3)),
    Case("next page", _KEY.DESCRIBE_TOPIC_PARTITIONS, _pages([EMPTY, RECORDS], 3, (RECORDS, 1))),
    Case("far page", _KEY.DESCRIBE_TOPIC_PARTITIONS, _pages([EMPTY, RECORDS], 3, ("zebra", 0))),
    Case("between", _KEY.DESCRIBE_TOPIC_PARTITIONS, _pages([EMPTY, RECORDS], 3, ("f", 0))),
    Case("beyond", _KEY.DESCRIBE_TOPIC_PARTITIONS, _pages([EMPTY], 3, (EMPTY, 9))),
    Case("no limit", _KEY.DESCRIBE_TOPIC_PARTITIONS, _pages([EMPTY], 0)),
    Case("negative limit", _KEY.DESCRIBE_TOPIC_PARTITIONS, _pages([EMPTY], -1)),
    Case("bad cursor", _KEY.DESCRIBE_TOPIC_PARTITIONS, _pages([EMPTY], 3, (EMPTY, -1))),
    Case("brokers", _KEY.DESCRIBE_CLUSTER, {"endpoint_type": 1, "include_fenced_brokers": True}),
    Case("operations", _KEY.DESCRIBE_CLUSTER, {"endpoint_type": 1, "include_cluster_authorized_operations": True}),
    Case("controllers", _KEY.DESCRIBE_CLUSTER, {"endpoint_type": 2}),
    Case("no such endpoint", _KEY.DESCRIBE_CLUSTER, {"endpoint_type": 3}),
    Case("by numbers", _KEY.CREATE_TOPICS, lambda _, v: _create(_new(f"created-{v}", 2))),
    Case("defaults", _KEY.CREATE_TOPICS, lambda _, v: _create(_new(f"defaults-{v}", -1, -1)), 4),
    Case("assigned", _KEY.CREATE_TOPICS, _create(_assigned([1], [1]), validate_only=True)),
    Case("assigned badly", _KEY.CREATE_TOPICS, _create(_assigned([1], [2]), validate_only=True)),
    Case("dry run", _KEY.CREATE_TOPICS, _create(_new("dry", 3), validate_only=True)),
    Case("there already", _KEY.CREATE_TOPICS, _create(_new(EMPTY), _new("a b"), _new(""), _new("zero", 0))),
    Case("too many replicas", _KEY.CREATE_TOPICS, _create(_new("wide", 1, 3), _new("narrow", 1, 0))),
    Case("twice", _KEY.CREATE_TOPICS, _create(_new("twin"), _new("twin"))),
    Case("nothing", _KEY.CREATE_TOPICS, _create()),
    Case("no time", _KEY.CREATE_TOPICS, _create(_new("hasty"), timeout=0, validate_only=True)),
    Case(
        "settings",
        _KEY.CREATE_TOPICS,
        lambda _, v: _create(_new(f"set-{v}", configs=[{"name": "retention.ms", "value": "1000"}])),
    ),
    Case(
        "bad setting",
        _KEY.CREATE_TOPICS,
        _create(
            _new("bad-1", configs=[{"name": "retention.ms", "value": "x"}]),
            _new("bad-2", configs=[{"name": "no.such", "value": "1"}]),
            _new("bad-3", configs=[{"name": "retention.ms", "value": None}]),
        ),
    ),
    Case("more", _KEY.CREATE_PARTITIONS, lambda _, v: _grow(v + 2)),
    Case("given", _KEY.CREATE_PARTITIONS, lambda _, v: _grow(v + 6, [[1]])),
    Case("as many", _KEY.CREATE_PARTITIONS, _grow(9)),
    Case("fewer", _KEY.CREATE_PARTITIONS, _grow(1)),
    Case("negative", _KEY.CREATE_PARTITIONS, _grow(-1)),
    Case("missing", _KEY.CREATE_PARTITIONS, _grow(3, topic=MISSING)),
    Case("no name", _KEY.CREATE_PARTITIONS, _grow(3, topic="")),
    Case("too few given", _KEY.CREATE_PARTITIONS, _grow(12, [[1]])),
    Case("nothing given", _KEY.CREATE_PARTITIONS, _grow(12, [])),
    Case("empty given", _KEY.CREATE_PARTITIONS, _grow(10, [[]])),
    Case("unknown broker", _KEY.CREATE_PARTITIONS, _grow(10, [[2]])),
    Case("other factor", _KEY.CREATE_PARTITIONS, _grow(10, [[1, 2]])),
    Case("broker twice", _KEY.CREATE_PARTITIONS, _grow(10, [[1, 1]])),
    Case("dry run", _KEY.CREATE_PARTITIONS, _grow(10, dry=True), first_version=1),
    Case("dry and given", _KEY.CREATE_PARTITIONS, _grow(10, [[1]], dry=True), first_version=1),
    Case("nothing", _KEY.CREATE_PARTITIONS, {"topics": [], "timeout": 1000}),
    Case("no time", _KEY.CREATE_PARTITIONS, _grow(10, timeout=0)),
    Case("twice", _KEY.CREATE_PARTITIONS, {"topics": _grow(10)["topics"] * 2, "timeout": 1000}),
    Case("grown", _KEY.METADATA, _metadata([GROWING]), first_version=4),
    Case("not needed", _KEY.ELECT_LEADERS, _elect(0, [(RECORDS, [0, 9]), (MISSING, [0])])),
    Case("all", _KEY.ELECT_LEADERS, _elect(0, None)),
    Case("all unclean", _KEY.ELECT_LEADERS, _elect(1, None), first_version=1),
    Case("none", _KEY.ELECT_LEADERS, _elect(0, [])),
    Case("twice", _KEY.ELECT_LEADERS, _elect(0, [(RECORDS, [0, 0]), (RECORDS, [0])])),
    Case("no such type", _KEY.ELECT_LEADERS, _elect(2, [(RECORDS, [0])]), first_version=1),
    Case("no such type, all", _KEY.ELECT_LEADERS, _elect(-1, None), first_version=1),
    Case("no such type, none", _KEY.ELECT_LEADERS, _elect(-1, []), first_version=1),
    Case("no time", _KEY.ELECT_LEADERS, _elect(0, [(RECORDS, [0])], timeout=0)),
    Case("by name", _KEY.DELETE_TOPICS, lambda _, v: _delete(f"created-{max(v, 2)}")),
    Case("missing", _KEY.DELETE_TOPICS, _delete(MISSING)),
    Case("twice", _KEY.DELETE_TOPICS, _delete(EMPTY, EMPTY)),
    Case("no time", _KEY.DELETE_TOPICS, _delete(MISSING, timeout=0)),
    Case("missing id", _KEY.DELETE_TOPICS, {"topics": [{"name": None, "topic_id": MISSING_ID}], "timeout": 1000}, 6),
    Case("neither", _KEY.DELETE_TOPICS, {"topics": [{"name": None, "topic_id": None}], "timeout": 1000}, 6),
    Case(
        "name and id",
        _KEY.DELETE_TOPICS,
        lambda t, _: {"topics": [{"name": EMPTY, "topic_id": t.topic_id(EMPTY)}], "timeout": 1000},
        6,
    ),
)
