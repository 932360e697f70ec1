"""The coordinator of the groups of one partition of ``__consumer_offsets``.

This module is the door: it hands requests, the time and the results of appends to the part that they concern, and gives back the effects.
The parts are :mod:`~esp.groups.joining`, :mod:`~esp.groups.leaving`, :mod:`~esp.groups.rebalances`, :mod:`~esp.groups.consumer`,
:mod:`~esp.groups.share`, :mod:`~esp.groups.offset_requests`, :mod:`~esp.groups.deletion` and :mod:`~esp.groups.describing`; the state that
they share is the :class:`~esp.groups.coordinator_state.CoordinatorState`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from esp.groups.appends import Appends
from esp.groups.backlog import Backlog
from esp.groups.changes import end_transaction
from esp.groups.consumer.assigning import Assigning
from esp.groups.consumer.classic_members import ClassicMembers
from esp.groups.consumer.departures import Departures
from esp.groups.consumer.directory import ConsumerGroups
from esp.groups.consumer.heartbeats import Heartbeats
from esp.groups.consumer.progress import Progress
from esp.groups.consumer.topics import TopicCatalog
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.deadlines import Deadlines
from esp.groups.deletion import Deletion
from esp.groups.describing import describe_consumer_group, describe_group, list_groups
from esp.groups.directory import GroupDirectory
from esp.groups.effects import Effect, Outbox
from esp.groups.group import Group
from esp.groups.group_log import load_group
from esp.groups.held_positions import HeldPosition, find_held_positions
from esp.groups.joining import Joining
from esp.groups.leaving import Leaving, Syncing
from esp.groups.offset_requests import OffsetRequests
from esp.groups.offset_store import OffsetStore
from esp.groups.rebalances import Rebalances
from esp.groups.requests import (
    ConsumerGroupHeartbeat,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
    TxnOffsetCommit,
)
from esp.groups.responses import (
    ConsumerGroupHeartbeatResult,
    DescribedConsumerGroup,
    DescribedGroup,
    ListedGroup,
    OffsetFetchResult,
)
from esp.groups.settings import GroupSettings
from esp.groups.share.coordinating import ShareCoordinating
from esp.groups.share.directory import ShareGroups
from esp.groups.transactional_offsets import OffsetChange
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.model.now import Now
from esp.ports.random import Random
from esp.schemas.consumer_group_record_codec import decode_consumer_group_record
from esp.schemas.consumer_group_records import ConsumerGroupRecord
from esp.schemas.group_record_codec import decode_group_record
from esp.schemas.group_records import GroupMetadataValue, OffsetCommitRecord
from esp.schemas.share_group_record_codec import decode_share_group_record
from esp.schemas.share_group_records import ShareGroupRecord

_US_PER_MS: Final = 1_000
_NO_TIME_MS: Final = 0
"""The time for groups that are unloaded: it is never read."""


class GroupCoordinator:
    """One state. First the partition's records are replayed from the log's start to the high watermark, then :meth:`begin` makes it serve;
    :meth:`unload` ends it, once and for all. A ticket is any object but None by which the driver knows a request; each is answered once.

    Args:
        settings: the operator's.
        random: draws the ids of members.
        topics: the topics that there are.
    """

    def __init__(self, settings: GroupSettings, random: Random, topics: TopicCatalog) -> None:
        deadlines = Deadlines()
        outbox = Outbox()
        appends = Appends(outbox, deadlines, settings.offsets_commit_timeout_ms * _US_PER_MS)
        self._state = CoordinatorState(
            settings=settings,
            random=random,
            outbox=outbox,
            deadlines=deadlines,
            appends=appends,
            directory=GroupDirectory(),
            consumers=ConsumerGroups(),
            shares=ShareGroups(),
            topics=topics,
            offsets=OffsetStore(),
            backlog=Backlog(),
        )
        self._rebalances = Rebalances(self._state)
        progress = Progress(self._state)
        self._departures = Departures(self._state, self._rebalances, progress)
        assigning = Assigning(self._state, self._rebalances, self._departures)
        parts = self._state, self._rebalances, progress, self._departures, assigning
        self._heartbeats = Heartbeats(*parts)
        self._classic_members = ClassicMembers(*parts)
        self._joining = Joining(self._state, self._rebalances, self._classic_members)
        self._syncing = Syncing(self._state, self._rebalances)
        self._leaving = Leaving(self._state, self._rebalances)
        self._offset_requests = OffsetRequests(self._state, self._rebalances)
        self.shares = ShareCoordinating(self._state)
        """Requests of share groups."""
        self._deletion = Deletion(self._state, self.shares.deletion)

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record of the log. Records of groups that are not offered are skipped; the caller skips control records, and records of
        transactions that did not commit.

        Raises:
            CorruptionError: the record is malformed, or its version is not known.
        """
        record = decode_group_record(key, value)
        if record is None:
            assert key is not None, "a record without a key is malformed"
            consumer_record = decode_consumer_group_record(key, value)
            if consumer_record is not None:
                self._replay_consumers(consumer_record)
            elif self._state.settings.offers_share_groups:
                share_record = decode_share_group_record(key, value)
                if share_record is not None:
                    self._replay_shares(share_record)
        elif isinstance(record, OffsetCommitRecord):
            partition = TopicPartition(record.key.topic, record.key.partition)
            self._state.offsets.apply((OffsetChange(record.key.group, partition, record.value),))
        else:
            self._replay_group(record.key.group, record.value)

    def replay_pending(self, producer_id: int, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Apply the records of a transaction that is open at the log's end, by key and value, after all others.

        Raises:
            CorruptionError: as :meth:`replay`.
        """
        changes = []
        for key, value in records:
            record = decode_group_record(key, value)
            if isinstance(record, OffsetCommitRecord):
                partition = TopicPartition(record.key.topic, record.key.partition)
                changes.append(OffsetChange(record.key.group, partition, record.value))
        if changes:
            self._state.offsets.begin_transactional(producer_id, tuple(changes))

    def begin(self, now: Now) -> list[Effect]:
        """All records are replayed: members of loaded groups have their full session from now on."""
        for group_id in self._state.offsets.committed_groups():
            is_share = self._state.shares.find(group_id) is not None
            if not is_share and not self._state.has_group_of_other_protocol(group_id):
                self._install(Group(group_id, now.wall_ms))
        for group in self._state.directory.newest():
            self._rebalances.begin(group, now)
            if len(group) > self._state.settings.group_max_size or (group.is_over and len(group)):
                self._rebalances.prepare(group, now)
        self._departures.begin(now)
        self.shares.begin(now)
        self._deletion.begin(now)
        return self._state.outbox.take()

    def unload(self) -> list[Effect]:
        """Another broker coordinates these groups: open requests are answered NOT_COORDINATOR. Nothing may be called afterwards."""
        for group in self._state.directory.newest():
            self._rebalances.kill(group, ErrorCode.not_coordinator, _NO_TIME_MS)
        self._state.appends.abandon(ErrorCode.not_coordinator)
        self.shares.unload()
        return self._state.outbox.take()

    @property
    def next_deadline_us(self) -> int | None:
        """The monotonic time at which :meth:`on_time` is due, None for never. Read it after each call; heartbeats that
        are answered with no error never bring it nearer."""
        return self._state.deadlines.next_us

    def on_time(self, now: Now) -> list[Effect]:
        """Do what is due: sessions and rebalances that end, offsets that expire, answers that waited too long."""
        self._state.deadlines.run(now)
        return self._state.outbox.take()

    @property
    def has_work(self) -> bool:
        """True if :meth:`work` is to be called, between requests, as soon as there is time. Read it after each call."""
        return not self._state.backlog.is_empty

    def work(self, now: Now) -> list[Effect]:
        """Do a slice of what takes too long to be done at once: large assignments, timers of large groups that were loaded."""
        self._state.backlog.go_on(now)
        return self._state.outbox.take()

    def on_committed(self, token: int, now: Now) -> list[Effect]:
        """The records of an :class:`~esp.groups.effects.Append` are committed."""
        self._state.appends.on_committed(token, now)
        return self._state.outbox.take()

    def on_append_failed(self, token: int, error: ErrorCode, now: Now) -> list[Effect]:
        """The records of an :class:`~esp.groups.effects.Append` are not in the log and never will be."""
        self._state.appends.on_failed(token, error, now)
        return self._state.outbox.take()

    def is_withdrawn(self, token: int) -> bool:
        """True, once, for an :class:`~esp.groups.effects.Append` that is not to be done: one on which it rests has failed."""
        return self._state.appends.is_withdrawn(token)

    def join(self, request: JoinGroup, ticket: object, now: Now) -> list[Effect]:
        """JoinGroup; answered with a JoinResult when the generation begins."""
        self._joining.join(request, ticket, now)
        return self._state.outbox.take()

    def sync(self, request: SyncGroup, ticket: object, now: Now) -> list[Effect]:
        """SyncGroup; answered with a SyncResult when the leader's assignments are committed."""
        decides = self._classic_members if self._classic_members.has(request.group_id) else self._syncing
        decides.sync(request, ticket, now)
        return self._state.outbox.take()

    def heartbeat(self, request: Heartbeat, now: Now) -> ErrorCode:
        """Heartbeat; the answer is returned, and no effects follow. After REBALANCE_IN_PROGRESS there may be a nearer deadline."""
        decides = self._classic_members if self._classic_members.has(request.group_id) else self._leaving
        return decides.heartbeat(request, now)

    def consumer_group_heartbeat(self, request: ConsumerGroupHeartbeat, ticket: object, now: Now) -> list[Effect]:
        """ConsumerGroupHeartbeat; answered with a ConsumerGroupHeartbeatResult when all that follows from it is committed."""
        self._heartbeats.heartbeat(request, ticket, now)
        return self._state.outbox.take()

    def beat_at_rest(self, request: ConsumerGroupHeartbeat, now: Now) -> ConsumerGroupHeartbeatResult | None:
        """ConsumerGroupHeartbeat of a member for which nothing changes: the answer is returned, and no effects follow. None, with nothing
        done: :meth:`consumer_group_heartbeat` decides. The settings of the group may have brought the deadline nearer."""
        return self._heartbeats.beat_at_rest(request, now)

    def leave(self, request: LeaveGroup, ticket: object, now: Now) -> list[Effect]:
        """LeaveGroup; answered with a LeaveResult."""
        decides = self._classic_members if self._classic_members.has(request.group_id) else self._leaving
        decides.leave(request, ticket, now)
        return self._state.outbox.take()

    def commit_offsets(self, request: OffsetCommit, ticket: object, now: Now) -> list[Effect]:
        """OffsetCommit; answered with an OffsetCommitResult when the offsets are committed."""
        self._offset_requests.commit(request, ticket, now)
        return self._state.outbox.take()

    def commit_transactional_offsets(self, request: TxnOffsetCommit, ticket: object, now: Now) -> list[Effect]:
        """TxnOffsetCommit; answered with an OffsetCommitResult when the offsets are in the log, pending."""
        self._offset_requests.commit_transactional(request, ticket, now)
        return self._state.outbox.take()

    def on_marker_appended(self) -> int:
        """An end-transaction marker stands in the log behind all records so far; returns the token for :meth:`on_marker_committed`."""
        return self._state.offsets.begin_end()

    def on_marker_committed(self, token: int, producer_id: int, now: Now, *, is_commit: bool) -> list[Effect]:
        """A marker of this producer is committed: offsets that were pending before it are applied, or dropped (TXN-10)."""
        end_transaction(self._state, producer_id, token, now, is_commit=is_commit)
        return self._state.outbox.take()

    def fetch_offsets(self, request: OffsetFetch) -> OffsetFetchResult:
        """OffsetFetch: committed offsets only, or stable ones."""
        return self._offset_requests.fetch(request)

    def find_held_positions(self, wanted: Mapping[TopicPartition, Sequence[str]]) -> list[HeldPosition]:
        """The offsets of the groups that hold partitions against retention (:mod:`esp.groups.held_positions`)."""
        return find_held_positions(self._state.offsets, wanted)

    def delete_offsets(self, request: OffsetDelete, ticket: object, now: Now) -> list[Effect]:
        """OffsetDelete; answered with an OffsetDeleteResult."""
        self._offset_requests.delete(request, ticket, now)
        return self._state.outbox.take()

    def delete_group(self, group_id: str, ticket: object, now: Now) -> list[Effect]:
        """One group of DeleteGroups; answered with a DeleteGroupResult."""
        self._deletion.delete_group(group_id, ticket, now)
        return self._state.outbox.take()

    def describe_group(self, group_id: str) -> DescribedGroup:
        """One group of DescribeGroups."""
        return describe_group(self._state, group_id)

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        """One group of ConsumerGroupDescribe."""
        return describe_consumer_group(self._state, group_id)

    def list_groups(self, request: ListGroups) -> list[ListedGroup]:
        """ListGroups: this coordinator's share of it."""
        return list_groups(self._state, request)

    def on_partitions_deleted(self, partitions: Collection[TopicPartition], now: Now) -> list[Effect]:
        """Partitions are gone with their topics: their offsets are forgotten."""
        self._deletion.on_partitions_deleted(partitions, now)
        return self._state.outbox.take()

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        self._forget_classic(group_id)
        if value is not None:
            self._forget_consumers(group_id)
            self._forget_shares(group_id)
            self._install(load_group(group_id, value))

    def _replay_consumers(self, record: ConsumerGroupRecord) -> None:
        """A group is of one protocol: the one of which it has the later record."""
        if record.value is not None:
            self._forget_classic(record.key.group_id)
            self._forget_shares(record.key.group_id)
        self._state.consumers.replay(record)

    def _replay_shares(self, record: ShareGroupRecord) -> None:
        """As above."""
        if record.value is not None:
            self._forget_classic(record.key.group_id)
            self._forget_consumers(record.key.group_id)
        self._state.shares.replay(record)

    def _forget_classic(self, group_id: str) -> None:
        classic = self._state.directory.find(group_id)
        if classic is not None:
            self._state.directory.forget(classic)

    def _forget_consumers(self, group_id: str) -> None:
        consumers = self._state.consumers.find(group_id)
        for key in () if consumers is None else consumers.keys:
            self._state.consumers.replay(ConsumerGroupRecord(key, None))

    def _forget_shares(self, group_id: str) -> None:
        shares = self._state.shares.find(group_id)
        for key in () if shares is None else shares.keys:
            self._state.shares.replay(ShareGroupRecord(key, None))

    def _install(self, group: Group) -> None:
        """Add a group that was found in the log."""
        self._state.directory.add(group)
        self._state.directory.commit(group)
