"""Fetching and committing: what a follower says, what its leader makes of it (RAFT-7, RAFT-10 to RAFT-17, RAFT-32)."""

import pytest
from msgspec.structs import replace

from esp.model.errors import ErrorCode
from esp.model.ids import LeaderEpoch, NodeId
from esp.raft.effects import (
    Append,
    BeginEpoch,
    Fatal,
    FinishSnapshot,
    Flush,
    ReadRecords,
    Reply,
    Truncate,
    WriteSnapshotChunk,
)
from esp.raft.member import LeaderContact
from esp.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EpochEnd,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from esp.raft.roles import Role
from esp.raft.snapshot import SnapshotId
from esp.records.builder import NewRecord, build_batch
from esp.schemas.control_records import encode_control_record
from tests.unit.raft.members import (
    CLUSTER,
    address,
    at,
    committed,
    deadline,
    elect,
    endpoints,
    fetch,
    fetched,
    key,
    log,
    member,
    of_type,
    reply,
    sent,
    voter_set,
)


def _batch(offset, epoch, count=1):
    records = [NewRecord(b"%d" % (offset + place)) for place in range(count)]
    return build_batch(records, base_offset=offset, leader_epoch=epoch, timestamp_ms=1)


def _follower(outline=None, *, epoch=3, role=True, number=1, committed=0):
    """A follower of node 2, and its first fetch."""
    node = member(number, log=outline or log(5, (3, 0)), role=role, committed=committed)
    effects = node.start(at(0))
    if role:
        begin = BeginQuorumEpochRequest(
            cluster_id=CLUSTER,
            voter=key(number),
            leader_id=NodeId(2),
            leader_epoch=LeaderEpoch(epoch),
            leader_endpoints=endpoints(2),
        )
        effects = node.on_request(at(0.1), begin, "begin")
        return node, sent(effects, FetchRequest)[2]
    (asked,) = sent(effects, FetchRequest).values()
    effects = node.on_response(at(0.1), next(iter(sent(effects, FetchRequest))), asked, fetched(epoch))
    return node, sent(effects, FetchRequest)[2]


def _answer(node, request, **fields):
    return node.on_response(at(0.2), NodeId(2), request, fetched(node.epoch, **fields))


def _leader(end=0, *epochs):
    node = member(1, log=log(end, *epochs))
    elect(node)
    return node


# The leader


def test_a_leader_commits_what_it_and_a_follower_have_flushed():
    node = _leader()
    assert committed(node.on_flushed(at(1), 3)) == []
    assert committed(node.on_request(at(1), fetch(1, 0, 0), "a")) == []
    assert committed(node.on_request(at(1), fetch(1, 3, 1), "b")) == [3]


def test_a_leader_does_not_count_what_it_has_not_flushed():
    node = _leader()
    assert committed(node.on_request(at(1), fetch(1, 3, 1), "a")) == []
    assert committed(node.on_flushed(at(1), 3)) == [3]  # RAFT-12


def test_a_record_of_an_earlier_epoch_is_committed_by_one_of_this_epoch_only():
    node = _leader(10, (1, 0))
    node.on_flushed(at(1), 11)
    epoch = node.epoch
    assert committed(node.on_request(at(1), fetch(epoch, 10, 1), "a")) == []  # RAFT-13
    assert committed(node.on_request(at(1), fetch(epoch, 11, epoch), "b")) == [11]


def test_the_high_watermark_is_told_to_nobody_before_the_epoch_has_committed():
    node = member(1, log=log(10, (1, 5), start=5, start_epoch=1, snapshot=SnapshotId(5, 1)))
    elect(node)
    assert node.high_watermark == 5
    effects = node.on_request(at(1), fetch(node.epoch, 10, 1), "a")
    assert reply(effects, "a").high_watermark is None  # RAFT-13, KAFKA-12619


def test_observers_and_voters_of_another_disk_commit_nothing():
    node = _leader()
    node.on_flushed(at(1), 3)
    assert committed(node.on_request(at(1), fetch(1, 3, 1, 9), "a")) == []
    assert committed(node.on_request(at(1), fetch(1, 3, 1, 2, disk=1), "b")) == []  # RAFT-45
    assert committed(node.on_request(at(1), fetch(1, 3, 1, 2), "c")) == [3]


