"""Cases of administrators: settings, directories, features, and what there is none of."""

from typing import Any, Final

from esp.protocol.registry import ApiKey
from tests.conformance.comparer.case import Case
from tests.conformance.comparer.setup import EMPTY, MISSING, MISSING_ID, RECORDS

_TOPIC, _BROKER, _GROUP, _CLIENT_METRICS = 2, 4, 32, 16
_UPGRADE, _SAFE_DOWNGRADE = 1, 2
_KEY = ApiKey


def _describe(kind: int, name: str, keys: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}], **more}


def _alter(kind: int, name: str, *settings: tuple[str, int, str | None], dry: bool = False) -> dict[str, Any]:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in settings]
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}], "validate_only": dry}


def _cleaner(*settings: tuple[str, str], broker: str = "1") -> dict[str, Any]:
    """Other settings of compaction at a broker, or at all; nothing is changed."""
    return _alter(_BROKER, broker, *((f"log.cleaner.{name}", 0, value) for name, value in settings), dry=True)


def _replace(kind: int, name: str, *settings: tuple[str, str | None]) -> dict[str, Any]:
    configs = [{"name": key, "value": value} for key, value in settings]
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}], "validate_only": True}


def _dirs(*asked: tuple[str, list[int]]) -> dict[str, Any]:
    return {"topics": [{"topic": topic, "partitions": numbers} for topic, numbers in asked]}


def _reassign(
    *asked: tuple[str, list[tuple[int, list[int] | None]]], timeout: int = 10_000, is_fast: bool = False
) -> dict[str, Any]:
    return {
        "timeout": timeout,
        "allow_replication_factor_change": not is_fast,
        "topics": [
            {
                "name": topic,
                "partitions": [{"partition_index": number, "replicas": replicas} for number, replicas in partitions],
            }
            for topic, partitions in asked
        ],
    }


def _moves(path: str, topic: str, partitions: list[int]) -> dict[str, Any]:
    return {"dirs": [{"path": path, "topics": [{"name": topic, "partitions": partitions}]}]}


def _set_quotas(
    entity: list[tuple[str, str | None]], *changes: tuple[str, float | None], dry: bool = False
) -> dict[str, Any]:
    entry = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in changes],
    }
    return {"entries": [entry], "validate_only": dry}


def _features(*updates: tuple[str, int, int]) -> dict[str, Any]:
    return {
        "timeout": 5000,
        "feature_updates": [
            {"feature": feature, "max_version_level": level, "upgrade_type": kind, "allow_downgrade": False}
            for feature, level, kind in updates
        ],
        "validate_only": True,
    }


def _quotas(*components: tuple[str, int, str | None]) -> dict[str, Any]:
    return {
        "components": [
            {"entity_type": entity, "match_type": kind, "match": match} for entity, kind, match in components
        ],
        "strict": True,
    }


def _add(user: str, mechanism: int = 1, iterations: int = 4096, **more: Any) -> dict[str, Any]:
    return {
        "name": user,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": b"salt of sixteen.",
        "salted_password": bytes(32),
        **more,
    }


def _alter_users(*upsertions: dict[str, Any], deleted: tuple[tuple[str, int], ...] = ()) -> dict[str, Any]:
    deletions = [{"name": user, "mechanism": mechanism} for user, mechanism in deleted]
    return {"deletions": deletions, "upsertions": list(upsertions)}


def _users(*names: str) -> dict[str, Any]:
    return {"users": [{"name": name} for name in names]}


_ACL: Final = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
_NEW_ACL: Final = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_USERS_TOKEN: Final = {"owner_principal_type": "User", "owner_principal_name": "a"}
_MV, _ELR = "metadata.version", "eligible.leader.replicas.version"

_TEXT_BYTES_MAX: Final = 32_767
_LONGEST, _LONGER = "x" * _TEXT_BYTES_MAX, "x" * (_TEXT_BYTES_MAX + 1)

