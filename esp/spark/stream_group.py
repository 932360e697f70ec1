"""The group of a stream: its position as Kafka's tools show it, and the ids of its topics over restarts."""

from collections.abc import Mapping
from typing import Final

from esp.consumer.cluster import Cluster
from esp.consumer.group_messages import Committed
from esp.consumer.group_offsets import GroupOffsets
from esp.consumer.messages import Partition
from esp.model import position_note
from esp.model.position_note import PositionNote, Remembered, read_note, write_note
from esp.spark.position import Position

_TIMEOUT_S: Final = 5.0
"""A trigger waits no longer for a group that only shows lag."""


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
                partition: Committed(offset, write_note(PositionNote(ids[partition.topic])))
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
            partition: Committed(offset, write_note(PositionNote(ids[partition.topic])))
            for partition, offset in added.items()
        }
        for partition, offset in jumps.items():
            note = PositionNote(ids[partition.topic], ids_before.get(partition.topic, b""))
            announced[partition] = Committed(offset, write_note(note))
        self._group.commit(announced, self._timeout_s)
        self._saved = None


def remember(position: Position, committed: Mapping[Partition, Committed]) -> Remembered:
    """Return what the committed offsets of a group tell of a checkpoint that stands at a position."""
    noted = {partition: (offset, read_note(text)) for partition, (offset, text) in committed.items()}
    return position_note.remember(position, noted)
