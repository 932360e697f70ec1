"""A coordinator on its partition: whole transactions, restarts, logs that cannot be read."""

import asyncio
import logging
from datetime import timedelta

import pytest

from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.protocol.entity_fields import EPOCH
from esp.records.batch import iterate_records
from esp.records.batch_header import read_header
from esp.transactions.requests import ListTransactions
from tests.unit.broker.conversation import create_topic, delete_topic, produce
from tests.unit.broker.transaction_conversation import (
    ask_as_broker,
    describe,
    end,
    init,
    until_coordinated,
    until_state,
    with_transactions,
)
from tests.unit.broker.transactional_client import batch, write_markers

NONE = ErrorCode.none
STATE_LOGS = [f"/data/__transaction_state-{number}/{0:020d}.log" for number in range(2)]
ALL, NOW = ListTransactions(), Now(0, 0)


async def begin(client, *partitions, **options):
    """A producer whose transaction has these partitions of topic t."""
    given = await init(client, **options)
    assert given.error_code is NONE
    producer = given.producer_id, given.producer_epoch
    (answer,) = await ask_as_broker(client, ("app", producer, {"t": list(partitions)}, False))
    assert set(answer[1].values()) == {NONE}
    return producer


def markers_in(node, partition):
    """Epoch and decision of each marker in a partition's log."""
    log = node.log("t", partition)
    view = memoryview(bytes(log.read(0, 1 << 20, log.log_end_offset, at_least_one=True) or b""))
    found = []
    while view:
        header = read_header(view)
        if header.is_control:
            (record,) = iterate_records(view[: header.size])
            found.append((header.producer_epoch, record.key == b"\0\0\0\1"))
        view = view[header.size :]
    return found


@pytest.mark.parametrize("commit", [True, False])
@with_transactions()
async def test_every_partition_of_a_transaction_gets_its_marker(node, client, commit):
    await create_topic(client, partitions=3)
    producer = await begin(client, 0, 2)
    assert (await end(client, producer, commit=commit)).producer_epoch == 1
    described = await until_state(client, "CompleteCommit" if commit else "CompleteAbort")
    assert (described.producer_epoch, described.topics) == (1, ())
    assert [markers_in(node, partition) for partition in range(3)] == [[(1, commit)], [], [(1, commit)]]


@with_transactions()
async def test_records_of_a_committed_transaction_stand_before_its_marker(node, client):
    await create_topic(client)
    given = await init(client)
    records = batch(0, b"a", b"b", producer_id=given.producer_id)
    answer = await produce(client, "t", records, transactional_id="app")
    assert answer.error_code is NONE
    described = await until_state(client, "Ongoing")
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("t", (0,))]
    assert described.transaction_timeout == timedelta(minutes=1)
    assert described.transaction_start_time > EPOCH
    assert (await end(client, (given.producer_id, 0))).error_code is NONE
    await until_state(client, "CompleteCommit")
    assert node.log("t").log_end_offset == 3


@with_transactions()
async def test_id_that_is_idle_is_described(node, client):
    await init(client)
    described = await describe(client)
    assert (described.transaction_state, described.topics) == ("Empty", ())
    assert (await describe(client, "nobody")).error_code is ErrorCode.transactional_id_not_found
    assert (await describe(client, "")).error_code is ErrorCode.invalid_request


@with_transactions()
async def test_transaction_of_a_deleted_topic_ends(node, client):
    await create_topic(client)
    producer = await begin(client, 0)
    await delete_topic(client, "t")
    assert (await end(client, producer)).error_code is NONE
    await until_state(client, "CompleteCommit")


@with_transactions()
async def test_topic_that_was_made_again_gets_no_marker_of_the_one_before(node, client):
    await create_topic(client)
    producer = await begin(client, 0)
    await delete_topic(client, "t")
    await create_topic(client)
    assert (await end(client, producer)).error_code is NONE
    await until_state(client, "CompleteCommit")
    assert markers_in(node, 0) == []


@with_transactions()
async def test_decision_is_carried_out_after_a_restart(node, client):
    await create_topic(client)
    producer = await begin(client, 0)
    asked = end(client, producer)
    answer = await asked
    assert answer.error_code is NONE
    await node.restart()
    client = await node.client()
    await until_coordinated(client)
    described = await until_state(client, "CompleteCommit")
    assert described.producer_epoch == 1
    assert set(markers_in(node, 0)) == {(1, True)}


