"""Each transactional batch and marker is held against the coordinator's log, unless the log of that coordinator was lost."""

from contextlib import nullcontext

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import TRANSACTIONS_TOPIC, TopicPartition
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.schemas.transaction_record_codec import encode_transaction_key, encode_transaction_value
from esp.schemas.transaction_records import TransactionStatus, TransactionValue
from esp.simulation.checkers.replica_view import BatchView, ReplicaView
from esp.simulation.checkers.transaction_checker import TransactionChecker
from esp.simulation.checkers.transaction_history import (
    EndRequest,
    Fate,
    OutsideOffset,
    SentTransaction,
    ToldOffset,
    TransactionBatch,
    TransactionHistory,
)
from esp.simulation.checkers.transaction_log import MarkerSeen
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import tallied
from esp.storage.log import Log
from esp.transactions.requests import Producer
from tests.unit.storage.helpers import TOPIC_ID, append, append_marker, new_disk, new_log

S = TransactionStatus
TOPIC = "transactional"
DATA = TopicPartition(TOPIC, 0)
COORDINATORS = [TopicPartition(TRANSACTIONS_TOPIC, number) for number in range(2)]


class Scene:
    """A log for each partition; everything that is appended is committed."""

    def __init__(self) -> None:
        self.lost: set[TopicPartition] = set()
        self.history = TransactionHistory()
        self.now_s = 1.0
        self.checker = TransactionChecker(TOPIC, lambda: self.now_s, self.history, self.lost.__contains__)
        self._logs: dict[TopicPartition, tuple[Log, ReplicaView]] = {}

    def move(self, coordinator: TopicPartition, name: str, status: TransactionStatus, producer_id: int) -> None:
        value = TransactionValue(producer_id, 0, 1000, status, ((TOPIC, (0,)),), 0, 0)
        self._append(coordinator, NewRecord(encode_transaction_value(value, 0), key=encode_transaction_key(name)))

    def forget(self, coordinator: TopicPartition, name: str) -> None:
        self._append(coordinator, NewRecord(None, key=encode_transaction_key(name)))

    def _append(self, coordinator: TopicPartition, record: NewRecord) -> None:
        log = self._log(coordinator)
        data = build_batch([record], base_offset=log.log_end_offset, leader_epoch=0, timestamp_ms=1000)
        log.append(data, read_header(data), 0)
        self._commit(coordinator)

    def write(self, producer_id: int) -> int:
        """Append a batch of a transaction; returns its CRC."""
        data = append(self._log(DATA), producer=(producer_id, 0, 0), transactional=True)
        self._commit(DATA)
        return read_header(data).crc

    def mark(self, producer_id: int, *, is_commit: bool) -> None:
        append_marker(self._log(DATA), (producer_id, 0), is_commit=is_commit)
        self._commit(DATA)

    def batches(self, partition: TopicPartition) -> list[BatchView]:
        return self._logs[partition][1].batches

    def _log(self, partition: TopicPartition) -> Log:
        if partition not in self._logs:
            disk = new_disk()
            log = new_log(disk)[1]
            self._logs[partition] = log, ReplicaView("node 1", disk, log.path, TOPIC_ID, 0)
        return self._logs[partition][0]

    def _commit(self, partition: TopicPartition) -> None:
        log, view = self._logs[partition]
        self.checker.on_committed(partition, view.read_to(log.log_end_offset))


def test_a_batch_of_a_transaction_that_the_coordinator_does_not_have_open_is_a_violation() -> None:
    scene = Scene()
    scene.move(COORDINATORS[0], "a", S.EMPTY, 7)
    with pytest.raises(ViolationError, match="INV-TXN-VERIFIED"):
        scene.write(7)


def test_a_marker_without_a_decision_is_a_violation() -> None:
    scene = Scene()
    scene.move(COORDINATORS[0], "a", S.EMPTY, 7)
    scene.move(COORDINATORS[0], "a", S.ONGOING, 7)
    scene.write(7)
    with pytest.raises(ViolationError, match="INV-TXN-DECIDE-ONCE"):
        scene.mark(7, is_commit=True)


