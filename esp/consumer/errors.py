"""Errors of a consumer: the fault first, then the remedy, in one line."""

from typing import Final


class ConsumerError(Exception):
    """Records or offsets cannot be had; the text names the topic, the setting or the address, and says what to do."""


class MissingPartitionError(ConsumerError):
    """A broker does not know a partition: it does not exist, or the broker is behind."""


class LostRecordsError(ConsumerError):
    """Records are not there.

    Args:
        text: the fault and the remedy.
        earliest: the first offset that is there. If it is not behind the offset that was asked for, the log has become shorter.
    """

    def __init__(self, text: str, earliest: int) -> None:
        super().__init__(text)
        self.earliest = earliest


class ConnectionLostError(Exception):
    """A broker does not answer, or its connection ended. The request may be tried again, there or at another broker."""


class UndecidedError(Exception):
    """A transaction that changes the offsets of a group is not decided."""


class SettingError(ConsumerError):
    """A setting has a value that cannot be used.

    Args:
        name: the setting.
        value: its value; None if it is missing, or is a secret.
        problem: the fault and the remedy.
    """

    def __init__(self, name: str, value: str | None, problem: str) -> None:
        super().__init__(f"{name}={value}: {problem}" if value is not None else f"{name}: {problem}")
        self.name = name
        self.value = value
        self.problem = problem


OFFSET_OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
NOT_LEADER_OR_FOLLOWER: Final = 6
TOPIC_AUTHORIZATION_FAILED: Final = 29
UNKNOWN_TOPIC_ID: Final = 100
NO_ERROR: Final = 0

_RETRIABLE: Final = frozenset(
    {
        2,  # CORRUPT_MESSAGE: the broker may be reading from a disk that fails
        UNKNOWN_TOPIC_OR_PARTITION,  # a broker that has just started does not know all topics yet
        LEADER_NOT_AVAILABLE,
        NOT_LEADER_OR_FOLLOWER,
        7,  # REQUEST_TIMED_OUT
        8,  # BROKER_NOT_AVAILABLE
        9,  # REPLICA_NOT_AVAILABLE
        13,  # NETWORK_EXCEPTION
        56,  # KAFKA_STORAGE_ERROR
        74,  # FENCED_LEADER_EPOCH
        75,  # UNKNOWN_LEADER_EPOCH
        78,  # OFFSET_NOT_AVAILABLE: the leader is new
        UNKNOWN_TOPIC_ID,  # likewise a broker that has just started; else the topic's present id tells
        103,  # INCONSISTENT_TOPIC_ID
    }
)
_NAMES: Final = {
    -1: "the broker has failed (UNKNOWN_SERVER_ERROR)",
    2: "its log is damaged there (CORRUPT_MESSAGE)",
    UNKNOWN_TOPIC_OR_PARTITION: "it does not exist (UNKNOWN_TOPIC_OR_PARTITION)",
    LEADER_NOT_AVAILABLE: "it has no leader (LEADER_NOT_AVAILABLE)",
    NOT_LEADER_OR_FOLLOWER: "its leader moves (NOT_LEADER_OR_FOLLOWER)",
    17: "its name is no name of a topic (INVALID_TOPIC_EXCEPTION)",
    TOPIC_AUTHORIZATION_FAILED: "this user may not read it (TOPIC_AUTHORIZATION_FAILED): grant READ and DESCRIBE on the topic",
    43: "its message format does not know timestamps (UNSUPPORTED_FOR_MESSAGE_FORMAT)",
    56: "the disk of its leader has failed (KAFKA_STORAGE_ERROR)",
    78: "its leader is new and does not know its end yet (OFFSET_NOT_AVAILABLE)",
    UNKNOWN_TOPIC_ID: "its leader does not know a topic of this id (UNKNOWN_TOPIC_ID)",
    103: "its leader knows a topic of another id (INCONSISTENT_TOPIC_ID)",
}
_REMEDIES: Final = {
    UNKNOWN_TOPIC_OR_PARTITION: "name topics and partitions that exist (esp topics --list)",
    17: "correct the name",
    43: "name offsets instead of times",
}


def is_retriable(code: int) -> bool:
    """True if the same request may succeed later, perhaps at another broker."""
    return code in _RETRIABLE


def describe(code: int) -> str:
    """An error code of a partition or topic in words."""
    return _NAMES.get(code, f"error {code}")


def explain(code: int) -> str:
    """An error code of a partition or topic in words, with the remedy."""
    if code == TOPIC_AUTHORIZATION_FAILED:  # whose words have it
        return describe(code)
    return f"{describe(code)}: {_REMEDIES.get(code, 'look at the log of its leader')}"
