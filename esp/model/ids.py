"""Identifiers, each a type of its own, and Kafka's text form of uuids."""

import base64
import binascii
import uuid
from typing import NamedTuple, NewType

NodeId = NewType("NodeId", int)
TopicId = NewType("TopicId", uuid.UUID)
DirectoryId = NewType("DirectoryId", uuid.UUID)
ProducerId = NewType("ProducerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)

NO_NODE = NodeId(-1)
NO_BROKER_EPOCH = BrokerEpoch(-1)
NO_LEADER_EPOCH = LeaderEpoch(-1)

ZERO_UUID = uuid.UUID(int=0)
METADATA_TOPIC_ID = TopicId(uuid.UUID(int=1))
RESERVED_DIRECTORIES = 100
"""Directory ids below this number mean something else than a directory (KIP-858)."""
UNASSIGNED_DIRECTORY = DirectoryId(uuid.UUID(int=1))
LOST_DIRECTORY = DirectoryId(uuid.UUID(int=2))
"""Kafka's ``DirectoryId.LOST``: where a replica is that its broker cannot use."""
METADATA_TOPIC = "__cluster_metadata"
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATES_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATES_TOPIC))
"""Topics of the cluster's own, which clients read and do not write."""


class TopicPartition(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)


def uuid_to_base64(value: uuid.UUID) -> str:
    """Return the 22 characters of URL-safe base64 that Kafka's files and tools show for a uuid."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def uuid_from_base64(text: str) -> uuid.UUID:
    """Return the uuid that :func:`uuid_to_base64` writes as ``text``.

    Raises:
        ValueError: the text is no such form.
    """
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not a uuid in base64") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a uuid in base64: {len(raw)} bytes instead of 16")
    return uuid.UUID(bytes=raw)