@pytest.mark.parametrize(("later_s", "is_commit"), [(0.0, True), (0.001, True), (0.0, False)])
def test_a_marker_is_seen_after_the_completion_only_if_both_came_at_the_same_moment(
    later_s: float, is_commit: bool
) -> None:
    scene = Scene()
    scene.history.ends["a"] = [EndRequest(Producer(7, 0), True, 0.0)]
    for status in (S.EMPTY, S.ONGOING):
        scene.move(COORDINATORS[0], "a", status, 7)
    scene.write(7)
    for status in (S.PREPARE_COMMIT, S.COMPLETE_COMMIT):
        scene.move(COORDINATORS[0], "a", status, 7)
    scene.now_s += later_s
    is_sound = is_commit and not later_s
    with nullcontext() if is_sound else pytest.raises(ViolationError, match="INV-TXN-DECIDE-ONCE"):
        scene.mark(7, is_commit=is_commit)
    assert scene.checker.one_turn_completions == is_sound


@pytest.mark.parametrize("later_s", [0.0, 0.001])
def test_a_batch_is_seen_after_the_completion_only_if_both_came_at_the_same_moment(later_s: float) -> None:
    scene = Scene()
    scene.history.ends["a"] = [EndRequest(Producer(7, 0), True, 0.0)]
    for status in (S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.COMPLETE_COMMIT):
        scene.move(COORDINATORS[0], "a", status, 7)
    scene.now_s += later_s
    with pytest.raises(ViolationError, match="INV-TXN-VERIFIED") if later_s else nullcontext():
        scene.write(7)
    assert scene.checker.one_turn_completions == (not later_s)


@pytest.mark.parametrize(("begun_s", "is_over"), [(8.0, True), (9.5, False), (None, False)])
def test_a_timeout_counts_from_the_beginning_though_that_was_committed_late(
    begun_s: float | None, is_over: bool
) -> None:
    scene = Scene()
    scene.move(COORDINATORS[0], "a", S.EMPTY, 7)
    for number, name, producer in ((1, "a", Producer(8, 0)), (2, "b", Producer(7, 0))):
        scene.history.begin(SentTransaction(name, f"{name} {number}", producer, 0.0))
    if begun_s is not None:
        scene.history.begin(SentTransaction("a", "a 1", Producer(7, 0), begun_s))
    scene.now_s = 10.0
    scene.move(COORDINATORS[0], "a", S.ONGOING, 7)
    with nullcontext() if is_over else pytest.raises(ViolationError, match="INV-TXN-OWNER"):
        scene.move(COORDINATORS[0], "a", S.PREPARE_ABORT, 7)
    assert scene.checker.timeouts == scene.checker.late_begins == is_over


def test_a_coordinator_s_lost_log_excuses_its_own_transactions_alone() -> None:
    scene = Scene()
    for coordinator, name, producer_id in zip(COORDINATORS, "ab", (7, 8), strict=True):
        scene.move(coordinator, name, S.EMPTY, producer_id)
    scene.lost.add(COORDINATORS[1])
    scene.write(8)
    scene.mark(8, is_commit=True)
    assert scene.checker.unverified == 2
    with pytest.raises(ViolationError, match="INV-TXN-VERIFIED"):
        scene.write(7)


def test_a_producer_that_no_log_names_may_be_one_of_the_lost_coordinator() -> None:
    scene = Scene()
    scene.lost.add(COORDINATORS[1])
    scene.write(9)
    assert scene.checker.unverified == 1


def commit_with_offsets(scene: Scene, *offsets: int) -> None:
    """Transactions of one id, each with an offset; the commit of number n is acknowledged at second n."""
    for number, offset in enumerate(offsets):
        for status in (S.EMPTY, S.ONGOING):
            scene.move(COORDINATORS[0], "a", status, 7)
        sent = TransactionBatch(DATA, scene.write(7), 1)
        scene.move(COORDINATORS[0], "a", S.PREPARE_COMMIT, 7)
        scene.mark(7, is_commit=True)
        scene.move(COORDINATORS[0], "a", S.COMPLETE_COMMIT, 7)
        transaction = SentTransaction("a", "a 1", Producer(7, 0), 0.0, [sent], Fate.COMMITTED, number)
        transaction.offset = offset
        scene.history.begin(transaction)