_LONG_TEXTS: Final = (
    # First versions whose lengths could say more.
    Case("a long name", _KEY.DESCRIBE_CLIENT_QUOTAS, _quotas(("user", 0, _LONGEST)), 1),
    Case("a longer name", _KEY.DESCRIBE_CLIENT_QUOTAS, _quotas(("user", 0, _LONGER)), 1),
    Case("a longer name", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([("user", _LONGER)], ("request_percentage", 1e9)), 1),
    Case("a longer name", _KEY.DESCRIBE_USER_SCRAM_CREDENTIALS, _users(_LONGER)),
    Case("a longer name", _KEY.ALTER_USER_SCRAM_CREDENTIALS, _alter_users(_add(_LONGER))),
    Case("a longer name", _KEY.DELETE_ACLS, {"filters": [{**_ACL, "resource_name_filter": _LONGER}]}, 2),
    Case("a long state", _KEY.LIST_GROUPS, {"states_filter": [_LONGEST]}, 4),
    Case("a longer state", _KEY.LIST_GROUPS, {"states_filter": [_LONGER]}, 4),
    Case("a longer type", _KEY.LIST_GROUPS, {"types_filter": [_LONGER]}, 5),
    Case(
        "a longer name",
        _KEY.DESCRIBE_PRODUCERS,
        {"topics": [{"name": _LONGER, "partition_indexes": [0]}]},
    ),
    Case(
        "a longer name",
        _KEY.LIST_PARTITION_REASSIGNMENTS,
        {"topics": [{"name": _LONGER, "partition_indexes": [0]}], "timeout": 1000},
    ),
    Case("a longer id", _KEY.PRODUCE, {"transactional_id": _LONGER, "acks": -1, "timeout": 1000, "topic_data": []}, 9),
    Case("a longer rack", _KEY.FETCH, {"rack_id": _LONGER, "topics": [], "forgotten_topics_data": []}, 12),
    Case("a longer value", _KEY.INCREMENTAL_ALTER_CONFIGS, _alter(_TOPIC, EMPTY, ("x", 0, _LONGER), dry=True), 1),
)

