"""The group of a stream: its position as Kafka's tools show it, and the ids of its topics over restarts.

A batch that sets a partition to another offset without reading up to it is committed before Spark's checkpoint has it: an offset with the
topic's new id, and the id of before beside it. It counts only if the checkpoint stands at that offset too.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from esp.consumer.cluster import Cluster
from esp.consumer.group_messages import Committed
from esp.consumer.group_offsets import GroupOffsets
from esp.consumer.messages import Partition
from esp.spark.position import Offsets, Position

_TIMEOUT_S: Final = 5.0
"""A trigger waits no longer for a group that only shows lag."""

NO_ID: Final = bytes(16)
"""The id of a topic of which offsets were committed by another program."""


class Remembered(NamedTuple):
    """What a group knows of the topics of a checkpoint.

    Attributes:
        ids: of the topics, as they were at the position of the checkpoint. An id is empty if the group has offsets of another of the
            topics and none of this: brokers delete them with a topic. No ids if the group has no offsets at all.
        jumps: by partition the offset to which the last batch set it without reading up to it.
    """

    ids: Mapping[str, bytes]
    jumps: Offsets


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

    def remember(self, position: Position) -> Remembered:
        """Return what the group knows of the topics of a checkpoint that stands at a position.

        Raises:
            ConsumerError: the group cannot be used, or does not answer.
        """
        return remember(position, self._group.fetch(sorted(position), self._timeout_s))

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

    def announce(
        self, added: Position, jumps: Position, ids: Mapping[str, bytes], ids_before: Mapping[str, bytes]
    ) -> None:
        """Commit what a batch that is planned changes besides reading on, before the checkpoint has it.

        Args:
            added: the first offsets of partitions that the stream reads for the first time.
            jumps: the offsets to which the batch sets partitions without reading up to them.
            ids: of the topics.
            ids_before: likewise, as the checkpoint has them if the batch does not come into it.

        Raises:
            ConsumerError: the group cannot be used, or does not answer.
        """
        announced = {
            partition: Committed(offset, write_metadata(ids[partition.topic])) for partition, offset in added.items()
        }
        for partition, offset in jumps.items():
            before = _text(ids_before.get(partition.topic, b""))
            announced[partition] = Committed(offset, write_metadata(ids[partition.topic], before=before))
        self._group.commit(announced, self._timeout_s)
        self._saved = None


def remember(position: Position, committed: Mapping[Partition, Committed]) -> Remembered:
    """Return what the committed offsets of a group tell of a checkpoint that stands at a position."""
    if not committed:
        return Remembered({}, {})
    ids = {partition.topic: b"" for partition in position}
    jumps: Offsets = {}
    stale: dict[str, bytes] = {}
    for partition, (offset, text) in sorted(committed.items()):
        found = _read(text)
        ids[partition.topic] = _id_in(found, "topicId") or NO_ID
        if "before" not in found:
            continue
        if position.get(partition) == offset:
            jumps[partition] = offset
        else:
            stale[partition.topic] = _id_in(found, "before") or b""
    jumps = {partition: offset for partition, offset in jumps.items() if partition.topic not in stale}
    return Remembered({**ids, **stale}, jumps)


def write_metadata(topic_id: bytes, **more: object) -> str:
    """The text that is committed beside an offset: the topic's id as Kafka's tools write it, and what else is told."""
    return json.dumps({"topicId": _text(topic_id), **more}, separators=(",", ":"))


def read_metadata(text: str) -> bytes | None:
    """Return the id of the topic in such a text; None if it is another one."""
    return _id_in(_read(text), "topicId")


def _text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _read(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _id_in(found: Mapping[str, Any], name: str) -> bytes | None:
    try:
        topic_id = base64.urlsafe_b64decode(found[name] + "==")
    except (ValueError, TypeError, KeyError, binascii.Error):
        return None
    return topic_id if len(topic_id) == len(NO_ID) else None