@pytest.mark.parametrize(
    ("told", "asked_s", "is_newest", "problem"),
    [
        (5, 1.5, True, None),
        (-1, -0.5, True, None),
        (4, 0.5, True, None),
        (4, 1.5, False, None),
        (4, 1.5, True, "offset 4 was reported after 5 was committed"),
        (-1, 0.5, True, "offset -1 was reported after 4 was committed"),
        (6, 1.5, True, "offset 6 was reported, and its records do not count"),
    ],
)
def test_an_offset_counts_with_its_transaction(told: int, asked_s: float, is_newest: bool, problem: str | None) -> None:
    scene = Scene()
    scene.history.ends["a"] = [EndRequest(Producer(7, 0), is_commit=True, sent_s=0)]
    commit_with_offsets(scene, 4, 5)
    scene.history.offsets_told.append(ToldOffset("a", told, asked_s, is_newest))
    with nullcontext() if problem is None else pytest.raises(ViolationError, match=f"INV-OFFSETS-TXN.*{problem}"):
        scene.checker.judge([])


@pytest.mark.parametrize(
    ("outside", "told", "problem"),
    [
        (OutsideOffset("a", 6, 6.0, 7.0), 6, None),
        (OutsideOffset("a", 6, 6.0, 7.0), 5, "offset 5 was reported after 6"),
        (OutsideOffset("a", 6, 6.0), 5, None),
        (OutsideOffset("a", 6, 3.0, 7.0), 5, None),
        (OutsideOffset("b", 6, 6.0, 7.0), 6, "its records do not count"),
        (OutsideOffset("a", 3, 0.0, 0.5), 3, "offset 3 was reported after 5"),
        (OutsideOffset("a", 3, 0.0, 9.0), 3, None),
    ],
)
def test_an_offset_beside_transactions_counts_from_its_record_on(
    outside: OutsideOffset, told: int, problem: str | None
) -> None:
    scene = Scene()
    scene.history.ends["a"] = [EndRequest(Producer(7, 0), is_commit=True, sent_s=0)]
    commit_with_offsets(scene, 4, 5)
    for transaction in scene.history.transactions:
        transaction.begun_s, transaction.offset_s, transaction.committed_s = 1.0, 5.0, 8.0
    scene.history.offsets_outside.append(outside)
    scene.history.offsets_told.append(ToldOffset("a", told, 20.0, is_newest=True))
    with nullcontext() if problem is None else pytest.raises(ViolationError, match=f"INV-OFFSETS-TXN.*{problem}"):
        scene.checker.judge([])


def test_a_transaction_that_cannot_be_judged_is_counted() -> None:
    scene = Scene()
    for coordinator, name, producer_id in zip(COORDINATORS, "ab", (7, 8), strict=True):
        scene.move(coordinator, name, S.EMPTY, producer_id)
        scene.move(coordinator, name, S.ONGOING, producer_id)
        sent = TransactionBatch(DATA, scene.write(producer_id), 1)
        scene.history.begin(SentTransaction(name, name, Producer(producer_id, 0), 0.0, [sent], Fate.COMMITTED))
    scene.lost.add(COORDINATORS[0])
    with pytest.raises(ViolationError, match=r"INV-TXN-ATOMIC at b: .* none counts"):
        scene.checker.judge([])
    assert scene.checker.unjudged == 1


def test_a_producer_that_a_lost_coordinator_may_have_given_is_counted() -> None:
    scene = Scene()
    scene.move(COORDINATORS[0], "txn-0", S.EMPTY, 7)
    scene.history.tell("txn-0", Producer(8, 0))
    scene.lost.add(COORDINATORS[0])
    with tallied() as excuses:
        scene.checker.judge(())
    assert excuses == {"lost_coordinators": 1}


def test_a_producer_that_its_id_never_had_is_a_violation() -> None:
    scene = Scene()
    scene.move(COORDINATORS[0], "txn-0", S.EMPTY, 7)
    scene.history.tell("txn-0", Producer(7, 0))
    scene.checker.judge(())
    scene.history.tell("txn-0", Producer(8, 0))
    with pytest.raises(ViolationError, match="INV-TXN-OWNER"):
        scene.checker.judge(())
    scene.lost.add(COORDINATORS[0])
    scene.checker.judge(())


def test_a_batch_that_is_refused_in_a_whole_cluster_though_its_transaction_is_open_is_a_violation() -> None:
    scene = Scene()
    scene.move(COORDINATORS[0], "txn-0", S.ONGOING, 7)
    sent = SentTransaction("txn-0", "an instance", Producer(7, 0), 1.0)
    scene.history.on_refused(sent, DATA, ErrorCode.invalid_txn_state, 2.0)
    scene.checker.whole_s = 3.0
    scene.history.on_refused(sent, DATA, ErrorCode.invalid_txn_state, 2.0)
    scene.history.on_refused(sent, DATA, ErrorCode.invalid_producer_epoch, 4.0)
    scene.checker.judge(())
    scene.history.on_refused(sent, DATA, ErrorCode.invalid_txn_state, 4.0)
    with pytest.raises(ViolationError, match="LIVE-TXN"):
        scene.checker.judge(())
    assert not scene.checker.unjudged_refusals


