"""The part of a coordinator that share groups are: it hands their requests, and the answers of share coordinators, to where they belong."""

from collections.abc import Collection, Mapping, Sequence

from esp.groups.coordinator_state import CoordinatorState
from esp.groups.describing import describe_share_group
from esp.groups.effects import Effect
from esp.groups.share.assigning import ShareAssigning
from esp.groups.share.deletion import ShareDeletion
from esp.groups.share.departures import ShareDepartures
from esp.groups.share.heartbeats import ShareHeartbeats
from esp.groups.share.initialisation import Initialisation
from esp.groups.share.offsets import ShareOffsets
from esp.groups.share.progress import ShareProgress
from esp.groups.share.reply import Replies
from esp.groups.share.requests import (
    AlterShareGroupOffsets,
    DeleteShareGroupOffsets,
    DescribedShareGroup,
    DescribeShareGroupOffsets,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResult,
    ShareStateResults,
)
from esp.groups.share.state_requests import StateRequests
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId, TopicPartition
from esp.model.now import Now


class ShareCoordinating:
    """Its methods are those of :class:`~esp.groups.coordinator.GroupCoordinator`, for share groups.

    Args:
        state: the coordinator's state.
    """

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state
        self._requests = StateRequests(state.outbox)
        self._replies = Replies(state.outbox)
        progress = ShareProgress(state)
        initialisation = Initialisation(state, self._requests, progress)
        self._departures = ShareDepartures(state, progress)
        assigning = ShareAssigning(state, self._departures)
        self._heartbeats = ShareHeartbeats(state, progress, self._departures, initialisation, assigning)
        self._offsets = ShareOffsets(state, self._requests, self._replies, initialisation)
        self.deletion = ShareDeletion(state, self._requests, self._replies, initialisation)
        """Deletes groups, for DeleteGroups."""

    def begin(self, now: Now) -> None:
        """All records are replayed."""
        self._departures.begin(now)

    def unload(self) -> None:
        """Another broker coordinates these groups: requests that wait for share coordinators are answered NOT_COORDINATOR."""
        self._replies.abandon(ErrorCode.not_coordinator)

    def beat_at_rest(self, request: ShareGroupHeartbeat, now: Now) -> ShareGroupHeartbeatResult | None:
        """ShareGroupHeartbeat of a member for which nothing changes: the answer, or None if :meth:`heartbeat` decides."""
        return self._heartbeats.beat_at_rest(request, now)

    def heartbeat(self, request: ShareGroupHeartbeat, ticket: object, now: Now) -> list[Effect]:
        """ShareGroupHeartbeat; answered with a ShareGroupHeartbeatResult when all that follows from it is committed."""
        self._heartbeats.heartbeat(request, ticket, now)
        return self._state.outbox.take()

    def describe(self, group_id: str) -> DescribedShareGroup:
        """One group of ShareGroupDescribe."""
        return describe_share_group(self._state, group_id)

    def describe_offsets(self, request: DescribeShareGroupOffsets, ticket: object, now: Now) -> list[Effect]:
        """One group of DescribeShareGroupOffsets; answered with a DescribeShareGroupOffsetsResult."""
        self._offsets.describe(request, ticket, now)
        return self._state.outbox.take()

    def find_held(self, wanted: Mapping[TopicPartition, Sequence[str]]) -> dict[str, tuple[TopicPartition, ...]]:
        """By group the partitions that it holds against retention, from the start offsets on that :meth:`describe_offsets` tells."""
        return self._offsets.find_held(wanted)

    def alter_offsets(self, request: AlterShareGroupOffsets, ticket: object, now: Now) -> list[Effect]:
        """AlterShareGroupOffsets; answered with an AlterShareGroupOffsetsResult."""
        self._offsets.alter(request, ticket, now)
        return self._state.outbox.take()

    def delete_offsets(self, request: DeleteShareGroupOffsets, ticket: object, now: Now) -> list[Effect]:
        """DeleteShareGroupOffsets; answered with a DeleteShareGroupOffsetsResult."""
        self.deletion.delete_offsets(request, ticket, now)
        return self._state.outbox.take()

    def on_states_answered(self, token: int, results: ShareStateResults, now: Now) -> list[Effect]:
        """Share coordinators have answered a :data:`~esp.groups.share.effects.ShareStateRequest`, or are not asked any more."""
        self._requests.on_answered(token, results, now)
        return self._state.outbox.take()

    @property
    def topic_ids(self) -> list[TopicId]:
        """The topics of which groups have states, or had some that are not known to be deleted."""
        values = [group.partitions for group in self._state.shares.newest()]
        return list(
            dict.fromkeys(
                topic_id
                for value in values
                for topics in (value.initialising, value.initialised, value.deleting)
                for topic_id in topics
            )
        )

    def on_topics_deleted(self, topic_ids: Collection[TopicId], now: Now) -> list[Effect]:
        """Topics are gone: share groups forget them."""
        self.deletion.on_topics_deleted(topic_ids, now)
        return self._state.outbox.take()