@with_transactions(transaction_abort_timed_out_transaction_cleanup_interval_ms=1_000)
async def test_transaction_that_takes_too_long_is_aborted(node, client):
    await create_topic(client)
    producer = await begin(client, 0, timeout_ms=5_000)
    described = await until_state(client, "CompleteAbort")
    assert described.producer_epoch == 1
    assert markers_in(node, 0) == [(1, False)]
    assert (await end(client, producer)).error_code is ErrorCode.invalid_txn_state


@with_transactions()
async def test_log_that_cannot_be_read_is_not_served_until_it_can(node, client, caplog):
    given = await init(client)
    (path,) = (path for path in STATE_LOGS if node.disk.stat(path).size)
    value_at = 61 + 20  # within the record, behind the header of the batch
    node.disk.corrupt(path, value_at)
    transactions, number = node.node.broker.running.transactions, STATE_LOGS.index(path)

    async def lead_again():
        transactions.on_leading(node.hosted("__transaction_state", number))

    assert transactions.unreadable_count == 0
    await node.process.run(lead_again())
    for _ in range(8):
        await asyncio.sleep(1)
        answer = await end(client, (given.producer_id, 0), commit=False)
        assert answer.error_code is ErrorCode.coordinator_load_in_progress
    alarm = f"the transactions of __transaction_state-{number} cannot be loaded: "
    told = [record.levelno for record in caplog.records if record.getMessage().startswith(alarm)]
    assert told == [logging.ERROR], "an operator is told, once"
    assert transactions.unreadable_count == 1
    await asyncio.sleep(3_000)  # each read begins where the last one began, not within it
    client = await node.client()  # the node has closed the other connection, which was idle
    node.disk.corrupt(path, value_at)
    await until_coordinated(client)
    assert transactions.unreadable_count == 0
    assert (await end(client, (given.producer_id, 0), commit=False)).error_code is NONE


@with_transactions()
async def test_decision_that_a_partition_refuses_raises_an_alarm_and_ends_with_the_next_coordinator(
    node, client, caplog
):
    """The partition has seen a later coordinator's epoch, so that it takes this one for a replaced one; the next one has that epoch too."""
    await create_topic(client, partitions=2)
    producer = await begin(client, 0, 1)
    (state,) = [each for each in node.node.broker.running.transactions if each.core.list_transactions(ALL, NOW)]
    later = state.leader_epoch + 1
    told = await write_markers(
        client, ("t", 1), version=1, producer_id=producer[0], commit=False, coordinator_epoch=later
    )
    assert told == [NONE]
    assert (await end(client, producer)).error_code is NONE
    for _ in range(50):
        await asyncio.sleep(1)
        assert (await describe(client)).transaction_state == "PrepareCommit"
    transactions = node.node.broker.running.transactions
    assert (transactions.pending_markers, transactions.refused_markers) == (1, 1)
    alarms = [record for record in caplog.records if "refuses the marker that ends the transaction" in record.message]
    assert [record.levelno for record in alarms] == [logging.ERROR], "once, though the marker is sent every 10 s"
    assert "TRANSACTION_COORDINATOR_FENCED" in alarms[0].message
    assert markers_in(node, 0) == [(1, True)]
    assert markers_in(node, 1) == [(0, False)]
    await node.restart()
    client = await node.client()
    await until_coordinated(client)
    (state,) = [each for each in node.node.broker.running.transactions if each.core.list_transactions(ALL, NOW)]
    assert state.leader_epoch >= later
    described = await until_state(client, "CompleteCommit")
    assert described.producer_epoch == 1
    assert markers_in(node, 1) == [(0, False), (1, True)]
    assert node.node.broker.running.transactions.refused_markers == 0


@with_transactions()
async def test_end_of_the_leadership_answers_what_waits(node, client):
    given = await init(client)
    (coordinator,) = [each for each in node.node.broker.running.transactions if each.core.list_transactions(ALL, NOW)]
    coordinator.end()
    answer = await end(client, (given.producer_id, 0), commit=False)
    assert answer.error_code is ErrorCode.not_coordinator
