"""Offsets of transactions: pending ones, markers, deletions and new coordinators, against a model that keeps every record ever written."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from esp.broker.coordination.latest_records import LatestRecords
from esp.groups.effects import Append, Transaction
from esp.groups.requests import CommittedOffset, OffsetFetch, TxnOffsetCommit
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.records.builder import build_batch
from esp.records.transaction_marker import build_marker
from esp.schemas.group_record_codec import decode_group_record
from esp.schemas.group_records import OffsetCommitRecord
from tests.unit.groups.world import GROUP, START_MS, World

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
DAY_MS = 24 * 3600 * 1000


class TransactionWorld(World):
    """A world whose log holds whole batches, so that transactions are in it; what is appended waits for :meth:`advance`."""

    def __init__(self, batches=(), **more):
        self.batches = list(batches)
        self.appended = []
        self.fails_with = None
        latest = LatestRecords()
        for batch in self.batches:
            latest.add(batch)
        self.pending_at_load = latest.pending()
        super().__init__(log=[_Loaded(key, value) for key, value in latest.by_key.items()], is_stuck=True, **more)

    def do(self, effects):
        if self.pending_at_load:  # before the first effects, which are those of begin()
            for producer_id, records in self.pending_at_load:
                self.coordinator.replay_pending(producer_id, records)
            self.pending_at_load = []
        for effect in effects:
            if not isinstance(effect, Append):
                super().do([effect])
            elif self.fails_with is not None:
                self.do(self.coordinator.on_append_failed(effect.token, self.fails_with, self.now))
            else:
                owner = effect.transaction
                self.batches.append(
                    build_batch(
                        effect.records,
                        base_offset=self.next_offset,
                        producer_id=-1 if owner is None else owner.producer_id,
                        producer_epoch=-1 if owner is None else owner.producer_epoch,
                        transactional=owner is not None,
                    )
                )
                self.appended.append(effect)
        self.work()

    @property
    def next_offset(self):
        return 100 * len(self.batches)

    def end(self, producer_id, *, commit):
        marker = bytearray(
            build_marker(producer_id, 0, is_commit=commit, coordinator_epoch=0, timestamp_ms=self.wall_ms)
        )
        marker[:8] = self.next_offset.to_bytes(8, "big")
        self.batches.append(bytes(marker))
        self.appended.append((producer_id, commit, self.coordinator.on_marker_appended()))

    def advance(self, most=1_000_000):
        """Commit what was appended, oldest first."""
        for _ in range(min(most, len(self.appended))):
            first = self.appended.pop(0)
            if isinstance(first, Append):
                self.do(self.coordinator.on_committed(first.token, self.now))
            else:
                producer_id, commit, token = first
                self.do(self.coordinator.on_marker_committed(token, producer_id, self.now, is_commit=commit))

    def commit_in(self, producer_id, offsets, *, group=GROUP, metadata="", **more):
        request = TxnOffsetCommit(
            group_id=group,
            transaction=Transaction(producer_id, 0, object()),
            offsets=tuple(
                CommittedOffset(partition, offset, metadata=metadata) for partition, offset in offsets.items()
            ),
            **more,
        )
        return self.ask(self.coordinator.commit_transactional_offsets, request)

    def fetched(self, group=GROUP, *, stable=False, partitions=None):
        request = OffsetFetch(group_id=group, partitions=partitions, require_stable=stable)
        result = self.coordinator.fetch_offsets(request)
        return {
            each.partition: each.error if each.error is not ErrorCode.none else each.offset for each in result.offsets
        }

    def reborn(self):
        """Another coordinator of what is in the log, all of which is committed."""
        self.advance()
        self.do(self.coordinator.unload())
        return TransactionWorld(self.batches)


class _Loaded:
    def __init__(self, key, value):
        self.key, self.value = key, value


UNSTABLE = ErrorCode.unstable_offset_commit


def test_an_offset_of_a_transaction_shows_with_the_commit_marker_only():
    world = TransactionWorld()
    ticket = world.commit_in(1, {P0: 5})
    assert world.fetched(stable=True, partitions=(P0, P1)) == {P0: UNSTABLE, P1: -1}
    world.advance()
    assert world.error(ticket) is ErrorCode.none
    assert world.fetched(partitions=(P0,)) == {P0: -1}
    world.end(1, commit=True)
    assert world.fetched(stable=True) == {P0: UNSTABLE}  # the marker is not committed
    world.advance()
    assert world.fetched(stable=True) == {P0: 5}
    assert world.state() == "Empty"


def test_an_abort_leaves_the_old_offset():
    world = TransactionWorld()
    world.commit_offsets({P0: 3})
    world.commit_in(1, {P0: 5})
    world.end(1, commit=False)
    world.advance()
    assert world.fetched(stable=True) == {P0: 3}


def test_a_repeated_marker_changes_nothing():
    world = TransactionWorld()
    world.commit_in(1, {P0: 5})
    world.end(1, commit=True)
    world.end(1, commit=True)
    world.commit_offsets({P0: 7})
    world.end(1, commit=True)
    world.advance()
    assert world.fetched(stable=True) == {P0: 7}


def test_a_later_offset_outside_the_transaction_survives_its_commit():
    world = TransactionWorld()
    world.commit_in(1, {P0: 5, P1: 5})
    world.commit_offsets({P0: 7})
    world.end(1, commit=True)
    assert world.reborn().fetched() == {P0: 7, P1: 5}
    assert world.fetched() == {P0: 7, P1: 5}


def test_a_commit_that_was_not_appended_leaves_the_transactions_earlier_offset():
    world = TransactionWorld()
    world.commit_in(1, {P0: 5})
    world.fails_with = ErrorCode.not_enough_replicas
    assert world.error(world.commit_in(1, {P0: 6, P1: 6})) is ErrorCode.coordinator_not_available
    world.fails_with = None
    world.end(1, commit=True)
    world.advance()
    assert world.fetched(stable=True, partitions=(P0, P1)) == {P0: 5, P1: -1}


def test_a_group_that_is_deleted_does_not_come_back_with_the_commit():
    world = TransactionWorld()
    world.commit_offsets({P0: 3})
    world.commit_in(1, {P1: 5})
    world.advance()
    deleted = world.delete_group()
    world.end(1, commit=True)
    world.advance()
    assert world.error(deleted) is ErrorCode.none
    assert world.fetched(stable=True) == {}
    assert world.state() == "Dead"
    assert world.reborn().fetched() == {}


def test_a_commit_after_the_deletion_of_the_group_makes_it_anew():
    world = TransactionWorld()
    world.commit_offsets({P0: 3})
    world.advance()
    world.delete_group()
    world.commit_in(1, {P1: 5})
    world.end(1, commit=True)
    world.advance()
    assert world.fetched(stable=True) == {P1: 5}
    assert world.state() == "Empty"


def test_pending_offsets_keep_a_group_and_its_offsets_from_expiring():
    world = TransactionWorld()
    world.commit_offsets({P0: 3, P1: 3})
    world.commit_in(1, {P0: 5})
    world.advance()
    world.sleep(30 * DAY_MS)
    world.advance()
    assert world.fetched() == {P0: 3}
    assert world.state() == "Empty"
    world.end(1, commit=False)
    world.advance()
    world.sleep(DAY_MS)
    world.advance()
    assert world.fetched() == {}
    assert world.state() == "Dead"


def test_offsets_of_deleted_partitions_are_forgotten_pending_or_not():
    world = TransactionWorld()
    world.commit_in(1, {P0: 5, P1: 5})
    world.do(world.coordinator.on_partitions_deleted([P0], world.now))
    world.end(1, commit=True)
    world.advance()
    assert world.fetched(stable=True) == {P1: 5}


def test_a_pending_offset_is_deleted_with_its_partitions_offset():
    world = TransactionWorld()
    world.commit_offsets({P1: 1})
    world.commit_in(1, {P0: 5})
    world.advance()
    world.delete_offsets(P0)
    world.end(1, commit=True)
    world.advance()
    assert world.fetched(stable=True) == {P1: 1}


@pytest.mark.parametrize(
    ("request_fields", "error"),
    [
        ({"generation_id": 0}, ErrorCode.illegal_generation),
        ({"generation_id": 2, "member_id": "MEMBER"}, ErrorCode.illegal_generation),
        ({"generation_id": 1, "member_id": "stranger"}, ErrorCode.unknown_member_id),
        ({"generation_id": 1, "member_id": "MEMBER", "group_instance_id": "i"}, ErrorCode.unknown_member_id),
        ({"member_id": "MEMBER"}, ErrorCode.illegal_generation),
        ({"generation_id": 1, "member_id": "MEMBER"}, ErrorCode.none),
        ({}, ErrorCode.none),
    ],
)
def test_a_fenced_member_commits_nothing_and_a_producer_without_a_member_does(request_fields, error):
    world = TransactionWorld()
    joining = world.join()
    world.sleep(3_000)
    world.advance()
    joined = world.answers[joining]
    world.sync(joined.member_id, 1, {joined.member_id: b"all"})
    world.advance()
    fields = {name: joined.member_id if value == "MEMBER" else value for name, value in request_fields.items()}
    if fields == {"generation_id": 0}:
        fields["group"] = "another"  # which is not there
    before = len(world.batches)
    ticket = world.commit_in(1, {P0: 5}, **fields)
    world.advance()
    assert world.error(ticket) is error
    assert len(world.batches) == before + (error is ErrorCode.none)


def test_a_member_commits_while_it_waits_for_its_assignment():
    world = TransactionWorld()
    joining = world.join()
    world.sleep(3_000)
    joined = world.answers[joining]
    ticket = world.commit_in(1, {P0: 5}, generation_id=joined.generation_id, member_id=joined.member_id)
    world.advance()
    assert world.error(ticket) is ErrorCode.none


def test_too_much_text_beside_an_offset_is_refused():
    world = TransactionWorld()
    assert world.error(world.commit_in(1, {P0: 5}, metadata="x" * 5000)) is ErrorCode.offset_metadata_too_large
    assert world.fetched(stable=True) == {}


def test_the_offset_of_a_transaction_carries_its_time():
    world = TransactionWorld()
    world.commit_in(1, {P0: 5})
    (append,) = world.appended
    value = decode_group_record(append.records[0].key, append.records[0].value).value
    assert (value.offset, value.commit_timestamp_ms) == (5, START_MS)
    assert (append.transaction.producer_id, append.transaction.producer_epoch) == (1, 0)


GROUPS, PARTITIONS, PRODUCERS = ("a", "b"), (P0, P1), (1, 2)
groups, partitions, producers = map(st.sampled_from, (GROUPS, PARTITIONS, PRODUCERS))


class Entry:
    """A record of an offset in the log, a marker, or the deletion of a whole group."""

    def __init__(self, producer_id, *, keys=None, is_commit=None, group=None):
        self.producer_id, self.keys, self.is_commit, self.group = producer_id, keys, is_commit, group


class Transactions(RuleBasedStateMachine):
    """The coordinator against all entries of its log."""

    def __init__(self):
        super().__init__()
        self.world = TransactionWorld()
        self.entries = []
        self.offset = 0

    def collect(self, group_deleted=None):
        """Add the newest batches of the log to the model."""
        for batch in self.world.appended[self.uncollected :]:
            if isinstance(batch, Append):
                keys = {}
                for record in batch.records:
                    decoded = decode_group_record(record.key, record.value)
                    if isinstance(decoded, OffsetCommitRecord):
                        partition = TopicPartition(decoded.key.topic, decoded.key.partition)
                        keys[decoded.key.group, partition] = None if decoded.value is None else decoded.value.offset
                owner = batch.transaction
                self.entries.append(Entry(-1 if owner is None else owner.producer_id, keys=keys, group=group_deleted))
            else:
                self.entries.append(Entry(batch[0], is_commit=batch[1]))

    @property
    def uncollected(self):
        return len(self.entries) - (len(self.world.batches) - len(self.world.appended))

    @rule(group=groups, partition=partitions)
    def commit(self, group, partition):
        self.offset += 1
        self.world.commit_offsets({partition: self.offset}, group=group)
        self.collect()

    @rule(
        group=groups, partitions=st.sets(partitions, min_size=1), producer=producers, fails=st.sampled_from([0, 0, 1])
    )
    def commit_in_transaction(self, group, partitions, producer, fails):
        self.offset += 1
        self.world.fails_with = ErrorCode.not_enough_replicas if fails else None
        self.world.commit_in(producer, dict.fromkeys(sorted(partitions), self.offset), group=group)
        self.world.fails_with = None
        self.collect()

    @rule(producer=producers, commit=st.booleans())
    def end(self, producer, commit):
        self.world.end(producer, commit=commit)
        self.collect()

    @rule(group=groups, partition=partitions)
    def delete(self, group, partition):
        self.world.delete_offsets(partition, group=group)
        self.collect()

    @rule(group=groups)
    def delete_group(self, group):
        before = len(self.world.batches)
        self.world.delete_group(group)
        self.collect(group_deleted=group if len(self.world.batches) > before else None)

    @rule(most=st.integers(1, 3))
    def advance(self, most):
        self.world.advance(most)

    @rule()
    def restart(self):
        self.world = self.world.reborn()

    def model(self):
        """The committed offsets, and the keys with a record that a transaction may still bring to light."""
        committed_end = len(self.entries) - len(self.world.appended)
        offsets, places = {}, {}
        for place, entry in enumerate(self.entries[:committed_end]):
            if entry.is_commit is not None or entry.keys is None:
                continue
            counts = entry.producer_id < 0 or self.fate(place, committed_end) is True
            for key, offset in entry.keys.items() if counts else ():
                offsets[key], places[key] = offset, place
            if entry.group is not None:
                for group, partition in [(entry.group, partition) for partition in PARTITIONS]:
                    offsets[group, partition], places[group, partition] = None, place
        unstable = set()
        for place, entry in enumerate(self.entries):
            if entry.keys and entry.producer_id >= 0 and self.fate(place, committed_end) is None:
                unstable |= {key for key in entry.keys if places.get(key, -1) < place}
        return {key: offset for key, offset in offsets.items() if offset is not None}, unstable

    def fate(self, place, end):
        """True or False as the record's transaction was committed or aborted by a marker before ``end``."""
        for entry in self.entries[place + 1 : end]:
            if entry.is_commit is not None and entry.producer_id == self.entries[place].producer_id:
                return entry.is_commit
        return None

    @invariant()
    def fetched_is_what_the_log_says(self):
        offsets, unstable = self.model()
        for group in GROUPS:
            fetched = self.world.fetched(group)
            assert fetched == {partition: offset for (owner, partition), offset in offsets.items() if owner == group}
            stable = self.world.fetched(group, stable=True)
            assert stable == fetched | {partition: UNSTABLE for owner, partition in unstable if owner == group}


Transactions.TestCase.settings = settings(max_examples=80, stateful_step_count=20, deadline=None)
TestTransactions = Transactions.TestCase