def test_a_diverging_fetch_is_told_so_and_counts_for_nothing():
    node = _leader(10, (1, 0), (2, 4))
    epoch = node.epoch
    node.on_flushed(at(1), 11)
    effects = node.on_request(at(1), fetch(epoch, 11, 1), "a")
    assert reply(effects, "a").diverging_epoch == EpochEnd(1, 4)
    assert committed(effects) == []  # TRUNC-3.6, KAFKA-13141
    assert committed(node.on_flushed(at(1), 11)) == []
    assert reply(node.on_request(at(1), fetch(epoch, 99, 2), "b"), "b").diverging_epoch == EpochEnd(2, 10)


def test_a_fetch_waits_until_there_is_something_new():
    node = _leader()
    effects = node.on_request(at(1), fetch(1, 3, 1), "a")
    assert not of_type(effects, Reply)
    effects = node.propose(at(1.1), [b"value"])
    (answer,) = of_type(effects, Reply)
    assert answer.read == ReadRecords(3, 4, 1_000_000)
    assert effects.index(answer) > effects.index(of_type(effects, Append)[0])


def test_a_fetch_is_answered_empty_when_it_has_waited_long_enough():
    node = _leader()
    node.on_request(at(1), fetch(1, 3, 1, wait_ms=500), "a")
    assert node.next_deadline_us <= 1_500_000
    assert not of_type(node.on_tick(at(1.4)), Reply)
    effects = node.on_tick(at(1.5))
    assert of_type(effects, Reply)[0].read is None


def test_a_commit_wakes_the_fetches_that_wait():
    node = _leader()
    node.on_flushed(at(1), 3)
    node.on_request(at(1), fetch(1, 3, 1, 9), "observer")
    effects = node.on_request(at(1), fetch(1, 3, 1, 2), "voter")
    assert reply(effects, "observer").high_watermark == 3  # RAFT-14


def test_who_does_not_know_what_is_committed_is_answered_at_once():
    node = _leader()
    node.on_flushed(at(1), 3)
    node.on_request(at(1), fetch(1, 3, 1, 2), "a")
    assert reply(node.on_request(at(1), fetch(1, 3, 1, 3, high_watermark=0), "b"), "b").high_watermark == 3
    assert not of_type(node.on_request(at(1), fetch(1, 3, 1, 9, high_watermark=3), "c"), Reply)


def test_waiting_fetches_are_refused_when_leadership_is_lost():
    node = _leader()
    node.on_request(at(1), fetch(1, 3, 1), "a")
    assert reply(node.resign(at(1.1)), "a").error is ErrorCode.not_leader_or_follower


@pytest.mark.parametrize("impossible", [fetch(-1, 3, 1), fetch(1, -1, 1), fetch(1, 3, -1)])
def test_a_fetch_from_where_no_log_ends_is_refused(impossible):
    assert reply(_leader().on_request(at(1), impossible, "token")).error is ErrorCode.invalid_request


@pytest.mark.parametrize(("epoch", "error"), [(0, ErrorCode.fenced_leader_epoch), (2, ErrorCode.unknown_leader_epoch)])
def test_a_fetch_of_another_epoch_is_refused(epoch, error):
    assert reply(_leader().on_request(at(1), fetch(epoch, 0, 0), "a"), "a").error is error


def test_requests_of_another_cluster_are_refused():
    response = reply(_leader().on_request(at(1), fetch(1, 0, 0, cluster="other"), "a"), "a")
    assert response.error is ErrorCode.inconsistent_cluster_id  # RAFT-15


def test_a_request_may_name_no_cluster():
    assert reply(_leader().on_request(at(1), fetch(1, 0, 0, cluster=None), "a"), "a").error is ErrorCode.none


def test_a_leader_without_a_majority_that_fetches_resigns():
    node = _leader()
    for tick in range(30):
        node.on_request(at(0.5 + tick * 0.5), fetch(1, 3, 1, 9), "observer")
        node.on_tick(at(0.5 + tick * 0.5))
        if node.role is not Role.LEADER:
            break
    assert node.role is Role.RESIGNED  # RAFT-7, KAFKA-15489
    assert 0.5 + tick * 0.5 == 3.5


def test_a_leader_with_a_majority_that_fetches_leads_on():
    node = _leader()
    for tick in range(60):
        node.on_request(at(0.5 + tick), fetch(1, 3, 1, 2), "voter")
        node.on_tick(at(0.5 + tick))
    assert node.role is Role.LEADER


def test_voters_that_do_not_fetch_are_reminded():
    node = member(1)
    requests = sent(elect(node), BeginQuorumEpochRequest)
    answer = replace(reply(member(2).on_request(at(1), requests[2], "t"), "t"), leader_epoch=LeaderEpoch(1))
    node.on_response(at(0.6), NodeId(2), requests[2], answer)
    assert not sent(node.on_tick(at(1.0)), BeginQuorumEpochRequest)
    assert set(sent(node.on_tick(at(1.7)), BeginQuorumEpochRequest)) == {2}  # RAFT-9, KAFKA-16536


