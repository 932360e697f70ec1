"""Voters along the log."""

from esp.raft.snapshot import SnapshotId
from esp.raft.voter_history import VoterHistory
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.schemas.control_records import encode_control_record, kraft_version
from tests.unit.raft.members import key, voter_set


def _replay(history, offset, *entities, control=True):
    records = [NewRecord(record.value, record.key) for record in map(encode_control_record, entities)]
    batch = build_batch(records, base_offset=offset, leader_epoch=1, control=control)
    history.replay(batch, read_header(batch))


def test_the_newest_record_counts_and_a_cut_restores_the_one_before():
    history = VoterHistory(voter_set(), 0)
    _replay(history, 0, kraft_version(1), voter_set(1).to_record())
    _replay(history, 7, voter_set(1, 2).to_record())
    assert (history.voters, history.kraft_version, history.end_offset) == (voter_set(1, 2), 1, 8)
    history.truncate_to(8)
    assert history.voters == voter_set(1, 2)
    history.truncate_to(7)
    assert (history.voters, history.end_offset) == (voter_set(1), 2)  # RAFT-40
    history.truncate_to(0)
    assert (history.voters, history.kraft_version) == (voter_set(), 0)


def test_records_that_are_not_control_records_name_no_voters():
    history = VoterHistory(voter_set(1), 1)
    _replay(history, 0, voter_set(1, 2).to_record(), control=False)
    assert history.voters == voter_set(1)


def test_a_snapshot_replaces_the_history():
    history = VoterHistory(voter_set(1), 1)
    _replay(history, 3, voter_set(1, 2).to_record())
    history.restart_at(SnapshotId(40, 2), voter_set(5), 1)
    assert (history.voters, history.end_offset) == (voter_set(5), 40)


def test_a_voter_is_known_by_its_disk_and_a_static_one_by_its_id():
    assert voter_set(1, 2).find(key(2)) is not None
    assert voter_set(1, 2).find(key(2, disk=1)) is None  # RAFT-45
