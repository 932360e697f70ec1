"""Deletes records up to an offset."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from esp.cli.kafka.answers import PartitionId
from esp.cli.kafka.client import AdminConnection
from esp.cli.kafka.library import DeleteRecordsRequest, NotLeaderForPartitionError
from esp.model.errors import ErrorCode

_TIMEOUT_MS: Final = 60_000
_MOVING: Final = (ErrorCode.not_leader_or_follower, ErrorCode.leader_not_available)


class Deletion(NamedTuple):
    """The result of deleting records of one partition."""

    error: ErrorCode
    low_watermark: int
    """The offset of the first record that is left."""


class RecordsAdmin(AdminConnection):
    """The records of a cluster; see :class:`~esp.cli.kafka.client.AdminConnection`."""

    def partitions(self, topic: str) -> list[PartitionId]:
        """The partitions of a topic, sorted; none if there is no such topic."""
        told = self._ask(lambda client: client.describe_topics([topic]))
        return sorted(
            PartitionId(each["name"], partition["partition_index"])
            for each in told
            for partition in each["partitions"]
            if each["error_code"] == ErrorCode.none
        )

    def delete_records(self, offsets: Mapping[PartitionId, int]) -> dict[PartitionId, Deletion]:
        """Delete the records before an offset of each partition; -1: all that are committed. Returns what became of each, sorted."""
        done: dict[PartitionId, Deletion] = {}

        def ask(client: Any) -> None:
            _delete(client, {each: offset for each, offset in offsets.items() if each not in done}, done)

        self._ask(ask)
        return dict(sorted(done.items()))


def _delete(client: Any, offsets: Mapping[PartitionId, int], done: dict[PartitionId, Deletion]) -> None:
    """Ask the leaders once; ``done`` gets what they said.

    Raises:
        NotLeaderForPartitionError: some have no leader now, or another one than was thought.
    """
    leaders: dict[PartitionId, tuple[int, ErrorCode]] = {}
    for topic in client.describe_topics(sorted({each.topic for each in offsets})):
        for each in topic["partitions"]:
            partition = PartitionId(topic["name"], each["partition_index"])
            leaders[partition] = each["leader_id"], ErrorCode(each["error_code"])
    by_leader: dict[int, dict[str, list[tuple[int, int]]]] = {}
    moving = False
    for partition, offset in offsets.items():
        leader, error = leaders.get(partition, (-1, ErrorCode.unknown_topic_or_partition))
        if leader >= 0:
            by_leader.setdefault(leader, {}).setdefault(partition.topic, []).append((partition.partition, offset))
        elif partition in leaders and error in (ErrorCode.none, *_MOVING):
            moving = True
        else:
            done[partition] = Deletion(error, -1)
    for leader, topics in by_leader.items():
        request = DeleteRecordsRequest(topics=list(topics.items()), timeout_ms=_TIMEOUT_MS)
        for topic in client.send(request, leader).to_dict()["topics"]:
            for each in topic["partitions"]:
                error = ErrorCode(each["error_code"])
                if error in _MOVING:
                    moving = True
                else:
                    done[PartitionId(topic["name"], each["partition_index"])] = Deletion(error, each["low_watermark"])
    if moving:
        raise NotLeaderForPartitionError("a partition has no leader, or another one")