def test_a_voter_that_stops_fetching_is_reminded():
    node = member(1)
    for peer, asked in sent(elect(node), BeginQuorumEpochRequest).items():
        node.on_send_failed(at(0.5), NodeId(peer), asked, refused=False)
    node.on_request(at(0.55), fetch(1, 3, 1, 2), "voter")
    assert set(sent(node.on_tick(at(0.7)), BeginQuorumEpochRequest)) == {3}
    assert not sent(node.on_tick(at(1.5)), BeginQuorumEpochRequest)
    assert set(sent(node.on_tick(at(1.7)), BeginQuorumEpochRequest)) == {2}  # RAFT-9


def test_a_leader_that_shuts_down_names_the_most_complete_successor_first():
    node = _leader()
    node.on_request(at(1), fetch(1, 3, 1, 3), "a")
    effects = node.shutdown(at(1))
    requests = sent(effects, EndQuorumEpochRequest)
    assert requests[2].preferred_candidates == (key(3), key(2))
    assert not node.has_ended
    for peer, request in requests.items():
        answer = reply(member(peer).on_request(at(1), request, "t"), "t")
        node.on_response(at(1), NodeId(peer), request, replace(answer, leader_epoch=LeaderEpoch(1)))
    assert node.has_ended
    assert node.next_deadline_us is None


# The follower


def test_a_voter_fetches_again_only_after_its_flush():
    node, request = _follower()
    effects = _answer(node, request, records=_batch(5, 3) + _batch(6, 3, 2))
    assert [append.header.base_offset for append in of_type(effects, Append)] == [5, 6]
    assert of_type(effects, Flush)
    assert not sent(effects, FetchRequest)  # RAFT-11, KAFKA-10533
    assert not sent(node.on_flushed(at(0.3), 6), FetchRequest)
    assert sent(node.on_flushed(at(0.3), 8), FetchRequest)[2].fetch_offset == 8


def test_a_broker_fetches_again_at_once():
    node, request = _follower(role=False)
    effects = _answer(node, request, records=_batch(5, 3))
    assert not of_type(effects, Flush)
    assert sent(effects, FetchRequest)[2].fetch_offset == 6


def test_a_broker_tries_again_soon_after_a_fetch_that_failed():
    node, request = _follower(role=False)
    request = sent(_answer(node, request, records=_batch(5, 3)), FetchRequest)[2]
    node.on_send_failed(at(0.3), NodeId(2), request, refused=False)
    assert node.next_deadline_us == 320_000
    assert sent(node.on_tick(deadline(node)), FetchRequest)[2].fetch_offset == 6


def test_the_first_batch_of_an_epoch_begins_it():
    node, request = _follower(epoch=4)
    effects = _answer(node, request, records=_batch(5, 3) + _batch(6, 4))
    kinds = [effect for effect in effects if isinstance(effect, Append | BeginEpoch)]
    assert isinstance(kinds[1], BeginEpoch)
    assert len(kinds) == 3  # LOG-8


def test_a_follower_commits_what_its_leader_has_committed_as_far_as_it_has_it():
    node, request = _follower()
    assert committed(_answer(node, request, records=_batch(5, 3), high_watermark=99)) == [6]  # HW-7


def test_the_high_watermark_of_a_follower_never_falls():
    node, request = _follower()
    request = sent(_answer(node, request, high_watermark=4), FetchRequest)[2]
    assert committed(_answer(node, request, high_watermark=3)) == []
    assert node.high_watermark == 4


@pytest.mark.parametrize(
    "damaged",
    [
        _batch(5, 3)[:-1],
        _batch(5, 3)[:-1] + b"x",
        _batch(6, 3),
        _batch(4, 3),
        _batch(5, 2),
        _batch(5, 4),
        b"short",
    ],
)
def test_records_that_are_not_right_are_not_appended_and_fetched_again_later(damaged):
    node, request = _follower()
    effects = _answer(node, request, records=damaged)
    assert not of_type(effects, Append)  # RAFT-17
    assert not sent(effects, FetchRequest)
    assert sent(node.on_tick(deadline(node)), FetchRequest)[2].fetch_offset == 5


