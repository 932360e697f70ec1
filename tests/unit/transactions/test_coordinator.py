"""A coordinator's life: load, late appends, unload."""

import pytest

from esp.model.errors import CorruptionError, ErrorCode
from esp.records.builder import NewRecord
from esp.schemas.transaction_record_codec import encode_transaction_key
from esp.schemas.transaction_records import TransactionStatus
from esp.transactions.responses import ProducerResult
from tests.unit.transactions.world import P0, P1, SETTINGS, World, record_of, value

S = TransactionStatus


def test_last_record_of_an_id_counts():
    log = [record_of(value(S.EMPTY)), record_of(value(S.EMPTY, (7, 4))), record_of(value(S.EMPTY, (8, 0)), "other")]
    assert World(log=log).init().producer == (7, 5)


def test_tombstone_forgets_the_id():
    log = [record_of(value(S.ONGOING, partitions=(P0,))), NewRecord(None, encode_transaction_key("app"))]
    world = World(log=log)
    assert world.describe().error is ErrorCode.transactional_id_not_found


@pytest.mark.parametrize(
    "record", [NewRecord(b"", None), NewRecord(b"\x00\x05", encode_transaction_key("x")), NewRecord(b"", b"\x00")]
)
def test_corrupt_record_is_not_passed_over(record):
    with pytest.raises(CorruptionError):
        World(log=[record_of(value(S.EMPTY)), record])


def test_record_of_an_unknown_type_is_passed_over():
    world = World(log=[NewRecord(b"x", b"\x00\x09"), record_of(value(S.EMPTY))])
    assert world.init().producer == (7, 4)


def test_records_follow_the_level_of_the_feature():
    world = World(level=0)
    world.init()
    world.level = 1
    world.add((1000, 0), P0)
    assert [record.value[:2] for record in world.log] == [
        b"\x00\x00",
        b"\x00\x01",
    ]


def test_append_that_is_never_committed_is_answered_in_time_and_stays_on_its_way():
    world = World(value(S.EMPTY), is_stuck=True)
    ticket = world.init()
    world.pass_time(SETTINGS.append_timeout_ms - 1)
    assert ticket not in world.answers
    world.pass_time(1)
    late = ProducerResult(ErrorCode.coordinator_not_available)
    assert world.answers[ticket] == late
    world.commit()
    assert world.answers[ticket] == late
    world.is_stuck = False
    assert world.init().producer == (7, 5), "the move that was committed late counts"


def test_requests_behind_a_late_append_send_clients_to_another_coordinator():
    world = World(value(S.ONGOING, partitions=(P0,)), is_stuck=True)
    world.end((7, 3))
    late = ErrorCode.coordinator_not_available
    for _ in range(2):
        world.pass_time(SETTINGS.append_timeout_ms - 1)
        assert world.init().error is ErrorCode.concurrent_transactions
        world.pass_time(1)
        assert world.init().error is late
        assert world.end((7, 4)).error is late
        assert world.add((7, 4), P1) is late
        world.fail()
        world.end((7, 3))


def test_decision_that_is_committed_late_is_carried_out():
    world = World(value(S.ONGOING, partitions=(P0,)), is_stuck=True, writes_markers=False)
    world.end((7, 3))
    world.pass_time(SETTINGS.append_timeout_ms)
    assert world.markers == []
    world.commit()
    assert world.markers[0].producer == (7, 4)


def test_unload_answers_what_waits():
    world = World(value(S.EMPTY), is_stuck=True)
    ticket = world.init()
    world.do(world.coordinator.unload())
    assert world.answers[ticket] == ProducerResult(ErrorCode.not_coordinator)


def test_unload_answers_nothing_twice():
    world = World(value(S.EMPTY), is_stuck=True)
    world.init()
    world.pass_time(SETTINGS.append_timeout_ms)
    assert len(world.answers) == 1
    world.do(world.coordinator.unload())
    assert len(world.answers) == 1
