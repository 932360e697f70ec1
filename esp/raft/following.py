"""Following: fetching the leader's log, cutting batches that the leader lacks, finding a lost leader (RAFT-10, RAFT-11, RAFT-32)."""

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError, ErrorCode
from esp.model.ids import LeaderEpoch, NodeId
from esp.ports.network import Address
from esp.raft.effects import Append, BeginEpoch, FinishSnapshot, Flush, Truncate, WriteSnapshotChunk
from esp.raft.elections import Elections
from esp.raft.member import BOOTSTRAP_IDS_START, LeaderContact, Member
from esp.raft.messages import (
    EndQuorumEpochRequest,
    EpochEnd,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Response,
    UpdateVoterRequest,
)
from esp.raft.roles import Follower, SnapshotFetch, Unattached
from esp.raft.snapshot import SnapshotId
from esp.raft.voters import VoterKey, VoterSet
from esp.records.batch import check_batch, read_whole_header


class Following:
    """The part of a member that follows.

    Args:
        member: the state that the parts share.
        elections: asked when the leader is lost.
    """

    def __init__(self, member: Member, elections: Elections) -> None:
        self._member = member
        self._elections = elections
        self._polled = 0
        self._compared: VoterSet | None = None
        self._differs = False
        """True if this node is one of the compared voters, with other endpoints."""

    # Without a leader

    def poll_unattached(self, state: Unattached) -> None:
        """A voter asks for an election in time; any other member asks around for the leader."""
        member = self._member
        if member.may_stand:
            if member.is_due(state.deadline_us) and member.installing is None:
                self._elections.ask(may_return=False)
        elif (poll_at_us := self.next_poll_us(state)) is not None and member.is_due(poll_at_us):
            self._ask_around(state)

    def next_poll_us(self, state: Unattached) -> int | None:
        """The time at which another member is asked for the leader; None: not before another event.

        The leader itself takes the question for a fetch, and so for the word that the log is on the device (RAFT-11).
        """
        return state.poll_at_us if state.in_flight is None and self._is_durable() else None

    def _ask_around(self, state: Unattached) -> None:
        member = self._member
        places = self._places()
        if not places:
            state.poll_at_us = member.after_us(member.settings.fetch_timeout_us)
            return
        node_id, address = places[self._polled % len(places)]
        self._polled += 1
        state.in_flight = self._new_fetch(max_wait_ms=0)
        member.send(node_id, address, state.in_flight)

    def _places(self) -> list[tuple[NodeId, Address]]:
        """The addresses at which to ask for a leader: those of the other voters, and the bootstrap servers of the settings."""
        member = self._member
        places = []
        for voter in member.history.voters.voters:
            address = voter.find_address(member.listener_name)
            if address is not None and voter.key.node_id != member.local.node_id:
                places.append((voter.key.node_id, address))
        for index, address in enumerate(member.bootstrap):
            places.append((NodeId(BOOTSTRAP_IDS_START - index), address))
        return places

    def on_poll_response(self, state: Unattached, response: Response) -> None:
        """A member that was asked for the leader has answered; without one, the next member is asked soon."""
        member = self._member
        member.observe(response.leader_epoch, response.leader_id, response.leader_endpoints)
        if member.state is state:
            self.on_poll_failed(state)

    def on_poll_failed(self, state: Unattached) -> None:
        """The member that was asked knows no leader."""
        state.in_flight = None
        state.poll_at_us = self._member.retry_us(state.failures)
        state.failures += 1

    # With a leader

    def poll(self, state: Follower) -> None:
        """Fetch, if nothing is in the way; give the leader up if it has been silent for too long."""
        member = self._member
        if member.is_due(state.deadline_us) and member.installing is None:
            if member.may_stand:
                self._elections.ask(may_return=not state.is_leader_gone)
            else:
                member.become_unattached(member.epoch)
            return
        address = member.known_address
        assert address is not None, "a follower knows where its leader is"
        if self._can_fetch(state):
            state.in_flight = self._new_fetch_of(state)
            member.send(member.known_leader, address, state.in_flight)
        if state.has_fetched and state.update is None and self._has_moved() and member.is_due(state.update_at_us):
            state.update = UpdateVoterRequest(
                cluster_id=member.cluster_id,
                current_leader_epoch=member.epoch,
                voter=member.local,
                endpoints=member.endpoints,
            )
            member.send(member.known_leader, address, state.update)

    def next_deadline_us(self, state: Follower) -> int:
        """When :meth:`poll` has something to do."""
        deadline_us = state.deadline_us
        if state.in_flight is None and self._is_durable() and not state.is_leader_gone:
            deadline_us = min(deadline_us, state.retry_at_us)
        if state.has_fetched and state.update is None and self._has_moved():
            deadline_us = min(deadline_us, state.update_at_us)
        return deadline_us

    def on_leader_gone(self, state: Follower) -> None:
        """The leader leads no more, that is certain. Voters wait for a moment of random length, so that they do not split the votes."""
        member = self._member
        if state.is_leader_gone:
            return
        if not member.may_stand:
            member.become_unattached(member.epoch)
            return
        self._lose_leader(state, member.after_us(member.random.below(member.settings.first_delay_us)))

    def on_end_of_epoch(self, state: Follower, request: EndQuorumEpochRequest) -> None:
        """The leader resigned; its preferred successor stands at once, the others somewhat later (KIP-595)."""
        member = self._member
        if not member.may_stand:
            member.become_unattached(member.epoch)
            return
        candidates = request.preferred_candidates
        places = [place for place, key in enumerate(candidates) if key.is_same(member.local)]
        delay_us = 2 * member.settings.first_delay_us * (places[0] if places else len(candidates))
        self._lose_leader(state, member.after_us(delay_us))

    def _lose_leader(self, state: Follower, deadline_us: int) -> None:
        state.is_leader_gone = True
        state.deadline_us = min(state.deadline_us, deadline_us)
        self._member.announce()

    def on_fetch_failed(self, state: Follower, *, refused: bool) -> None:
        """The leader did not answer."""
        state.in_flight = None
        if refused:
            self.on_leader_gone(state)
        else:
            self._back_off(state)

    def on_response(self, state: Follower, response: FetchResponse | FetchSnapshotResponse) -> None:
        """The leader has answered the fetch that is in flight."""
        member = self._member
        state.in_flight = None
        member.observe(response.leader_epoch, response.leader_id, response.leader_endpoints)
        if member.state is not state:
            return
        if response.leader_epoch < member.epoch:
            self._back_off(state)
        elif response.error is ErrorCode.none:
            state.has_fetched = True
            self._note_contact(response)
            if not state.is_leader_gone:
                state.deadline_us = member.draw_timeout_us(member.settings.fetch_timeout_us)
            if isinstance(response, FetchResponse):
                self._on_fetched(state, response)
            else:
                self._on_snapshot_piece(state, response)
        elif response.error is ErrorCode.not_leader_or_follower:
            self.on_leader_gone(state)  # it resigned, or was started again: it never leads this epoch again (RAFT-5)
        else:
            state.snapshot = None
            self._back_off(state)

    def on_update_done(self, state: Follower) -> None:
        """The leader has answered the update of the endpoints, or has not: if the record does not follow, the update is sent again."""
        state.update = None
        state.update_at_us = self._member.after_us(self._member.settings.fetch_timeout_us)

    def on_snapshot_installed(self, snapshot_id: SnapshotId, voters: VoterSet, kraft_version: int) -> None:
        """The log is empty and begins where the snapshot ends; all that the snapshot holds is committed."""
        member = self._member
        assert member.installing == snapshot_id, f"{snapshot_id} was not to be installed"
        member.installing = None
        member.log.restart_at(snapshot_id)
        member.history.restart_at(snapshot_id, voters, kraft_version)
        if member.high_watermark is None or member.high_watermark < snapshot_id.end_offset:
            member.commit(snapshot_id.end_offset)

    def on_snapshot_refused(self, snapshot_id: SnapshotId) -> None:
        """The fetched snapshot was corrupt. The leader's own copy may have rotted: it is not fetched again without a pause."""
        member = self._member
        assert member.installing == snapshot_id, f"{snapshot_id} was not to be installed"
        member.installing = None
        if isinstance(member.state, Follower):
            member.state.retry_at_us = member.after_us(member.settings.begin_epoch_interval_us)

    def _is_durable(self) -> bool:
        """True if a fetch may say that everything before it is on the device; a node that never votes does not say it (RAFT-11)."""
        return self._member.log.is_flushed or not self._member.has_controller_role

    def _can_fetch(self, state: Follower) -> bool:
        member = self._member
        return (
            state.in_flight is None
            and not state.is_leader_gone
            and member.installing is None
            and member.is_due(state.retry_at_us)
            and self._is_durable()
        )

    def _new_fetch_of(self, state: Follower) -> FetchRequest | FetchSnapshotRequest:
        member = self._member
        if state.snapshot is None:
            return self._new_fetch(max_wait_ms=member.settings.fetch_max_wait_ms)
        return FetchSnapshotRequest(
            cluster_id=member.cluster_id,
            replica=self._replica_key(),
            current_leader_epoch=member.epoch,
            snapshot_id=state.snapshot.snapshot_id,
            position=state.snapshot.position,
            max_bytes=member.settings.fetch_max_bytes,
        )

    def _new_fetch(self, *, max_wait_ms: int) -> FetchRequest:
        member = self._member
        return FetchRequest(
            cluster_id=member.cluster_id,
            replica=self._replica_key(),
            current_leader_epoch=member.epoch,
            fetch_offset=member.log.end_offset,
            last_fetched_epoch=member.log.last_epoch,
            high_watermark=member.high_watermark,
            max_wait_ms=max_wait_ms,
            max_bytes=member.settings.fetch_max_bytes,
        )

    def _replica_key(self) -> VoterKey:
        return self._member.local

    def _has_moved(self) -> bool:
        """True if the newest voters' record names other endpoints than this voter has."""
        member = self._member
        voters = member.history.voters
        if voters is not self._compared:
            self._compared = voters
            voter = voters.find(member.local)
            self._differs = voter is not None and member.endpoints not in {(), voter.endpoints}
        return self._differs and member.history.kraft_version > 0

    def _back_off(self, state: Follower) -> None:
        state.retry_at_us = self._member.after_us(self._member.settings.retry_backoff_us)

    def _on_fetched(self, state: Follower, response: FetchResponse) -> None:
        member = self._member
        if response.snapshot_id is not None:
            if response.snapshot_id.end_offset < member.kept_offset:
                member.fail(
                    f"the leader's snapshot ends at {response.snapshot_id.end_offset}, but everything below"
                    f" {member.kept_offset} is committed here (RAFT-10)"
                )
                return
            state.snapshot = SnapshotFetch(response.snapshot_id)
        elif response.diverging_epoch is not None:
            self._truncate(state, response.diverging_epoch)
        else:
            if not self._append(response.records):
                self._back_off(state)
            self._advance(response.high_watermark)

    def _note_contact(self, response: FetchResponse | FetchSnapshotResponse) -> None:
        """The leader has answered; a piece of a snapshot says nothing of what is committed by now."""
        member, before = self._member, self._member.leader_contact
        high_watermark = None
        if isinstance(response, FetchResponse):
            high_watermark = response.high_watermark
        elif before is not None and before.node_id == member.known_leader:
            high_watermark = before.high_watermark
        member.leader_contact = LeaderContact(member.known_leader, member.now.monotonic_us, high_watermark)

    def _truncate(self, state: Follower, leader_end: EpochEnd) -> None:
        """Cut batches that the leader does not have (TRUNC-4); a later answer may ask for more."""
        member = self._member
        log = member.log
        own_end = log.find_end_of(leader_end.epoch)
        if own_end is None:
            end_offset = min(leader_end.end_offset, log.end_offset)
        elif own_end.epoch == leader_end.epoch:
            end_offset = min(own_end.end_offset, leader_end.end_offset)
        else:
            end_offset = own_end.end_offset
        if end_offset < member.kept_offset:
            member.fail(
                f"the leader's log diverges from this one at {end_offset}, but everything below {member.kept_offset} is committed here"
                " (RAFT-10)"
            )
        elif end_offset < log.end_offset:
            log.truncate_to(end_offset)
            member.history.truncate_to(end_offset)
            member.effects.append(Truncate(end_offset))
        else:
            self._back_off(state)

    def _append(self, records: Buffer) -> bool:
        """Append the whole and right batches of an answer, up to the first that is not (RAFT-17); return True if all were right."""
        member = self._member
        log = member.log
        end_offset = log.end_offset
        left = memoryview(records)
        try:
            while left:
                header = read_whole_header(left)
                batch = left[: header.size]
                check_batch(batch, header)
                if header.base_offset != log.end_offset or not log.last_epoch <= header.leader_epoch <= member.epoch:
                    raise CorruptionError(
                        f"batch at {header.base_offset} of epoch {header.leader_epoch} where the log ends at"
                        f" {log.end_offset} with epoch {log.last_epoch}, in epoch {member.epoch}"
                    )
                member.history.replay(batch, header)
                if log.append(header):
                    member.effects.append(BeginEpoch(LeaderEpoch(header.leader_epoch)))
                member.effects.append(Append(batch, header, is_fetched=True))
                left = left[header.size :]
        except CorruptionError:
            return False
        finally:
            if log.end_offset > end_offset and member.has_controller_role:
                member.effects.append(Flush())
        return True

    def _advance(self, leader_high_watermark: int | None) -> None:
        """Commit up to the leader's high watermark, as far as this log goes (HW-7)."""
        member = self._member
        if leader_high_watermark is None:
            return
        high_watermark = min(leader_high_watermark, member.log.end_offset)
        if member.high_watermark is None or high_watermark > member.high_watermark:
            member.commit(high_watermark)

    def _on_snapshot_piece(self, state: Follower, response: FetchSnapshotResponse) -> None:
        member = self._member
        snapshot = state.snapshot
        if snapshot is None or (response.snapshot_id, response.position) != (snapshot.snapshot_id, snapshot.position):
            state.snapshot = None
            self._back_off(state)
            return
        member.effects.append(WriteSnapshotChunk(snapshot.snapshot_id, snapshot.position, response.data))
        snapshot.position += len(response.data)
        if snapshot.position >= response.size:
            state.snapshot = None
            member.installing = snapshot.snapshot_id
            member.effects.append(FinishSnapshot(snapshot.snapshot_id))
        elif not response.data:
            self._back_off(state)