def test_batches_before_a_damaged_one_are_kept():
    node, request = _follower()
    effects = _answer(node, request, records=_batch(5, 3) + _batch(6, 3)[:-1] + b"x")
    assert [append.header.base_offset for append in of_type(effects, Append)] == [5]  # LOG-6


@pytest.mark.parametrize(
    ("diverging", "cut"),
    [(EpochEnd(2, 6), 6), (EpochEnd(2, 9), 8), (EpochEnd(1, 3), 3), (EpochEnd(1, 7), 4), (EpochEnd(0, 2), 0)],
)
def test_a_follower_cuts_what_its_leader_has_not(diverging, cut):
    node, request = _follower(log(10, (1, 0), (2, 4), (3, 8)), epoch=4)
    effects = _answer(node, request, diverging_epoch=diverging, high_watermark=9)
    assert of_type(effects, Truncate) == [Truncate(cut)]
    assert committed(effects) == []  # TRUNC-4: only a later answer moves it
    assert sent(effects, FetchRequest)[2].fetch_offset == cut


def test_a_cut_below_the_high_watermark_ends_the_node():
    node, request = _follower()
    effects = _answer(node, request, high_watermark=5)
    request = sent(effects, FetchRequest)[2]
    effects = _answer(node, request, diverging_epoch=EpochEnd(3, 4))
    assert of_type(effects, Fatal)  # RAFT-10, KAFKA-12460
    assert not of_type(effects, Truncate)


@pytest.mark.parametrize("snapshot_id", [None, SnapshotId(3, 2)])
def test_what_was_committed_before_a_restart_is_not_cut_either(snapshot_id):
    answer = {"snapshot_id": snapshot_id} if snapshot_id else {"diverging_epoch": EpochEnd(3, 3)}
    for known, is_kept in ((4, True), (3, False)):
        node, request = _follower(committed=known)
        effects = _answer(node, request, **answer)
        assert bool(of_type(effects, Fatal)) is is_kept  # RAFT-10
        assert bool(of_type(effects, Truncate) or sent(effects, FetchSnapshotRequest)) is not is_kept
        assert node.high_watermark is None, "the leader has not said it yet"


def test_voters_that_are_cut_away_count_no_more():
    node, request = _follower()
    record = encode_control_record(voter_set(1, 2, 3, 4).to_record())
    batch = build_batch([NewRecord(record.value, record.key)], base_offset=5, leader_epoch=3, control=True)
    _answer(node, request, records=batch)
    assert len(node.voters.voters) == 4
    request = sent(node.on_flushed(at(0.2), 6), FetchRequest)[2]
    _answer(node, request, diverging_epoch=EpochEnd(3, 5))
    assert node.voters == voter_set(1, 2, 3)  # RAFT-40


def test_a_late_answer_to_an_older_fetch_is_dropped():
    node, old = _follower()
    node.on_send_failed(at(0.2), NodeId(2), old, refused=False)
    request = sent(node.on_tick(deadline(node)), FetchRequest)[2]
    assert request is not old
    assert node.on_response(at(0.3), NodeId(2), old, fetched(3, records=_batch(5, 3))) == []  # LOG-5


def test_an_observer_looks_for_the_leader_among_the_voters():
    node = member(9, role=False)
    asked = sent(node.start(at(0)), FetchRequest)
    ((peer, request),) = asked.items()
    effects = node.on_response(at(0.1), peer, request, fetched(0, -1, error=ErrorCode.not_leader_or_follower))
    assert not sent(effects, FetchRequest)
    ((other, request),) = sent(node.on_tick(deadline(node)), FetchRequest).items()
    assert other != peer
    effects = node.on_response(at(0.2), other, request, fetched(4, 3, error=ErrorCode.fenced_leader_epoch))
    assert (node.role, node.leader_id, node.leader_address) == (Role.FOLLOWER, 3, address(3))


def test_a_controller_asks_for_the_leader_when_its_log_is_flushed():
    """RAFT-11: the leader takes the question for a fetch; the new voter would count for what a loss of power may take."""
    node = member(4, log=log(5, (3, 0), flushed=3))
    effects = node.start(at(0))
    assert of_type(effects, Flush)
    assert not sent(effects, FetchRequest)
    assert node.next_deadline_us is None
    assert not sent(node.on_flushed(at(0.1), 4), FetchRequest)
    (request,) = sent(node.on_flushed(at(0.2), 5), FetchRequest).values()
    assert request.fetch_offset == 5


def test_a_broker_asks_for_the_leader_at_once():
    node = member(4, log=log(5, (3, 0), flushed=3), role=False)
    assert sent(node.start(at(0)), FetchRequest)


# Snapshots


