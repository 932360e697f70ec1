"""DescribeShareGroupOffsets and AlterShareGroupOffsets: where a share group begins, as its share coordinators know it."""

from collections.abc import Collection, Mapping, Sequence

from esp.groups.consumer.topics import hash_topics
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.group_patterns import group_patterns
from esp.groups.share.effects import ShareStart
from esp.groups.share.group import ShareGroup
from esp.groups.share.initialisation import Attempt, Initialisation
from esp.groups.share.operation import ShareOperation
from esp.groups.share.partitions import partitions_of
from esp.groups.share.reply import Replies
from esp.groups.share.requests import (
    AlteredOffset,
    AlterShareGroupOffsets,
    AlterShareGroupOffsetsResult,
    DescribedShareOffset,
    DescribeShareGroupOffsets,
    DescribeShareGroupOffsetsResult,
    SharePartitionError,
    ShareStateResults,
)
from esp.groups.share.state_requests import NOT_ANSWERED, StateRequests
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicId, TopicPartition
from esp.model.now import Now
from esp.schemas.consumer_group_records import GroupEpochValue, TargetEpochValue, TopicIdPartition
from esp.schemas.group_record_codec import STRING_BYTES_MAX
from esp.schemas.share_group_records import ShareGroupRecordType
from esp.schemas.share_state_records import NO_START_OFFSET

_Type = ShareGroupRecordType


