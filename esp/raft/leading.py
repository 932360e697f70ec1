"""Leading: the log's only writer of its epoch, until a majority is out of reach (RAFT-7, RAFT-9, RAFT-11 to RAFT-14).

The leader's knowledge of its quorum is the content of DescribeQuorum (KIP-595, KIP-836, KIP-853).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from esp.model.errors import ErrorCode
from esp.model.ids import LeaderEpoch, NodeId
from esp.raft.effects import Append, BeginEpoch, Flush, ReadRecords, ReadSnapshot
from esp.raft.member import Member
from esp.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EpochEnd,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from esp.raft.roles import Farewell, LeaderState, ParkedFetch, ReplicaProgress, Resigned
from esp.raft.snapshot import SnapshotId
from esp.raft.voters import VoterKey, VoterSet
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.schemas.control_records import ControlEntity, encode_control_record, kraft_version, leader_change


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """One replica, the leader among them. Times are monotonic microseconds of the leader, None if there was no such event."""

    key: VoterKey
    log_end_offset: int
    """-1 if the replica has not fetched in this epoch."""
    last_fetch_us: int | None
    last_caught_up_us: int | None


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The quorum as its leader sees it, or as a node knows it that has no answer of the leader."""

    leader_id: NodeId
    leader_epoch: LeaderEpoch
    high_watermark: int | None
    voter_set: VoterSet
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]


_OBSERVER_SESSION_US: Final = 300_000_000
"""After so long without a fetch an observer is forgotten, as Kafka's leader does."""


