"""The deletion of share states: with a group, by an administrator's request for some topics, and after topics were deleted.

The topics are *deleting* in a record first; when that is committed, the share coordinators are asked; when these have answered, the group,
or what the group knows of the topics, goes. If that fails in between, the topics stay *deleting*, and the same request may be sent again;
members that subscribe to them begin with new states.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from esp.groups.changes import append_changes
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.responses import DeleteGroupResult
from esp.groups.share.group import ShareGroup
from esp.groups.share.initialisation import Initialisation
from esp.groups.share.operation import ShareOperation
from esp.groups.share.partitions import begin_deletion, forget, partitions_of
from esp.groups.share.reply import Replies, Reply
from esp.groups.share.requests import (
    DeleteShareGroupOffsets,
    DeleteShareGroupOffsetsResult,
    ShareStateResults,
    ShareTopicError,
)
from esp.groups.share.state_requests import NOT_ANSWERED, StateRequests
from esp.groups.transactional_offsets import OffsetChange
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.model.now import Now
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.schemas.share_group_records import ShareGroupRecordType

_PARTITIONS: Final = ShareGroupRecordType.PARTITIONS
_NO_STATE: Final = "There is no offset information to delete."
"""Kafka's words."""


class ShareDeletion:
    """Deletes share states.

    Args:
        state: the coordinator's state.
        requests: the ways to share coordinators.
        replies: the answers.
        initialisation: makes no states meanwhile.
    """

    def __init__(
        self, state: CoordinatorState, requests: StateRequests, replies: Replies, initialisation: Initialisation
    ) -> None:
        self._state = state
        self._requests = requests
        self._replies = replies
        self._initialisation = initialisation

    def delete_group(self, group: ShareGroup, ticket: object, now: Now) -> None:
        """Delete the states of a group without members, then the group; answer when that is committed."""
        reply = self._replies.open(ticket, lambda error: DeleteGroupResult(error=error))
        if len(group):
            reply.fail(ErrorCode.non_empty_group)
            return
        self._delete_all(group, reply, now)

    def _delete_all(self, group: ShareGroup, reply: Reply, now: Now) -> None:
        known = group.partitions
        topic_ids = frozenset((*known.initialising, *known.initialised, *known.deleting))

        def failed(error: ErrorCode, _topic_id: TopicId | None) -> None:
            reply.fail(error)

        def on_deleted(_deleted: Collection[TopicId], now: Now) -> None:
            self._forget_group(group.group_id, reply, now)

        self._delete_states(group, topic_ids, now, failed, on_deleted, needs_all=True)

    def _forget_group(self, group_id: str, reply: Reply, now: Now) -> None:
        group = self._state.shares.find(group_id)
        if group is None or len(group):
            reply.fail(ErrorCode.group_id_not_found if group is None else ErrorCode.non_empty_group)
            return
        if partitions_of(group.partitions.initialising) or partitions_of(
            group.partitions.initialised
        ):  # altered meanwhile
            self._delete_all(group, reply, now)
            return
        self._initialisation.cancel(group_id)
        offsets = self._state.offsets
        partitions = dict.fromkeys([*offsets.newest(group_id), *offsets.transactional.partitions(group_id)])
        changes = tuple(OffsetChange(group_id, partition, None) for partition in partitions)
        append_changes(
            self._state,
            changes,
            now,
            removed_shares=(group,),
            outcome=lambda error, _now: reply.give(DeleteGroupResult(error=error or ErrorCode.none)),
        )

    def delete_offsets(self, request: DeleteShareGroupOffsets, ticket: object, now: Now) -> None:
        """DeleteShareGroupOffsets: delete the states of some topics of a group without members."""
        reply = self._replies.open(ticket, lambda error: DeleteShareGroupOffsetsResult(error=error))
        group = self._state.shares.find(request.group_id)
        if group is None or len(group):
            error = ErrorCode.group_id_not_found if group is None else ErrorCode.non_empty_group
            message = None if group is not None else f"Group {request.group_id} not found."
            reply.give(DeleteShareGroupOffsetsResult(error=error, error_message=message))
            return
        outcomes = {topic: self._find_deletable(group, topic) for topic in dict.fromkeys(request.topics)}
        topic_ids = {one: topic for topic, one in outcomes.items() if not isinstance(one, ShareTopicError)}
        refused = {one.topic: one for one in outcomes.values() if isinstance(one, ShareTopicError)}

        def failed(error: ErrorCode, topic_id: TopicId | None) -> None:
            if topic_id is None:
                reply.fail(error)
            else:
                topic = topic_ids[topic_id]
                refused[topic] = ShareTopicError(topic, error)

        def on_deleted(deleted: Collection[TopicId], now: Now) -> None:
            operation = ShareOperation(self._state, request.group_id)
            if self._state.shares.find(request.group_id) is not None:  # else it was deleted meanwhile
                operation.put(_PARTITIONS, forget(operation.group.partitions, deleted))
            results = tuple(refused.get(topic, ShareTopicError(topic)) for topic in outcomes)

            def outcome(error: ErrorCode | None, _now: Now) -> None:
                if error is None:
                    reply.give(DeleteShareGroupOffsetsResult(topics=results))
                else:
                    reply.fail(error)

            operation.finish(now, outcome)

        self._delete_states(group, topic_ids.keys(), now, failed, on_deleted, needs_all=False)

    def _find_deletable(self, group: ShareGroup, topic: str) -> TopicId | ShareTopicError:
        known = self._state.topics.find(topic)
        if known is None:
            return ShareTopicError(topic, ErrorCode.unknown_topic_or_partition)
        topic_id = known.topic.topic_id
        if not group.knows(topic_id) and topic_id not in group.partitions.deleting:
            return ShareTopicError(topic, ErrorCode.unknown_topic_or_partition, _NO_STATE)
        return topic_id

    def on_topics_deleted(self, topic_ids: Collection[TopicId], now: Now) -> None:
        """Topics are gone: their partitions leave the groups at once, and their states are deleted, where they are still there."""
        for group in self._state.shares.newest():
            value = group.partitions
            gone = [
                topic_id for topic_id in topic_ids if group.knows(topic_id) or topic_id in group.partitions.deleting
            ]
            if not gone:
                continue
            partitions = sorted(
                one
                for one in partitions_of(value.initialising) | partitions_of(value.initialised)
                if one.topic_id in gone
            )
            operation = ShareOperation(self._state, group.group_id)
            operation.put(_PARTITIONS, forget(value, gone))
            committed = partial(self._delete_orphans, group.group_id, partitions)
            operation.finish(now, _ignore, committed=committed)

    def _delete_orphans(self, group_id: str, partitions: list[TopicIdPartition], _now: Now) -> None:
        if partitions:
            self._requests.delete(group_id, partitions, _ignore_states)

    def _delete_states(
        self,
        group: ShareGroup,
        topic_ids: Collection[TopicId],
        now: Now,
        failed: Callable[[ErrorCode, TopicId | None], None],
        on_deleted: Callable[[Collection[TopicId], Now], None],
        *,
        needs_all: bool,
    ) -> None:
        """Delete the states of topics.

        Args:
            group: has no members.
            topic_ids: of which it has, or may have, states.
            now: the time.
            failed: called with an error for a topic, or for all with None.
            on_deleted: called with the topics of which there is no state any more, if there are no errors for all.
            needs_all: whether one topic that fails is an error for all.
        """
        group_id = group.group_id
        partitions = self._partitions(group, topic_ids)
        if not partitions:
            on_deleted(topic_ids, now)
            return
        operation = ShareOperation(self._state, group_id)
        operation.put(_PARTITIONS, begin_deletion(group.partitions, topic_ids))
        self._initialisation.cancel(group_id)
        self._initialisation.hold(group_id, topic_ids)

        def on_answer(results: ShareStateResults, now: Now) -> None:
            self._initialisation.release(group_id, topic_ids)
            errors = {
                one.topic_id: error
                for one in partitions
                if (error := results.get(one, NOT_ANSWERED).error) is not ErrorCode.none
            }
            for topic_id, error in errors.items():
                failed(error, None if needs_all else topic_id)
            if not (errors and needs_all):
                on_deleted([topic_id for topic_id in topic_ids if topic_id not in errors], now)

        def outcome(error: ErrorCode | None, _now: Now) -> None:
            if error is not None:
                failed(error, None)

        operation.finish(
            now,
            outcome,
            undone=lambda _now: self._initialisation.release(group_id, topic_ids),
            committed=lambda _now: self._requests.delete(group_id, partitions, on_answer),
        )

    def _partitions(self, group: ShareGroup, topic_ids: Collection[TopicId]) -> list[TopicIdPartition]:
        """The partitions of these topics that may have states."""
        value = group.partitions
        found = {
            one
            for one in partitions_of(value.initialising) | partitions_of(value.initialised)
            if one.topic_id in topic_ids
        }
        for topic_id, name in value.deleting.items():  # the record does not say which: all that there are
            known = self._state.topics.find(name)
            if topic_id in topic_ids and known is not None and known.topic.topic_id == topic_id:
                found.update(TopicIdPartition(topic_id, number) for number in range(len(known.topic.racks)))
        return sorted(found)


def _ignore(_error: ErrorCode | None, _now: Now) -> None:
    """No request waits for it."""


def _ignore_states(_results: ShareStateResults, _now: Now) -> None:
    """The group knows nothing of these states any more: the answer makes no difference."""