def test_where_only_a_core_is_healed_such_a_batch_is_counted() -> None:
    scene = Scene()
    scene.move(COORDINATORS[0], "txn-0", S.ONGOING, 7)
    sent = SentTransaction("txn-0", "an instance", Producer(7, 0), 1.0)
    scene.checker.core_s = 3.0
    for asked_s in (2.0, 4.0):
        scene.history.on_refused(sent, DATA, ErrorCode.invalid_txn_state, asked_s)
    scene.checker.judge(())
    assert scene.checker.unjudged_refusals == 1


@pytest.mark.parametrize(
    ("stable", "log_start", "is_compacted", "counts"),
    [
        (0, 0, False, (0, 0)),
        (2, 0, False, None),
        (2, 1, False, (1, 0)),
        (1, 0, True, (0, 1)),
        (2, 0, True, None),
    ],
)
def test_a_stable_offset_is_held_against_what_a_replica_can_know(
    stable: int, log_start: int, is_compacted: bool, counts: tuple[int, int] | None
) -> None:
    scene = Scene()
    scene.history.ends["a"] = [EndRequest(Producer(7, 0), True, 0.0)]
    for status in (S.EMPTY, S.ONGOING):
        scene.move(COORDINATORS[0], "a", status, 7)
    scene.write(7)
    scene.write(7)
    scene.move(COORDINATORS[0], "a", S.PREPARE_COMMIT, 7)
    scene.mark(7, is_commit=True)
    left = scene.batches(DATA)[1:] if is_compacted else None
    with nullcontext() if counts is not None else pytest.raises(ViolationError, match="INV-LSO"):
        scene.checker.check_stable("node 1", DATA, stable=stable, high_watermark=2, log_start=log_start, compacted=left)
    assert counts in (None, (scene.checker.unknown_begins, scene.checker.compacted_begins))


@pytest.mark.parametrize(
    ("stable", "has_rotted", "is_allowed"),
    [(1, True, True), (1, False, False), (0, True, False), (4, True, False)],
    ids=["begin of the ended one", "no rot", "no begin", "too high"],
)
def test_a_replica_that_has_found_rot_may_take_an_ended_transaction_for_open(
    stable: int, has_rotted: bool, is_allowed: bool
) -> None:
    scene = Scene()
    fold = scene.checker.fold(DATA)
    for producer_id, first_offset in ((8, 1), (9, 3)):
        fold.on_data(producer_id, first_offset, crc=producer_id)
    fold.on_marker(MarkerSeen(2, Producer(8, 0), True))
    with nullcontext() if is_allowed else pytest.raises(ViolationError, match="INV-LSO"):
        scene.checker.check_stable("node 1", DATA, stable=stable, high_watermark=4, log_start=0, has_rotted=has_rotted)
    assert scene.checker.rotten_markers == is_allowed


def test_decisions_are_told_with_the_partitions_of_their_transaction() -> None:
    scene = Scene()
    told: list[tuple[TopicPartition, object]] = []
    scene.checker.on_decision = lambda coordinator, partitions: told.append((coordinator, partitions))
    scene.history.ask_end("txn-0", Producer(7, 0), is_commit=True, now_s=1.0)
    for status in (S.ONGOING, S.PREPARE_COMMIT, S.COMPLETE_COMMIT):
        scene.move(COORDINATORS[1], "txn-0", status, 7)
    assert told == [(COORDINATORS[1], frozenset({DATA}))]


def test_only_an_id_whose_state_may_be_lost_is_forgotten_in_the_midst_of_a_transaction() -> None:
    scene = Scene()
    sound, lost = COORDINATORS
    for name, coordinator in (("sound", sound), ("lost", lost)):
        scene.move(coordinator, name, TransactionStatus.ONGOING, 7)
    scene.lost.add(lost)
    scene.forget(lost, "lost")
    with pytest.raises(ViolationError, match=r"^INV-TXN-DECIDE-ONCE at sound: was forgotten in ONGOING"):
        scene.forget(sound, "sound")