class Leading:
    """The part of a member that leads, and that notifies the voters when it resigns."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def begin(self, granted: frozenset[VoterKey]) -> None:
        """Begin the epoch that was won: its LeaderChange record first (LOG-8), then notify all voters (RAFT-9).

        The first epoch of a log also writes the content of the snapshot 0-0 into it, as Kafka's does.
        """
        member = self._member
        voters = member.history.voters
        member.become_leader(
            LeaderState(
                local=member.local,
                epoch_start_offset=member.log.end_offset,
                began_us=member.now.monotonic_us,
            )
        )
        voter_ids = sorted(voter.key.node_id for voter in voters.voters)
        entities: list[ControlEntity] = [
            leader_change(member.local.node_id, voter_ids, sorted(key.node_id for key in granted))
        ]
        if member.log.end_offset == 0 and member.history.kraft_version > 0:
            entities += (kraft_version(member.history.kraft_version), voters.to_record())
        self.append_control(entities)

    def append_control(self, entities: Sequence[ControlEntity]) -> None:
        """Append one batch of control records."""
        records = [NewRecord(record.value, record.key) for record in map(encode_control_record, entities)]
        self._append(records, control=True)

    def propose(self, values: Sequence[bytes]) -> None:
        """Append one batch of records, which is committed as a whole or not at all."""
        self._append([NewRecord(value) for value in values], control=False)

    def _append(self, records: Sequence[NewRecord], *, control: bool) -> None:
        member = self._member
        batch = build_batch(
            records,
            base_offset=member.log.end_offset,
            leader_epoch=member.epoch,
            timestamp_ms=member.now.wall_ms,
            control=control,
        )
        header = read_header(batch)
        member.history.replay(batch, header)
        if member.log.append(header):
            member.effects.append(BeginEpoch(member.epoch))
        member.effects += (Append(batch, header, is_fetched=False), Flush())
        self._wake()

    def poll(self, state: LeaderState) -> None:
        """Do what is due: resign without a majority, answer fetches that waited long enough, remind voters."""
        member = self._member
        now_us = member.now.monotonic_us
        if member.is_due(self._quorum_deadline_us(state)):
            self.resign(state)
            return
        due = [parked for parked in state.parked if parked.deadline_us <= now_us]
        if due:
            state.parked = [parked for parked in state.parked if parked.deadline_us > now_us]
            for parked in due:
                self._reply(state, parked.token, parked.request)
        if now_us >= state.remind_at_us:
            self._remind(state)

    def _remind(self, state: LeaderState) -> None:
        """Notify the due voters of the epoch, and compute when the next one is due: contacts only make that later."""
        member = self._member
        now_us = member.now.monotonic_us
        interval_us = member.settings.begin_epoch_interval_us
        state.remind_at_us = now_us + member.settings.check_quorum_timeout_us
        for voter, replica in state.others(member.history.voters):
            if replica.begin_request is not None:
                continue
            if now_us < replica.next_begin_us(interval_us):
                state.remind_at_us = min(state.remind_at_us, replica.next_begin_us(interval_us))
                continue
            address = voter.find_address(member.listener_name)
            if address is None:
                replica.begin_at_us = member.after_us(interval_us)
            else:
                replica.begin_request = self.new_begin_request(voter.key)
                member.send(voter.key.node_id, address, replica.begin_request)

    def next_deadline_us(self, state: LeaderState) -> int:
        """The time at which :meth:`poll` may have something to do."""
        deadline_us = min(self._quorum_deadline_us(state), state.remind_at_us)
        for parked in state.parked:
            if parked.deadline_us < deadline_us:
                deadline_us = parked.deadline_us
        return deadline_us

    def new_begin_request(self, voter: VoterKey) -> BeginQuorumEpochRequest:
        """The notification of a voter that this node leads."""
        member = self._member
        return BeginQuorumEpochRequest(
            cluster_id=member.cluster_id,
            voter=voter,
            leader_id=member.local.node_id,
            leader_epoch=member.epoch,
            leader_endpoints=member.endpoints,
        )

    def on_begin_response(
        self, state: LeaderState, replica: ReplicaProgress, response: BeginQuorumEpochResponse
    ) -> None:
        """A voter has answered; it knows of the epoch unless it says that it does not."""
        member = self._member
        state.remind_at_us = 0
        replica.begin_request = None
        member.observe(response.leader_epoch, response.leader_id, response.leader_endpoints)
        is_known = response.error is ErrorCode.none
        replica.has_begun = replica.has_begun or is_known
        pause_us = member.settings.begin_epoch_interval_us if is_known else member.settings.retry_backoff_us * 5
        replica.begin_at_us = member.after_us(pause_us)

    def on_begin_failed(self, state: LeaderState, replica: ReplicaProgress) -> None:
        """A voter did not answer."""
        state.remind_at_us = 0
        replica.begin_request = None
        replica.begin_at_us = self._member.after_us(self._member.settings.retry_backoff_us * 5)

    def advance(self, state: LeaderState) -> bool:
        """Commit what a majority holds (RAFT-13), and answer the requests that wait for it (RAFT-14); True if anything was committed."""
        member = self._member
        high_watermark = state.plan_high_watermark(member.history.voters, member.log.flushed_offset)
        if high_watermark is None:
            return False
        if member.high_watermark is not None and high_watermark <= member.high_watermark:
            return False  # voters changed, or nothing did
        state.has_committed = True
        member.commit(high_watermark)
        self._wake()
        return True

    def on_fetch(self, state: LeaderState, request: FetchRequest, token: object) -> bool:
        """Answer a fetch, or let it wait; return True if it may have moved the high watermark."""
        member = self._member
        replica = self._touch(state, request.replica)
        other = member.log.check_position(request.fetch_offset, request.last_fetched_epoch)
        if other is not None:  # such a log says nothing of what the sender holds of this one (KAFKA-13141)
            self._reply_other(state, token, other)
            return False
        replica.on_fetch(member.now.monotonic_us, request.fetch_offset, member.log.end_offset)
        is_committed = self.advance(state)
        if request.fetch_offset < member.log.end_offset or request.max_wait_ms <= 0 or self._has_news(state, request):
            self._reply(state, token, request)
        else:
            deadline_us = member.after_us(request.max_wait_ms * 1000)
            state.parked.append(ParkedFetch(token, request, deadline_us))
        return is_committed

    def on_fetch_snapshot(self, state: LeaderState, request: FetchSnapshotRequest, token: object) -> None:
        """Answer with a piece of a snapshot."""
        self._touch(state, request.replica)
        response = FetchSnapshotResponse(**self._member.describe_leader(), snapshot_id=request.snapshot_id)
        self._member.reply(token, response, ReadSnapshot(request.snapshot_id, request.position, request.max_bytes))

    def describe(self, state: LeaderState) -> QuorumDescription:
        """The quorum as this leader sees it."""
        member = self._member
        now_us = member.now.monotonic_us
        voters = member.history.voters
        local = voters.find(member.local)
        local_key = member.local if local is None else local.key
        replicas = {voter.key: ReplicaDescription(voter.key, -1, None, None) for voter in voters.voters}
        for key, replica in state.replicas.items():
            replicas[key] = ReplicaDescription(
                key, replica.log_end_offset, replica.last_fetch_us, replica.last_caught_up_us
            )
        replicas[local_key] = ReplicaDescription(member.local, member.log.end_offset, now_us, now_us)
        keys = voters.keys()
        return QuorumDescription(
            member.local.node_id,
            member.epoch,
            member.high_watermark,
            voters,
            tuple(replica for key, replica in sorted(replicas.items()) if key in keys),
            tuple(replica for key, replica in sorted(replicas.items()) if key not in keys),
        )

    def resign(self, state: LeaderState) -> None:
        """Lead no more, and notify the voters."""
        member = self._member
        preferred = state.successors(member.history.voters)
        member.become_resigned(
            Resigned(
                deadline_us=member.draw_timeout_us(member.settings.election_timeout_us),
                farewells={key.node_id: Farewell() for key in preferred},
                preferred=preferred,
            )
        )

    def poll_resigned(self, state: Resigned) -> None:
        """Notify voters of the resignation, again if they do not answer."""
        member = self._member
        for node_id, farewell in list(state.farewells.items()):
            voter = member.history.voters.find_node(node_id)
            address = None if voter is None else voter.find_address(member.listener_name)
            if address is None:
                del state.farewells[node_id]
            elif farewell.request is None and member.is_due(farewell.retry_at_us):
                farewell.request = EndQuorumEpochRequest(
                    cluster_id=member.cluster_id,
                    leader_id=member.local.node_id,
                    leader_epoch=member.epoch,
                    preferred_candidates=state.preferred,
                    leader_endpoints=member.endpoints,
                )
                member.send(node_id, address, farewell.request)

    def _quorum_deadline_us(self, state: LeaderState) -> int:
        member = self._member
        return state.quorum_deadline_us(
            member.history.voters, member.now.monotonic_us, member.settings.check_quorum_timeout_us
        )

    def _touch(self, state: LeaderState, key: VoterKey) -> ReplicaProgress:
        """The replica that asked for something, with the time of it; observers that stopped asking are forgotten."""
        member = self._member
        now_us = member.now.monotonic_us
        known = len(state.replicas)
        replica = state.progress(member.history.voters, key)
        replica.on_contact(now_us)
        if len(state.replicas) > known:
            voters = member.history.voters.keys()
            for other, progress in list(state.replicas.items()):
                is_lapsed = now_us - (progress.last_contact_us or now_us) > _OBSERVER_SESSION_US
                if other not in voters and is_lapsed:
                    del state.replicas[other]
        return replica

    def _has_news(self, state: LeaderState, request: FetchRequest) -> bool:
        """True if the sender does not know the high watermark; a sender that does not give one is woken when it changes."""
        committed = self._told_high_watermark(state)
        return committed is not None and request.high_watermark is not None and request.high_watermark < committed

    def _told_high_watermark(self, state: LeaderState) -> int | None:
        return self._member.high_watermark if state.has_committed else None

    def _wake(self) -> None:
        """Answer all fetches that wait: there is something new for each."""
        state = self._member.state
        assert isinstance(state, LeaderState), "only a leader lets fetches wait"
        parked, state.parked = state.parked, []
        for fetch in parked:
            self._reply(state, fetch.token, fetch.request)

    def _reply(self, state: LeaderState, token: object, request: FetchRequest) -> None:
        member = self._member
        response = FetchResponse(
            **member.describe_leader(),
            high_watermark=self._told_high_watermark(state),
            log_start_offset=member.log.start_offset,
        )
        read = None
        if request.fetch_offset < member.log.end_offset:
            read = ReadRecords(request.fetch_offset, member.log.end_offset, request.max_bytes)
        member.reply(token, response, read)

    def _reply_other(self, state: LeaderState, token: object, other: EpochEnd | SnapshotId) -> None:
        member = self._member
        response = FetchResponse(
            **member.describe_leader(),
            high_watermark=self._told_high_watermark(state),
            log_start_offset=member.log.start_offset,
            diverging_epoch=other if isinstance(other, EpochEnd) else None,
            snapshot_id=other if isinstance(other, SnapshotId) else None,
        )
        member.reply(token, response)
