"""The group of a stream: its position as Kafka's tools show it, and the ids of its topics over restarts."""

import base64
import binascii
import json
from collections.abc import Collection, Mapping
from typing import Final

from esp.consumer.cluster import Cluster
from esp.consumer.group_messages import Committed
from esp.consumer.group_offsets import GroupOffsets
from esp.consumer.messages import Partition
from esp.spark.position import Position

_TIMEOUT_S: Final = 5.0
"""A trigger waits no longer for a group that only shows lag."""

NO_ID: Final = bytes(16)
"""The id of a topic of which offsets were committed by another program."""


class StreamGroup:
    """The committed offsets of a stream. Beside each stands the id of its topic.

    Args:
        cluster: the cluster.
        group_id: the group.
        timeout_s: the time for an answer that is needed.
    """

    def __init__(self, cluster: Cluster, group_id: str, timeout_s: float) -> None:
        self._group = GroupOffsets(cluster, group_id)
        self._timeout_s = timeout_s
        self._saved: tuple[Position, Mapping[str, bytes]] | None = None

    def find_ids(self, partitions: Collection[Partition]) -> dict[str, bytes]:
        """Return the ids of the topics of some partitions as they were when the group committed. The id is empty if the group has
        offsets of another of the topics and none of this: brokers delete them with a topic. No ids if the group has no offsets at all.

        Raises:
            ConsumerError: the group cannot be used, or does not answer.
        """
        committed = self._group.fetch(sorted(partitions), self._timeout_s)
        if not committed:
            return {}
        ids = {partition.topic: b"" for partition in partitions}
        ids |= {partition.topic: read_metadata(each.metadata) or NO_ID for partition, each in committed.items()}
        return ids

    def save(self, position: Position, ids: Mapping[str, bytes], *, is_needed: bool) -> None:
        """Commit a position that the sink of the query has taken, unless it is committed already.

        Args:
            position: of the stream.
            ids: of its topics.
            is_needed: whether it is waited for as long as for other answers.

        Raises:
            ConsumerError: the group cannot be used, or does not answer.
        """
        now = (dict(position), dict(ids))
        if now == self._saved:
            return
        self._group.commit(
            {
                partition: Committed(offset, write_metadata(ids[partition.topic]))
                for partition, offset in position.items()
                if partition.topic in ids
            },
            self._timeout_s if is_needed else min(_TIMEOUT_S, self._timeout_s),
        )
        self._saved = now


def write_metadata(topic_id: bytes, **more: object) -> str:
    """The text that is committed beside an offset: the topic's id as Kafka's tools write it, and what else is told."""
    return json.dumps(
        {"topicId": base64.urlsafe_b64encode(topic_id).decode().rstrip("="), **more}, separators=(",", ":")
    )


def read_metadata(text: str) -> bytes | None:
    """Return the id of the topic in such a text; None if it is another one."""
    try:
        found = json.loads(text)["topicId"]
        topic_id = base64.urlsafe_b64decode(found + "==")
    except (ValueError, TypeError, KeyError, binascii.Error):
        return None
    return topic_id if len(topic_id) == len(NO_ID) else None
