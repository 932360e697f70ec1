"""Commits and fetches offsets as a member of a consumer group (KIP-848), and lets the checkers see both."""

from collections.abc import Collection, Mapping
from typing import Final

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.protocol.registry import ApiKey
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.simulation.checkers.consumer_group_checker import ConsumerGroupChecker
from esp.simulation.checkers.group_checker import GroupChecker
from esp.simulation.workload import consumer_group_requests as requests
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.consumer_group_requests import Names, Sender
from esp.simulation.workload.group_client import GroupClient
from esp.simulation.workload.group_requests import Identity

REFUSALS: Final = frozenset(
    {
        ErrorCode.stale_member_epoch,
        ErrorCode.illegal_generation,
        ErrorCode.rebalance_in_progress,
        ErrorCode.unknown_member_id,
        ErrorCode.group_id_not_found,
    }
)
"""Answers of a coordinator that has written nothing."""


class ConsumerGroupOffsets:
    """The offsets of one member's group.

    Args:
        client: asks the coordinator.
        offsets: sees which offsets are sent and told.
        checker: sees which member commits for which partition.
        names: the names of the topics of which offsets are committed, by their ids.
        version: of OffsetCommit and OffsetFetch.
    """

    def __init__(
        self, client: GroupClient, offsets: GroupChecker, checker: ConsumerGroupChecker, names: Names, version: int
    ) -> None:
        self._client = client
        self._offsets = offsets
        self._checker = checker
        self._names = names
        self._version = version
        self._commits = 0

    async def commit(self, sender: Sender, offsets: Mapping[TopicIdPartition, int], sent_s: float) -> None:
        """Commit offsets.

        Raises:
            NoAnswerError, RefusedError: they may be committed or not.
        """
        self._commits += 1
        metadata = f"{self._client.client.name}#{self._commits};"
        places = {TopicPartition(self._names[one.topic_id], one.partition): one for one in offsets}
        outside = Identity(sender.group_id)  # member epochs say nothing of the order of commits (KIP-1251)
        commits = self._offsets.on_commit_sent(
            outside, {place: offsets[one] for place, one in places.items()}, metadata
        )
        assert sender.member_id is not None, "a member commits"
        was_former = self._checker.is_former(sender.group_id, sender.member_id, sender.epoch)
        message = requests.commit(sender, offsets, metadata, self._names, self._version)
        reply = await self._client.call(ApiKey.OFFSET_COMMIT, self._version, message)
        refusal = ErrorCode.none
        for topic in reply.answer.topics:
            for part in topic.partitions:
                place = requests.named(topic, part, self._names, self._version)
                if part.error_code is ErrorCode.none:
                    self._offsets.on_committed(place, commits[place])
                    self._checker.on_commit(
                        sender.group_id,
                        sender.member_id,
                        sender.epoch,
                        places[place],
                        sent_s=sent_s,
                        was_former=was_former,
                    )
                    continue
                refusal = part.error_code
                if refusal in REFUSALS:
                    self._offsets.on_refused(commits[place])
                if refusal is ErrorCode.stale_member_epoch:
                    self._checker.on_commit_refused(
                        sender.group_id,
                        sender.member_id,
                        sender.epoch,
                        places[place],
                        sent_s=sent_s,
                        is_newest=reply.is_newest,
                    )
        if refusal is not ErrorCode.none:
            raise RefusedError(refusal)

    async def fetch(self, sender: Sender, partitions: Collection[TopicIdPartition]) -> dict[TopicIdPartition, int]:
        """Ask what is committed; -1 where nothing is.

        Raises:
            NoAnswerError: no coordinator answers.
            RefusedError: the member is not what it takes itself for.
        """
        places = {TopicPartition(self._names[one.topic_id], one.partition): one for one in partitions}
        message = requests.fetch(sender, partitions, self._names, self._version)
        reply = await self._client.call(ApiKey.OFFSET_FETCH, self._version, message)
        (group,) = reply.answer.groups
        if group.error_code is not ErrorCode.none:
            raise RefusedError(group.error_code)
        found = {}
        for topic in group.topics:
            for part in topic.partitions:
                if part.error_code is not ErrorCode.none:
                    raise NoAnswerError(part.error_code.name)
                place = requests.named(topic, part, self._names, self._version)
                self._offsets.on_fetched(
                    sender.group_id,
                    place,
                    part.committed_offset,
                    part.metadata or "",
                    asked_s=reply.asked_s,
                    is_newest=reply.is_newest,
                )
                found[places[place]] = int(part.committed_offset)
        return found