def test_a_follower_before_the_log_start_is_told_a_snapshot():
    node = member(1, log=log(20, (3, 10), start=10, start_epoch=2, snapshot=SnapshotId(10, 2)))
    elect(node)
    for offset, epoch in ((0, 0), (9, 2), (10, 1), (15, 1)):
        response = reply(node.on_request(at(1), fetch(node.epoch, offset, epoch), "a"), "a")
        assert response.snapshot_id == SnapshotId(10, 2)  # RAFT-32
    assert reply(node.on_request(at(1), fetch(node.epoch, 10, 2), "b"), "b").snapshot_id is None


def test_a_snapshot_is_fetched_by_pieces_and_replaces_the_log():
    node, request = _follower()
    snapshot_id = SnapshotId(40, 2)
    effects = _answer(node, request, snapshot_id=snapshot_id)
    for position in (0, 4):
        request = sent(effects, FetchSnapshotRequest)[2]
        assert request.position == position
        piece = FetchSnapshotResponse(
            leader_epoch=LeaderEpoch(3), snapshot_id=snapshot_id, size=8, position=position, data=b"four"
        )
        effects = node.on_response(at(0.3), NodeId(2), request, piece)
        assert of_type(effects, WriteSnapshotChunk) == [WriteSnapshotChunk(snapshot_id, position, b"four")]
    assert of_type(effects, FinishSnapshot) == [FinishSnapshot(snapshot_id)]
    assert not sent(effects, FetchRequest)
    assert not sent(node.on_tick(at(30)), FetchRequest)
    assert node.role is Role.FOLLOWER  # nobody stands for election while its log is replaced
    effects = node.on_snapshot_installed(at(30), snapshot_id, voter_set(1, 2), 1)
    assert (node.high_watermark, node.log_end_offset, len(node.voters.voters)) == (40, 40, 2)


def test_a_snapshot_that_was_corrupt_is_fetched_again():
    node, request = _follower()
    effects = _answer(node, request, snapshot_id=SnapshotId(40, 2))
    request = sent(effects, FetchSnapshotRequest)[2]
    piece = FetchSnapshotResponse(
        leader_epoch=LeaderEpoch(3), snapshot_id=SnapshotId(40, 2), size=4, position=0, data=b"four"
    )
    node.on_response(at(0.3), NodeId(2), request, piece)
    assert not sent(node.on_snapshot_refused(at(0.4), SnapshotId(40, 2)), FetchRequest)
    assert not sent(node.on_tick(at(1.3)), FetchRequest)  # the leader's copy may have rotted, and be large
    assert sent(node.on_tick(deadline(node)), FetchRequest)[2].fetch_offset == 5
    assert node.role is Role.FOLLOWER


def test_a_snapshot_beyond_what_is_committed_is_a_bug():
    node = _leader()
    with pytest.raises(AssertionError, match="RAFT-30"):
        node.on_snapshot_written(at(1), SnapshotId(3, 1), 3)


def test_the_last_answer_of_a_leader_is_remembered_also_when_it_is_lost():
    node, request = _follower()
    assert node.leader_contact is None
    _answer(node, request)
    node.on_tick(at(60))
    assert node.role is not Role.FOLLOWER
    assert node.leader_contact == LeaderContact(NodeId(2), at(0.2).monotonic_us)


def test_a_member_is_behind_until_it_has_what_its_leader_says_is_committed():
    node, request = _follower()
    _answer(node, request, high_watermark=40)
    contact = node.leader_contact
    assert contact.high_watermark == 40
    now_us = at(0.7).monotonic_us
    assert not contact.is_caught_up(39, now_us, 1_000_000)
    assert contact.is_caught_up(40, now_us, 1_000_000)
    assert not contact.is_caught_up(40, now_us, 400_000), "it was heard too long ago"
    assert not LeaderContact(NodeId(2), now_us).is_caught_up(40, now_us, 1_000_000), "it does not know either"


def test_a_snapshot_says_nothing_of_what_is_committed_by_now():
    node, request = _follower()
    effects = _answer(node, request, snapshot_id=SnapshotId(40, 2), high_watermark=90)
    request = sent(effects, FetchSnapshotRequest)[2]
    piece = FetchSnapshotResponse(
        leader_epoch=LeaderEpoch(3), snapshot_id=SnapshotId(40, 2), size=8, position=0, data=b"four"
    )
    node.on_response(at(0.3), NodeId(2), request, piece)
    assert node.leader_contact == LeaderContact(NodeId(2), at(0.3).monotonic_us, 90)
