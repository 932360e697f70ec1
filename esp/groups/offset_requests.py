"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete."""

from collections.abc import Callable
from typing import Final

from esp.groups.changes import append_changes, append_transactional
from esp.groups.consumer.membership import require_commit, require_fetch
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.group import GroupState
from esp.groups.rebalances import Rebalances
from esp.groups.requests import (
    NO_RETENTION,
    CommittedOffset,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    TxnOffsetCommit,
)
from esp.groups.responses import (
    FetchedOffset,
    OffsetCommitResult,
    OffsetDeleteResult,
    OffsetFetchResult,
    PartitionError,
    Result,
)
from esp.groups.transactional_offsets import OffsetChange
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicId, TopicPartition
from esp.model.now import Now
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.schemas.group_record_codec import STRING_BYTES_MAX
from esp.schemas.group_records import NO_TIMESTAMP, OffsetCommitValue

_TIMESTAMP_MAX: Final = 2**63 - 1
_WITH_MEMBERS: Final = frozenset({GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE})
_STALE_IN_TRANSACTION: Final = ErrorCode.illegal_generation
"""The answer to TxnOffsetCommit in place of STALE_MEMBER_EPOCH, which no version of it knows: by it producers abort, and by the other they
end.
"""


MayCommit = Callable[[TopicIdPartition | None], bool]


def _all_partitions(_partition: TopicIdPartition | None) -> bool:
    """Members of the classic protocol may commit for any partition."""
    return True