CASES: Final = (
    Case("some", _KEY.DESCRIBE_LOG_DIRS, _dirs((EMPTY, [0, 1, 7]), (MISSING, [0]))),
    Case("none", _KEY.DESCRIBE_LOG_DIRS, {"topics": []}),
    Case("nothing", _KEY.ALTER_REPLICA_LOG_DIRS, {"dirs": []}),
    Case("unknown directory", _KEY.ALTER_REPLICA_LOG_DIRS, _moves("/no/such/directory", EMPTY, [0, 7])),
    Case("unknown directory and topic", _KEY.ALTER_REPLICA_LOG_DIRS, _moves("/no/such/directory", MISSING, [0])),
    Case("empty directory", _KEY.ALTER_REPLICA_LOG_DIRS, _moves("", EMPTY, [0])),
    Case("no partition", _KEY.ALTER_REPLICA_LOG_DIRS, _moves("/no/such/directory", EMPTY, [])),
    Case("no partition", _KEY.DESCRIBE_LOG_DIRS, _dirs((RECORDS, []))),
    Case("with records", _KEY.DESCRIBE_LOG_DIRS, _dirs((RECORDS, [0, 1]))),
    Case("metadata", _KEY.DESCRIBE_LOG_DIRS, _dirs(("__cluster_metadata", [0]))),
    Case("all", _KEY.LIST_PARTITION_REASSIGNMENTS, {"topics": None, "timeout": 1000}),
    Case(
        "some",
        _KEY.LIST_PARTITION_REASSIGNMENTS,
        {"topics": [{"name": EMPTY, "partition_indexes": [0, 9]}, {"name": MISSING, "partition_indexes": [0]}]},
    ),
    Case("nothing", _KEY.ALTER_PARTITION_REASSIGNMENTS, _reassign(timeout=0)),
    Case("no partition", _KEY.ALTER_PARTITION_REASSIGNMENTS, _reassign((EMPTY, []))),
    Case("no time", _KEY.ALTER_PARTITION_REASSIGNMENTS, _reassign((EMPTY, [(0, [1]), (1, None)]), timeout=0)),
    Case("as it is", _KEY.ALTER_PARTITION_REASSIGNMENTS, _reassign((EMPTY, [(0, [1]), (1, [1])]))),
    Case("idle", _KEY.ALTER_PARTITION_REASSIGNMENTS, _reassign((EMPTY, [(0, None)]))),
    Case("no replica", _KEY.ALTER_PARTITION_REASSIGNMENTS, _reassign((EMPTY, [(0, [])]))),
    Case("twice", _KEY.ALTER_PARTITION_REASSIGNMENTS, _reassign((EMPTY, [(0, [1, 1])]))),
    Case("no broker", _KEY.ALTER_PARTITION_REASSIGNMENTS, _reassign((EMPTY, [(0, [7]), (1, [-1])]))),
    Case(
        "missing", _KEY.ALTER_PARTITION_REASSIGNMENTS, _reassign((MISSING, [(0, [1])]), (EMPTY, [(9, [1]), (-1, None)]))
    ),
    Case("fast", _KEY.ALTER_PARTITION_REASSIGNMENTS, _reassign((EMPTY, [(0, [1]), (1, [1, 7])]), is_fast=True)),
    Case("present", _KEY.UPDATE_FEATURES, _features((_MV, 30, _UPGRADE), (_ELR, 1, _UPGRADE))),
    Case("above", _KEY.UPDATE_FEATURES, _features((_MV, 31, _UPGRADE))),
    Case("below", _KEY.UPDATE_FEATURES, _features((_MV, 6, _SAFE_DOWNGRADE))),
    Case("negative", _KEY.UPDATE_FEATURES, _features((_ELR, -1, _UPGRADE))),
    Case("no such level", _KEY.UPDATE_FEATURES, _features((_ELR, 2, _UPGRADE))),
    Case("down as an upgrade", _KEY.UPDATE_FEATURES, _features((_ELR, 0, _UPGRADE)), 1),
    Case("down", _KEY.UPDATE_FEATURES, _features((_ELR, 0, _SAFE_DOWNGRADE)), 1),
    Case("unknown", _KEY.UPDATE_FEATURES, _features(("no.such", 1, _UPGRADE), (_MV, 30, _UPGRADE))),
    Case("unknown at 0", _KEY.UPDATE_FEATURES, _features(("no.such", 0, _UPGRADE))),
    Case("no name", _KEY.UPDATE_FEATURES, _features(("", 1, _UPGRADE))),
    Case("no such type", _KEY.UPDATE_FEATURES, _features((_MV, 30, 4)), 1),
    Case("kraft.version above", _KEY.UPDATE_FEATURES, _features(("kraft.version", 2, _UPGRADE))),
    Case("twice", _KEY.UPDATE_FEATURES, _features((_MV, 30, _UPGRADE), (_MV, 30, _UPGRADE))),
    Case("nothing", _KEY.UPDATE_FEATURES, _features()),
    Case("of a user", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([("user", "x")], ("request_percentage", 1e9))),
    Case("dry", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([("user", "z")], ("request_percentage", 1e9), dry=True)),
    Case("of no entity", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([], ("producer_byte_rate", 1e9))),
    Case("of no name", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([("user", "")], ("producer_byte_rate", 1e9))),
    Case("of a stranger", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([("nope", "x")], ("producer_byte_rate", 1e9))),
    Case("no such key", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([("user", "x")], ("nope", 1e9))),
    Case("key of addresses", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([("user", "x")], ("connection_creation_rate", 1e6))),
    Case("key of users", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([("ip", "192.0.2.1")], ("producer_byte_rate", 1e9))),
    Case("zero", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([("user", "x")], ("producer_byte_rate", 0.0))),
    Case("half a byte", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([("user", "x")], ("producer_byte_rate", 0.5))),
    Case("too large", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([("user", "x")], ("consumer_byte_rate", 1e19))),
    Case("too many", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([("ip", None)], ("connection_creation_rate", 3e9))),
    Case(
        "address and user",
        _KEY.ALTER_CLIENT_QUOTAS,
        _set_quotas([("ip", "192.0.2.1"), ("user", "x")], ("connection_creation_rate", 1e6)),
    ),
    Case("no address", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([("ip", "a b")], ("connection_creation_rate", 1e6))),
    Case(
        "key twice",
        _KEY.ALTER_CLIENT_QUOTAS,
        _set_quotas([("user", "x")], ("producer_byte_rate", 1e9), ("producer_byte_rate", 2e9)),
    ),
    Case("removed", _KEY.ALTER_CLIENT_QUOTAS, _set_quotas([("user", "x")], ("consumer_byte_rate", None))),
    Case("all", _KEY.DESCRIBE_CLIENT_QUOTAS, {"components": [], "strict": False}, reads_a_change=True),
    Case("user", _KEY.DESCRIBE_CLIENT_QUOTAS, _quotas(("user", 0, "x"))),
    Case("unknown entity", _KEY.DESCRIBE_CLIENT_QUOTAS, _quotas(("nope", 0, "x"))),
    Case("no entity", _KEY.DESCRIBE_CLIENT_QUOTAS, _quotas(("", 0, "x"))),
    Case("unknown match", _KEY.DESCRIBE_CLIENT_QUOTAS, _quotas(("user", 7, "x"))),
    Case("exactly nothing", _KEY.DESCRIBE_CLIENT_QUOTAS, _quotas(("user", 0, None))),
    Case("default of one", _KEY.DESCRIBE_CLIENT_QUOTAS, _quotas(("user", 1, "x"))),
    Case("any of one", _KEY.DESCRIBE_CLIENT_QUOTAS, _quotas(("user", 2, "x"))),
    Case("twice", _KEY.DESCRIBE_CLIENT_QUOTAS, _quotas(("user", 1, None), ("user", 1, None))),
    Case("address and user", _KEY.DESCRIBE_CLIENT_QUOTAS, _quotas(("ip", 2, None), ("user", 2, None))),
    Case("all", _KEY.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}),
    Case("some", _KEY.DESCRIBE_USER_SCRAM_CREDENTIALS, _users("x", "x", "y", "")),
    Case("nothing", _KEY.ALTER_USER_SCRAM_CREDENTIALS, _alter_users()),
    Case("no name", _KEY.ALTER_USER_SCRAM_CREDENTIALS, _alter_users(_add(""), deleted=(("", 1),))),
    Case(
        "no such mechanism",
        _KEY.ALTER_USER_SCRAM_CREDENTIALS,
        _alter_users(_add("a", 0), _add("b", 3), _add("c", -1), deleted=(("d", 0), ("e", 3))),
    ),
    Case(
        "iterations",
        _KEY.ALTER_USER_SCRAM_CREDENTIALS,
        _alter_users(
            _add("a", 1, 4095), _add("b", 2, 4095), _add("c", 1, 16385), _add("d", 1, -1), _add("e", 1, 16384)
        ),
    ),
    Case(
        "twice",
        _KEY.ALTER_USER_SCRAM_CREDENTIALS,
        _alter_users(
            _add("a"), _add("a"), _add("b"), _add("b", 2), _add("c"), _add("c"), _add("c"), _add("d", 0), _add("d")
        ),
    ),
    Case("no salt", _KEY.ALTER_USER_SCRAM_CREDENTIALS, _alter_users(_add("a", salt=b""))),
    Case("no key", _KEY.ALTER_USER_SCRAM_CREDENTIALS, _alter_users(_add("b", salted_password=b""), _add("c"))),
    Case(
        "key of another length",
        _KEY.ALTER_USER_SCRAM_CREDENTIALS,
        _alter_users(_add("b", salted_password=b"x"), _add("c", 2)),
    ),
    Case("after additions", _KEY.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}, reads_a_change=True),
    Case("named", _KEY.DESCRIBE_USER_SCRAM_CREDENTIALS, _users("c", "a", "nobody", "b", "b", "b")),
    Case("no names", _KEY.DESCRIBE_USER_SCRAM_CREDENTIALS, _users()),
    Case(
        "replace",
        _KEY.ALTER_USER_SCRAM_CREDENTIALS,
        _alter_users(_add("a", 1, 8192), _add("b"), deleted=(("b", 1), ("e", 2), ("x", 1))),
    ),
    Case("remove", _KEY.ALTER_USER_SCRAM_CREDENTIALS, _alter_users(deleted=(("a", 1), ("e", 1), ("e", 1)))),
    Case("after removals", _KEY.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}, reads_a_change=True),
    Case(
        "the rest",
        _KEY.ALTER_USER_SCRAM_CREDENTIALS,
        _alter_users(deleted=(("a", 1), ("b", 1), ("c", 1), ("e", 1))),
    ),
    # The listeners here are those of plaintext: test_delegation_tokens has those where users log in.
    Case("own", _KEY.CREATE_DELEGATION_TOKEN, {"renewers": [], "max_lifetime": -1}),
    Case("of another", _KEY.CREATE_DELEGATION_TOKEN, {"renewers": [], "max_lifetime": 1000, **_USERS_TOKEN}, 3),
    Case(
        "renewer that is no user",
        _KEY.CREATE_DELEGATION_TOKEN,
        {"renewers": [{"principal_type": "Group", "principal_name": "g"}], "max_lifetime": -1},
    ),
    Case("of no token", _KEY.RENEW_DELEGATION_TOKEN, {"hmac": b"x", "renew_period": -1}),
    Case("of no token", _KEY.EXPIRE_DELEGATION_TOKEN, {"hmac": b"x", "expiry_time_period": -1}),
    Case("all", _KEY.DESCRIBE_DELEGATION_TOKEN, {"owners": None}),
    Case("none", _KEY.DESCRIBE_DELEGATION_TOKEN, {"owners": []}),
    Case("of a user", _KEY.DESCRIBE_DELEGATION_TOKEN, {"owners": [{"principal_type": "User", "principal_name": "a"}]}),
    Case("all", _KEY.DESCRIBE_ACLS, _ACL),
    Case("two", _KEY.CREATE_ACLS, {"creations": [_NEW_ACL, _NEW_ACL]}),
    Case("none", _KEY.CREATE_ACLS, {"creations": []}),
    Case("two", _KEY.DELETE_ACLS, {"filters": [_ACL, _ACL]}),
    Case("none", _KEY.DELETE_ACLS, {"filters": []}),
    Case(
        "no id",
        _KEY.ADD_PARTITIONS_TO_TXN,
        {
            "v3_and_below_transactional_id": "",
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": EMPTY, "partitions": [0]}],
        },
        last_version=3,
    ),
    Case(  # Kafka never answers a list without transactions
        "no id of a broker",
        _KEY.ADD_PARTITIONS_TO_TXN,
        {
            "transactions": [
                {
                    "transactional_id": "",
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "verify_only": True,
                    "topics": [{"name": EMPTY, "partitions": [0]}],
                }
            ]
        },
        4,
    ),
    Case(
        "no id",
        _KEY.ADD_OFFSETS_TO_TXN,
        {"transactional_id": "", "producer_id": 1, "producer_epoch": 0, "group_id": "g"},
    ),
    Case("no id", _KEY.END_TXN, {"transactional_id": "", "producer_id": 1, "producer_epoch": 0, "committed": True}),
    Case("none", _KEY.WRITE_TXN_MARKERS, {"markers": []}),
    Case(
        "no topics",
        _KEY.TXN_OFFSET_COMMIT,
        {"transactional_id": "x", "group_id": "g", "producer_id": 1, "producer_epoch": 0, "topics": []},
    ),
    Case("some", _KEY.DESCRIBE_TRANSACTIONS, {"transactional_ids": ["x", ""]}),
    Case("none", _KEY.DESCRIBE_TRANSACTIONS, {"transactional_ids": []}),
    Case("all", _KEY.LIST_TRANSACTIONS, {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}),
    Case("by state", _KEY.LIST_TRANSACTIONS, {"state_filters": ["Nope", "Empty"], "producer_id_filters": [1]}),
    Case("bad pattern", _KEY.LIST_TRANSACTIONS, {"transactional_id_pattern": "["}),
    Case("topic", _KEY.DESCRIBE_CONFIGS, _describe(_TOPIC, EMPTY)),
    Case("synonyms", _KEY.DESCRIBE_CONFIGS, _describe(_TOPIC, EMPTY, ["retention.ms"], include_synonyms=True)),
    Case("missing topic", _KEY.DESCRIBE_CONFIGS, _describe(_TOPIC, MISSING)),
    Case("bad topic", _KEY.DESCRIBE_CONFIGS, _describe(_TOPIC, "a b")),
    Case("no such setting", _KEY.DESCRIBE_CONFIGS, _describe(_TOPIC, EMPTY, ["no.such"])),
    Case("broker", _KEY.DESCRIBE_CONFIGS, _describe(_BROKER, "1")),
    Case("all brokers", _KEY.DESCRIBE_CONFIGS, _describe(_BROKER, "")),
    Case("another broker", _KEY.DESCRIBE_CONFIGS, _describe(_BROKER, "9")),
    Case("no broker", _KEY.DESCRIBE_CONFIGS, _describe(_BROKER, "x")),
    Case("unknown type", _KEY.DESCRIBE_CONFIGS, _describe(99, "x")),
    Case("set", _KEY.INCREMENTAL_ALTER_CONFIGS, _alter(_TOPIC, EMPTY, ("retention.ms", 0, "1000"), dry=True)),
    Case("bad value", _KEY.INCREMENTAL_ALTER_CONFIGS, _alter(_TOPIC, EMPTY, ("retention.ms", 0, "x"), dry=True)),
    Case("no such setting", _KEY.INCREMENTAL_ALTER_CONFIGS, _alter(_TOPIC, EMPTY, ("no.such", 0, "1"), dry=True)),
    *(
        Case(f"cleaner: {name} {value}{at}", _KEY.INCREMENTAL_ALTER_CONFIGS, _cleaner((name, value), broker=broker))
        for at, broker in (("", "1"), (" everywhere", ""))
        for name, value in (
            ("threads", "-1"),
            ("threads", "0"),
            ("threads", "2"),
            ("threads", "3"),
            ("dedupe.buffer.size", "-1"),
            ("dedupe.buffer.size", "1048576"),
            ("dedupe.buffer.size", "1048577"),
            ("io.buffer.size", "-1"),
            ("io.buffer.load.factor", "1.5"),
            ("min.cleanable.ratio", "1.1"),
            ("enable", "false"),
        )
    ),
    *(
        Case(
            f"cleaner: {threads} threads of {size}",
            _KEY.INCREMENTAL_ALTER_CONFIGS,
            _cleaner(("threads", threads), ("dedupe.buffer.size", size)),
        )
        for threads, size in (("2", "2097151"), ("2", "2097152"), ("2", "2097154"), ("0", "1000"), ("3", "1000"))
    ),
    Case("missing topic", _KEY.INCREMENTAL_ALTER_CONFIGS, _alter(_TOPIC, MISSING, ("retention.ms", 0, "1"), dry=True)),
    Case("set", _KEY.ALTER_CONFIGS, _replace(_TOPIC, EMPTY, ("retention.ms", "1000"))),
    Case("bad value", _KEY.ALTER_CONFIGS, _replace(_TOPIC, EMPTY, ("retention.ms", "x"))),
    Case("all", _KEY.LIST_CONFIG_RESOURCES, {"resource_types": []}, reads_a_change=True),
    Case(
        "quorum",
        _KEY.DESCRIBE_QUORUM,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
    ),
    Case(
        "of a topic", _KEY.DESCRIBE_QUORUM, {"topics": [{"topic_name": EMPTY, "partitions": [{"partition_index": 0}]}]}
    ),
    Case("missing", _KEY.UNREGISTER_BROKER, {"broker_id": 77}),
    Case(
        "other cluster",
        _KEY.ADD_RAFT_VOTER,
        {"cluster_id": "other", "timeout": 1000, "voter_id": 9, "voter_directory_id": MISSING_ID, "listeners": []},
    ),
    Case(
        "other cluster",
        _KEY.REMOVE_RAFT_VOTER,
        {"cluster_id": "other", "voter_id": 9, "voter_directory_id": MISSING_ID},
    ),
    *_LONG_TEXTS,
)