class ShareOffsets:
    """Decides on these requests.

    Args:
        state: the coordinator's state.
        requests: the ways to share coordinators.
        replies: the answers.
        initialisation: knows which partitions have states.
    """

    def __init__(
        self, state: CoordinatorState, requests: StateRequests, replies: Replies, initialisation: Initialisation
    ) -> None:
        self._state = state
        self._requests = requests
        self._replies = replies
        self._initialisation = initialisation

    def describe(self, request: DescribeShareGroupOffsets, ticket: object, now: Now) -> None:
        """Answer with start offsets. A group or partition that is not there has none, which is no error, as in Kafka."""
        reply = self._replies.open(ticket, lambda error: DescribeShareGroupOffsetsResult(error=error))
        group = self._state.shares.find_committed(request.group_id)
        wanted = request.partitions
        if wanted is None:
            wanted = () if group is None else self._initialised(group)
        asked = {
            one: found
            for one in wanted
            if group is not None and (found := self._identify(one)) is not None and group.has_initialised(found)
        }

        def on_answer(results: ShareStateResults, _now: Now) -> None:
            offsets: list[DescribedShareOffset] = []
            for one in dict.fromkeys(wanted):
                if one not in asked:
                    offsets.append(DescribedShareOffset(one))
                    continue
                result = results.get(asked[one], NOT_ANSWERED)
                offsets.append(
                    DescribedShareOffset(
                        one, result.start_offset, result.leader_epoch, result.complete_count, result.error
                    )
                )
            reply.give(DescribeShareGroupOffsetsResult(offsets=tuple(offsets)))

        if asked:
            self._requests.read(request.group_id, list(asked.values()), on_answer)
        else:
            on_answer({}, now)

    def find_held(self, wanted: Mapping[TopicPartition, Sequence[str]]) -> dict[str, tuple[TopicPartition, ...]]:
        """Return by group those of the partitions of which it has states, so that its start offsets hold records (HOLD-1).

        Args:
            wanted: by partition the groups of ``retention.hold.groups``, names and patterns.
        """
        patterns = {partition: group_patterns(tuple(names)) for partition, names in wanted.items()}
        ids = {partition: found for partition in wanted if (found := self._identify(partition)) is not None}
        held = {
            group.group_id: tuple(
                partition
                for partition, found in ids.items()
                if group.has_initialised(found) and patterns[partition].matches(group.group_id)
            )
            for group in self._state.shares.committed()
        }
        return {group_id: partitions for group_id, partitions in held.items() if partitions}

    def alter(self, request: AlterShareGroupOffsets, ticket: object, now: Now) -> None:
        """Answer when the share coordinators have the new offsets. A group that is not there comes about by it, as in Kafka.

        The group epoch rises, so that what was read before, and writes that are late, count no more (SHARE-20, SHARE-24).
        """
        reply = self._replies.open(ticket, lambda error: AlterShareGroupOffsetsResult(error=error))
        operation = ShareOperation(self._state, request.group_id)
        try:
            self._require_alterable(request.group_id, operation.group)
        except ApiError as refusal:
            reply.give(AlterShareGroupOffsetsResult(error=refusal.code, error_message=refusal.message))
            return
        refused: dict[TopicPartition, SharePartitionError] = {}
        starts: dict[TopicIdPartition, ShareStart] = {}
        ids: dict[TopicPartition, TopicIdPartition] = {}
        for altered in request.offsets:
            found = self._identify(altered.partition)
            error = self._find_refusal(request.group_id, altered, found)
            if found is None or error is not None:
                refused[altered.partition] = SharePartitionError(
                    altered.partition, error or ErrorCode.unknown_topic_or_partition
                )
            else:
                ids[altered.partition] = found
                starts[found] = ShareStart(found, altered.start_offset)

        def answer(results: ShareStateResults) -> AlterShareGroupOffsetsResult:
            return AlterShareGroupOffsetsResult(
                partitions=tuple(
                    refused[one.partition]
                    if one.partition in refused
                    else SharePartitionError(one.partition, results.get(ids[one.partition], NOT_ANSWERED).error)
                    for one in request.offsets
                )
            )

        if not starts:
            reply.give(answer({}))
            return
        names = {found.topic_id: partition.topic for partition, found in ids.items()}
        attempt = self._begin(operation, starts, names, now)
        state_epoch = operation.group.epoch

        def outcome(error: ErrorCode | None, _now: Now) -> None:
            if error is not None:
                reply.fail(error)

        def on_answer(results: ShareStateResults, now: Now) -> None:
            def on_written(error: ErrorCode | None, _now: Now) -> None:
                if error is None:
                    reply.give(answer(results))
                else:
                    reply.fail(error)

            self._initialisation.conclude(attempt, results, now)
            self._state.appends.after_all(on_written, now)

        operation.finish(
            now,
            outcome,
            undone=lambda _now: self._initialisation.give_up(attempt),
            committed=lambda _now: self._requests.initialise(
                request.group_id, state_epoch, list(starts.values()), on_answer
            ),
        )

    def _require_alterable(self, group_id: str, group: ShareGroup) -> None:
        """Raises ApiError: the group cannot be, is of another protocol, or has members."""
        if not group_id or len(group_id.encode()) > STRING_BYTES_MAX:
            raise ApiError(ErrorCode.invalid_group_id)
        if self._state.has_group_of_other_protocol(group_id):
            raise ApiError(ErrorCode.group_id_not_found, f"Group {group_id} is not a share group.")
        if len(group):
            raise ApiError(ErrorCode.non_empty_group)

    def _find_refusal(self, group_id: str, altered: AlteredOffset, found: TopicIdPartition | None) -> ErrorCode | None:
        """The reason why a partition cannot be altered. Kafka takes offsets that no record has, and tells lags below zero."""
        if found is None:
            return ErrorCode.unknown_topic_or_partition
        end_offset = altered.end_offset
        if altered.start_offset < NO_START_OFFSET or (end_offset is not None and altered.start_offset > end_offset):
            return ErrorCode.offset_out_of_range
        if self._initialisation.is_held(group_id, found.topic_id):
            return ErrorCode.coordinator_not_available  # its state is being deleted: ask again
        return None

    def _begin(
        self,
        operation: ShareOperation,
        starts: Collection[TopicIdPartition],
        names: Mapping[TopicId, str],
        now: Now,
    ) -> Attempt:
        """Write that these partitions are given a state, and that all others of a topic which is new to the group will be.

        Otherwise these others would seem to be added when a member subscribes, and begin at 0.
        """
        group = operation.group
        missing = tuple(sorted(one for one in starts if not group.has_initialised(one)))
        siblings = [
            one
            for topic_id, name in names.items()
            if not group.knows(topic_id) and (known := self._state.topics.find(name)) is not None
            for one in (TopicIdPartition(topic_id, number) for number in range(len(known.topic.racks)))
            if one not in missing
        ]
        self._initialisation.cancel(group.group_id)
        attempt = Attempt(group.group_id, missing, frozenset(), names, is_repeated=False)
        self._initialisation.record(operation, attempt, now, siblings=siblings)
        epoch = group.epoch + 1
        metadata_hash = hash_topics(self._state.topics, group.topic_names)
        operation.put(_Type.GROUP_EPOCH, GroupEpochValue(epoch, metadata_hash))
        operation.put(_Type.TARGET_EPOCH, TargetEpochValue(epoch, group.assigned_ms))
        return attempt

    def _initialised(self, group: ShareGroup) -> tuple[TopicPartition, ...]:
        """All partitions with a state, of topics that are there."""
        names = {topic_id: known.topic_name for topic_id, known in group.partitions.initialised.items()}
        found = (
            (TopicPartition(names[one.topic_id], one.partition), one)
            for one in partitions_of(group.partitions.initialised)
        )
        return tuple(sorted(partition for partition, one in found if self._identify(partition) == one))

    def _identify(self, partition: TopicPartition) -> TopicIdPartition | None:
        """The partition by the id of its topic; None if there is no such partition."""
        known = self._state.topics.find(partition.topic)
        if known is None or not 0 <= partition.partition < len(known.topic.racks):
            return None
        return TopicIdPartition(known.topic.topic_id, partition.partition)
