"""Commits offsets of a group and asks for them, as a member or from outside, and lets the checker see both."""

from collections.abc import Collection, Mapping
from typing import Any

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.group_checker import Commit, GroupChecker
from esp.simulation.workload import group_requests as requests
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.group_client import LOOK_AGAIN, GroupClient
from esp.simulation.workload.group_requests import Identity

REFUSALS = frozenset(
    {
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.fenced_instance_id,
        ErrorCode.rebalance_in_progress,
    }
)
"""Answers of a coordinator that has written nothing."""

_PARTITION_ERRORS = frozenset({ErrorCode.unstable_offset_commit})
"""Errors of OffsetFetch that do not come from the coordinator, but are of one partition."""


class OffsetsClient:
    """Commits and fetches the offsets of a group.

    Args:
        client: asks the coordinator.
        checker: sees what is sent and told.
    """

    def __init__(self, client: GroupClient, checker: GroupChecker) -> None:
        self._client = client
        self._checker = checker
        self._commits = 0

    async def commit(self, identity: Identity, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets.

        Raises:
            NoAnswerError, RefusedError: they may be committed or not.
        """
        metadata = self._new_metadata()
        commits = self._checker.on_commit_sent(identity, offsets, metadata)
        version = self._client.dialect.commit
        reply = await self._client.call(
            ApiKey.OFFSET_COMMIT, version, requests.commit(identity, offsets, metadata, version)
        )
        self._take_commits(reply.answer, commits)

    async def commit_retained(self, partition: TopicPartition, offset: int, retention_s: float) -> None:
        """Commit an offset from outside the group, and ask for a retention.

        Raises:
            NoAnswerError, RefusedError: it may be committed or not.
        """
        identity, metadata = Identity(self._client.group_id), self._new_metadata()
        commits = self._checker.on_commit_sent(identity, {partition: offset}, metadata)
        request = requests.commit_retained(identity, {partition: offset}, metadata, retention_s)
        reply = await self._client.call(ApiKey.OFFSET_COMMIT, requests.RETAINED_COMMIT_VERSION, request)
        self._take_commits(reply.answer, commits)

    def _new_metadata(self) -> str:
        """A text that no other commit has beside it."""
        self._commits += 1
        return f"{self._client.client.name}#{self._commits};"

    def _take_commits(self, answer: Any, commits: Mapping[TopicPartition, Commit]) -> None:
        refusal = ErrorCode.none
        for topic in answer.topics:
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                if part.error_code is ErrorCode.none:
                    self._checker.on_committed(partition, commits[partition])
                    continue
                refusal = part.error_code
                if refusal in REFUSALS:
                    self._checker.on_refused(commits[partition])
        if refusal is not ErrorCode.none:
            raise RefusedError(refusal)

    async def fetch(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Ask what is committed; -1 where nothing is.

        An answer about one group is read as aiokafka reads it: only the errors of partitions count, and a partition that is not in it has
        no offset.

        Raises:
            NoAnswerError: no coordinator answers.
        """
        group_id, version = self._client.group_id, self._client.dialect.fetch
        reply = await self._client.call(
            ApiKey.OFFSET_FETCH, version, requests.fetch_offsets(group_id, partitions, version)
        )
        is_single = version <= requests.LAST_SINGLE_FETCH
        group = reply.answer if is_single else reply.answer.groups[0]
        if not is_single and group.error_code is not ErrorCode.none:
            self._client.forget_coordinator()
            raise NoAnswerError(group.error_code.name)
        offsets = {}
        told = {
            TopicPartition(topic.name, part.partition_index): part
            for topic in group.topics
            for part in topic.partitions
        }
        for partition in partitions:
            part = told.get(partition)
            if part is not None and part.error_code is not ErrorCode.none:
                if part.error_code not in _PARTITION_ERRORS:
                    self._client.forget_coordinator()
                raise NoAnswerError(part.error_code.name)
            offset, metadata = (-1, "") if part is None else (part.committed_offset, part.metadata or "")
            self._checker.on_fetched(
                group_id, partition, offset, metadata, asked_s=reply.asked_s, is_newest=reply.is_newest
            )
            offsets[partition] = int(offset)
        return offsets


def is_passing(code: ErrorCode) -> bool:
    """True if an error says that another coordinator, or the same one later, would answer."""
    return code in LOOK_AGAIN
