"""The state machine: what is proposed is known at once and seen when it is committed; what is lost is taken back, transactions included."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.broker.raft.loader import MetadataLoader, encode_snapshot
from esp.controller.image import EMPTY_IMAGE, ClusterImage
from esp.controller.replay import MetadataReplay
from esp.model.ids import LeaderEpoch
from esp.records.builder import NewRecord, build_batch
from esp.schemas.metadata_frames import decode_record, encode_record
from esp.schemas.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)


class FatalError(BaseException):
    """The node ended itself."""


class Host:
    def fatal(self, reason):
        raise FatalError(reason)


class Cpu:
    """Threads: what is to run in one is done after a turn of the loop, in which the test may look around."""

    def __init__(self):
        self.between = lambda: None

    async def run(self, function, *args):
        await asyncio.sleep(0)
        self.between()
        return function(*args)


class Raft:
    """A log in memory; the test says what is committed."""

    def __init__(self):
        self.is_active = True
        self.epoch = LeaderEpoch(1)
        self.log = []

    @property
    def next_offset(self):
        return len(self.log)

    def propose(self, values):
        self.log += values


def _loader(cpu=None):
    raft = Raft()
    loader = MetadataLoader(SimpleNamespace(host=Host(), cpu=cpu or Cpu()))
    changes = []
    loader.subscribe(lambda image, delta: changes.append((image, delta)))
    return loader, raft, changes


def _batch(records, base_offset=0):
    return build_batch(
        [NewRecord(encode_record(record)) for record in records],
        base_offset=base_offset,
        leader_epoch=1,
        timestamp_ms=0,
    )


def _load(loader, records, end_offset, epoch):
    asyncio.run(loader.load([_batch(records)], end_offset, epoch))


def _feature(name="x", level=1):
    return FeatureLevelRecord(name=name, feature_level=level)


def _config(value):
    return ConfigRecord(resource_type=4, resource_name="1", name="a", value=value)


def test_a_proposal_is_known_at_once_and_seen_when_it_is_committed():
    loader, raft, changes = _loader()
    loader.propose(raft, [_feature()])
    assert loader.newest.features == {"x": 1}
    assert loader.image is EMPTY_IMAGE
    loader.propose(raft, [_config("5")])
    loader.commit_proposed(1)
    assert loader.image.features == {"x": 1}
    assert loader.image.broker_configs == {}
    assert loader.image.offset == 0
    loader.commit_proposed(2)
    assert [image.offset for image, _ in changes] == [0, 1]
    assert changes[1][1].changed_broker_configs == {"1"}
    assert loader.newest is loader.image


def test_a_late_subscriber_is_told_everything():
    loader, raft, _ = _loader()
    loader.propose(raft, [_config("5")])
    loader.commit_proposed(1)
    loader.propose(raft, [_feature()])
    loader.commit_proposed(2)
    late = []
    loader.subscribe(lambda image, delta: late.append((image, delta)))
    assert late[0][0] is loader.image
    assert late[0][1].changed_broker_configs == {"1"}


def test_only_the_active_controller_proposes():
    loader, raft, _ = _loader()
    raft.is_active = False
    with pytest.raises(AssertionError):
        loader.propose(raft, [NoOpRecord()])


def test_a_decision_that_cannot_be_applied_ends_the_node():
    loader, raft, _ = _loader()
    with pytest.raises(FatalError, match="cannot be applied"):
        loader.propose(raft, [EndTransactionRecord()])


@pytest.mark.parametrize(
    "batch",
    [
        _batch([EndTransactionRecord()]),
        build_batch([NewRecord(bytes.fromhex("01630000"))], base_offset=0, leader_epoch=1, timestamp_ms=0),
        build_batch([NewRecord(None)], base_offset=0, leader_epoch=1, timestamp_ms=0),
    ],
    ids=["impossible", "unknown", "empty"],
)
def test_a_committed_record_that_cannot_be_applied_ends_the_node(batch):
    """RAFT-23"""
    loader, _, changes = _loader()
    with pytest.raises(FatalError, match="cannot be applied"):
        loader.replay_committed(batch)
    assert changes == []


def test_a_snapshot_replaces_everything_and_is_told_as_a_change():
    """RAFT-33"""
    loader, _, changes = _loader()
    loader.replay_committed(_batch([_config("5"), _feature("old", 3)]))
    loader.publish(2, LeaderEpoch(1))
    other, _, _ = _loader()
    other.replay_committed(_batch([_feature("new", 2)], 10))
    other.publish(11, LeaderEpoch(4))
    values = [decode_record(value) for value in encode_snapshot(other.image)]
    _load(loader, values, 11, LeaderEpoch(4))
    assert loader.image == other.image
    assert changes[-1][1].changed_broker_configs == {"1"}
    loader.replay_committed(_batch([_feature("newer", 1)], 11))
    loader.publish(12, LeaderEpoch(4))
    assert set(loader.image.features) == {"new", "newer"}


def test_the_first_snapshot_is_seen_only_with_what_follows_it():
    loader, _, changes = _loader()
    _load(loader, [_feature()], 5, LeaderEpoch(1))
    assert changes == []
    loader.publish(5, LeaderEpoch(1))
    assert changes[0][0].features == {"x": 1}


def test_nothing_of_a_snapshot_is_seen_while_it_is_loaded():
    """RAFT-33"""
    cpu = Cpu()
    loader, _, changes = _loader(cpu)
    loader.replay_committed(_batch([_feature("old")]))
    loader.publish(1, LeaderEpoch(1))
    before, seen = loader.image, []
    cpu.between = lambda: seen.append((loader.image, loader.newest, loader.snapshot_source(), len(changes)))
    _load(loader, [_feature("new"), _config("5")], 5, LeaderEpoch(2))
    assert seen == [(before, before, before, 1)]
    assert len(changes) == 2
    assert loader.image is loader.newest is loader.snapshot_source() is changes[-1][0]
    assert loader.image.features == {"new": 1}


@pytest.mark.parametrize("record", [NoOpRecord(), BeginTransactionRecord(name="x")])
def test_a_snapshot_that_cannot_be_applied_ends_the_node(record):
    """RAFT-23"""
    loader, _, changes = _loader()
    with pytest.raises(FatalError, match="cannot be applied"):
        _load(loader, [record, record, EndTransactionRecord()], 5, LeaderEpoch(1))
    assert changes == []
    assert loader.newest is EMPTY_IMAGE


def test_every_image_has_the_node_s_own_setting_of_unclean_elections():
    raft = Raft()
    raft.log = [b""] * 5
    loader = MetadataLoader(SimpleNamespace(host=Host(), cpu=Cpu()), ClusterImage(own_unclean_leader_election=True))
    _load(loader, [_feature()], 5, LeaderEpoch(1))
    loader.publish(5, LeaderEpoch(1))
    assert loader.image.own_unclean_leader_election
    loader.propose(raft, [_feature("y")])
    assert loader.newest.own_unclean_leader_election
    raft.is_active = False
    loader.roll_back()
    assert loader.newest.own_unclean_leader_election
    assert loader.newest.features == {"x": 1}


def test_no_snapshot_is_made_within_a_transaction():
    loader, raft, _ = _loader()
    loader.propose(raft, [_feature()])
    loader.commit_proposed(1)
    assert loader.snapshot_source() is loader.image
    loader.propose(raft, [BeginTransactionRecord(), _config("5")])
    loader.commit_proposed(3)
    assert loader.snapshot_source() is None
    loader.propose(raft, [EndTransactionRecord()])
    assert loader.snapshot_source() is None  # its end is not committed
    loader.commit_proposed(4)
    assert loader.snapshot_source().broker_configs == {"1": {"a": "5"}}


_RECORDS = st.lists(
    st.lists(
        st.one_of(
            st.builds(_feature, st.sampled_from("xy"), st.integers(0, 3)),
            st.builds(_config, st.none() | st.sampled_from("123")),
            st.sampled_from(["begin", "end", "abort"]),
        ),
        min_size=1,
        max_size=4,
    ),
    max_size=8,
)


def _valid(batches):
    """The batches with only such ends and beginnings as fit."""
    is_open = False
    for batch in batches:
        records = []
        for record in batch:
            if record == "begin":
                if not is_open:
                    records.append(BeginTransactionRecord(name="t"))
                    is_open = True
            elif isinstance(record, str):
                if is_open:
                    records.append(EndTransactionRecord() if record == "end" else AbortTransactionRecord())
                    is_open = False
            else:
                records.append(record)
        if records:
            yield records


@given(_RECORDS, st.integers(0, 8), _RECORDS)
def test_what_is_rolled_back_has_never_happened(first, committed, second):
    """RAFT-21: also in the midst of a metadata transaction."""
    loader, raft, changes = _loader()
    ends = []
    first = list(_valid(first))
    for records in first:
        loader.propose(raft, records)
        ends.append(raft.next_offset)
    kept = min(committed, len(ends))
    high_watermark = ends[kept - 1] if kept else 0
    loader.commit_proposed(high_watermark)
    raft.is_active = False
    loader.roll_back()
    model = MetadataReplay(EMPTY_IMAGE)
    offset = 0

    def replay(records):
        nonlocal offset
        for record in records:
            model.replay(offset, record)
            offset += 1
        model.publish(offset - 1, LeaderEpoch(1))

    for records in first[:kept]:
        replay(records)
    assert loader.newest == model.image
    assert loader.in_transaction == model.in_transaction
    for records in list(_valid([["begin"]] * model.in_transaction + second))[model.in_transaction :]:
        loader.replay_committed(_batch(records, offset))
        replay(records)
        loader.publish(offset, LeaderEpoch(1))
        assert loader.image == model.image
        assert loader.in_transaction == model.in_transaction
    assert [image.offset for image, _ in changes] == sorted({image.offset for image, _ in changes})