class OffsetRequests:
    """Decides on requests about offsets.

    Args:
        state: the coordinator's state.
        rebalances: holds the sessions that commits keep alive.
    """

    def __init__(self, state: CoordinatorState, rebalances: Rebalances) -> None:
        self._state = state
        self._rebalances = rebalances

    def commit(self, request: OffsetCommit, ticket: object, now: Now) -> None:
        """Answer when the offsets are committed; offsets with too much text beside them are refused one by one."""
        try:
            may_commit = self._require_right_to_commit(request, now)
        except ApiError as refusal:
            self._state.outbox.answer(ticket, _same_for_all(request, refusal.code))
            return
        expires = request.retention_ms != NO_RETENTION
        expire_timestamp_ms = min(now.wall_ms + request.retention_ms, _TIMESTAMP_MAX) if expires else NO_TIMESTAMP
        outcomes: list[PartitionError] = []
        changes: list[OffsetChange] = []
        for committed in request.offsets:
            if not may_commit(self._identify(committed)):
                outcomes.append(PartitionError(committed.partition, ErrorCode.stale_member_epoch))
                continue
            if self._is_too_large(committed.metadata, expires=expires):
                outcomes.append(PartitionError(committed.partition, ErrorCode.offset_metadata_too_large))
                continue
            outcomes.append(PartitionError(committed.partition, ErrorCode.none))
            value = _value(committed, now.wall_ms, expire_timestamp_ms)
            changes.append(OffsetChange(request.group_id, committed.partition, value))
        result = OffsetCommitResult(partitions=tuple(outcomes))
        self._append(tuple(changes), ticket, result, lambda error: _same_for_all(request, error), now)

    def commit_transactional(self, request: TxnOffsetCommit, ticket: object, now: Now) -> None:
        """Answer when the offsets are in the log, as records of their transaction (TXN-10).

        Sessions are not kept alive: the producer may be another process than the member. A member that has lost one of the partitions since
        the epoch that it names commits none of them: its producer has to abort.
        """
        try:
            may_commit = self._require_right_to_commit_transactional(request)
        except ApiError as refusal:
            self._state.outbox.answer(ticket, _same_for_all(request, refusal.code))
            return
        if not all(may_commit(self._identify(committed)) for committed in request.offsets):
            self._state.outbox.answer(ticket, _same_for_all(request, _STALE_IN_TRANSACTION))
            return
        outcomes: list[PartitionError] = []
        changes: list[OffsetChange] = []
        for committed in request.offsets:
            if self._is_too_large(committed.metadata, expires=False):
                outcomes.append(PartitionError(committed.partition, ErrorCode.offset_metadata_too_large))
                continue
            outcomes.append(PartitionError(committed.partition, ErrorCode.none))
            value = _value(committed, now.wall_ms, NO_TIMESTAMP)
            changes.append(OffsetChange(request.group_id, committed.partition, value))
        result = OffsetCommitResult(partitions=tuple(outcomes))

        def outcome(error: ErrorCode | None, _now: Now) -> None:
            self._state.outbox.answer(ticket, result if error is None else _same_for_all(request, error))

        if changes:
            append_transactional(self._state, request.transaction, tuple(changes), now, outcome=outcome)
        else:
            self._state.appends.after_all(outcome, now)

    def fetch(self, request: OffsetFetch) -> OffsetFetchResult:
        """Return the committed offsets; a group that is not there has none, which is no error.

        A request for stable offsets is refused those that an open transaction may still replace (KIP-447).
        """
        consumers = self._state.consumers.find(request.group_id)
        if consumers is not None:
            try:
                require_fetch(consumers, request.member_id, request.member_epoch)
            except ApiError as refusal:
                return OffsetFetchResult(error=refusal.code)
        store = self._state.offsets
        offsets = store.committed(request.group_id)
        unstable = (
            frozenset(store.transactional.partitions(request.group_id)) if request.require_stable else frozenset()
        )
        partitions = request.partitions
        if partitions is None:
            partitions = tuple(sorted(offsets.keys() | unstable))
        return OffsetFetchResult(
            offsets=tuple(
                FetchedOffset(partition, error=ErrorCode.unstable_offset_commit)
                if partition in unstable
                else _fetched(partition, offsets.get(partition))
                for partition in partitions
            )
        )

    def delete(self, request: OffsetDelete, ticket: object, now: Now) -> None:
        """Answer when the tombstones are committed; topics that members are subscribed to keep their offsets (KIP-496)."""
        group = self._state.directory.find(request.group_id)
        consumers = self._state.consumers.find(request.group_id)
        error = ErrorCode.none
        if not request.group_id:
            error = ErrorCode.invalid_group_id
        elif group is None and consumers is None:
            error = ErrorCode.group_id_not_found
        elif group is not None and group.state in _WITH_MEMBERS and not group.uses_consumer_protocol:
            error = ErrorCode.non_empty_group
        readers = group if consumers is None else consumers
        if readers is None or error is not ErrorCode.none:
            self._state.outbox.answer(ticket, OffsetDeleteResult(error=error))
            return
        offsets = self._state.offsets.newest(request.group_id)
        outcomes: list[PartitionError] = []
        changes: list[OffsetChange] = []
        for partition in request.partitions:
            is_subscribed = readers.is_subscribed_to(partition.topic)
            outcomes.append(
                PartitionError(partition, ErrorCode.group_subscribed_to_topic if is_subscribed else ErrorCode.none)
            )
            if not is_subscribed and (
                partition in offsets or self._state.offsets.transactional.has(request.group_id, partition)
            ):
                changes.append(OffsetChange(request.group_id, partition, None))
        result = OffsetDeleteResult(partitions=tuple(outcomes))
        self._append(tuple(changes), ticket, result, lambda error: OffsetDeleteResult(error=error), now)

    def _identify(self, committed: CommittedOffset) -> TopicIdPartition | None:
        """The partition by the id of its topic; None if there is no such topic."""
        topic_id = committed.topic_id
        if topic_id is None:
            known = self._state.topics.find(committed.partition.topic)
            topic_id = None if known is None else known.topic.topic_id
        return None if topic_id is None else TopicIdPartition(TopicId(topic_id), committed.partition.partition)

    def _require_right_to_commit(self, request: OffsetCommit, now: Now) -> MayCommit:
        """Let members of the generation commit, and clients that are no members only while the group has none.

        A group that is not there comes about when the first of its offsets is committed.

        Raises:
            ApiError: the client is no member, or one of another generation, or is to join or sync first.
        """
        self._require_no_share_group(request.group_id)
        consumers = self._state.consumers.find(request.group_id)
        if consumers is not None:
            return require_commit(
                consumers,
                request.member_id,
                request.generation_id,
                is_transactional=False,
                knows_epochs=request.knows_member_epochs,
            )
        self._require_member_of_generation(request, now)
        return _all_partitions

    def _require_member_of_generation(self, request: OffsetCommit, now: Now) -> None:
        """As :meth:`_require_right_to_commit`, of a group of the classic protocol."""
        group = self._state.directory.find(request.group_id)
        if group is None:
            _require_simple(request)
            return
        if request.generation_id < 0 and group.state is GroupState.EMPTY:
            return
        if request.generation_id < 0 and not request.member_id and request.group_instance_id is None:
            raise ApiError(ErrorCode.unknown_member_id)
        member = group.require_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise ApiError(ErrorCode.illegal_generation)
        if group.state is GroupState.COMPLETING_REBALANCE:
            raise ApiError(ErrorCode.rebalance_in_progress)
        self._rebalances.sessions.restart(group, member, now)

    def _require_right_to_commit_transactional(self, request: TxnOffsetCommit) -> MayCommit:
        """Let members of the generation commit, at any time in it, and producers that name no member (KIP-447).

        Raises:
            ApiError: the request names a member, a generation or a member epoch that is not the group's; or it is a share group.
        """
        self._require_no_share_group(request.group_id)
        consumers = self._state.consumers.find(request.group_id)
        if consumers is not None:
            try:
                return require_commit(
                    consumers, request.member_id, request.generation_id, is_transactional=True, knows_epochs=True
                )
            except ApiError as refusal:
                is_stale = refusal.code is ErrorCode.stale_member_epoch
                raise (ApiError(_STALE_IN_TRANSACTION) if is_stale else refusal) from None
        self._require_named_generation(request)
        return _all_partitions

    def _require_no_share_group(self, group_id: str) -> None:
        """Raises ApiError: a share group has no committed offsets."""
        if self._state.shares.find(group_id) is not None:
            raise ApiError(ErrorCode.group_id_not_found)

    def _require_named_generation(self, request: TxnOffsetCommit) -> None:
        """As :meth:`_require_right_to_commit_transactional`, of a group of the classic protocol."""
        group = self._state.directory.find(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                raise ApiError(ErrorCode.illegal_generation)
            if len(request.group_id.encode()) > STRING_BYTES_MAX:
                raise ApiError(ErrorCode.invalid_group_id)
            return
        if request.generation_id < 0 and (
            group.state is GroupState.EMPTY or (not request.member_id and request.group_instance_id is None)
        ):
            return
        group.require_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise ApiError(ErrorCode.illegal_generation)

    def _is_too_large(self, metadata: str, *, expires: bool) -> bool:
        units = len(metadata)
        if not metadata.isascii():
            units = len(metadata.encode("utf-16-le")) // 2
        # the record of an offset that expires has less room
        return units > self._state.settings.offset_metadata_max_bytes or (
            expires and len(metadata.encode()) > STRING_BYTES_MAX
        )

    def _append(
        self,
        changes: tuple[OffsetChange, ...],
        ticket: object,
        result: Result,
        failed: Callable[[ErrorCode], Result],
        now: Now,
    ) -> None:
        """Answer with ``result`` once the changes, and the records that they rest on, are committed."""

        def outcome(error: ErrorCode | None, _now: Now) -> None:
            self._state.outbox.answer(ticket, result if error is None else failed(error))

        if changes:
            append_changes(self._state, changes, now, outcome=outcome)
        else:
            self._state.appends.after_all(outcome, now)


def _require_simple(request: OffsetCommit) -> None:
    """Only a client that names no generation commits offsets of a group that is not there.

    Raises:
        ApiError: it names one, or the log could not hold the group's name.
    """
    if request.generation_id >= 0:
        raise ApiError(ErrorCode.group_id_not_found if request.knows_member_epochs else ErrorCode.illegal_generation)
    if len(request.group_id.encode()) > STRING_BYTES_MAX:
        raise ApiError(ErrorCode.invalid_group_id)


def _value(committed: CommittedOffset, wall_ms: int, expire_timestamp_ms: int) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp_ms=wall_ms,
        expire_timestamp_ms=expire_timestamp_ms,
        topic_id=committed.topic_id if expire_timestamp_ms == NO_TIMESTAMP else None,  # the record has no room for it
    )


def _fetched(partition: TopicPartition, value: OffsetCommitValue | None) -> FetchedOffset:
    if value is None:
        return FetchedOffset(partition)
    return FetchedOffset(partition, value.offset, value.leader_epoch, value.metadata, topic_id=value.topic_id)


def _same_for_all(request: OffsetCommit | TxnOffsetCommit, error: ErrorCode) -> OffsetCommitResult:
    return OffsetCommitResult(
        partitions=tuple(PartitionError(committed.partition, error) for committed in request.offsets)
    )
