"""What an idempotent producer is answered when it repeats, skips or goes back (PROD-*), also after the node was stopped or killed."""

import datetime as dt
import time
from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest

from esp.records.builder import NewRecord, build_batch
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import NodeFactory
from tests.integration import messages
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.messages import fetch_one, send_batch
from tests.integration.wire import Wire

Sending = tuple[ErrorCode, int]


class Producer:
    """An idempotent producer of one record per batch that chooses its sequences itself."""

    def __init__(self, wire: Wire, topic: str) -> None:
        response = wire.call(new_producer_id())
        assert response.error_code == ErrorCode.none
        self._id = response.producer_id
        self._topic = topic

    def send(self, wire: Wire, sequence: int, *, epoch: int = 0, records: int = 1) -> Sending:
        batch = build_batch(
            [NewRecord(b"%d" % sequence)] * records,
            timestamp_ms=time.time_ns() // 1_000_000,
            producer_id=self._id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        return send_batch(wire, self._topic, batch)


def new_producer_id() -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=None, transaction_timeout=dt.timedelta(seconds=60))


@pytest.fixture
def wire(node: NodeProcess) -> Iterator[Wire]:
    with Wire(node) as wire:
        eventually(lambda: wire.call(new_producer_id()).error_code == ErrorCode.none)
        yield wire


def test_repeated_batch_is_answered_with_its_old_offset_and_not_written_again(
    wire: Wire, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    producer = Producer(wire, topic)
    assert [producer.send(wire, sequence) for sequence in range(7)] == [(ErrorCode.none, n) for n in range(7)]
    # the last five batches are remembered
    assert [producer.send(wire, sequence) for sequence in range(2, 7)] == [(ErrorCode.none, n) for n in range(2, 7)]
    assert fetch_one(wire, messages.fetch(topic, 0)).high_watermark == 7
    assert producer.send(wire, 0)[0] in {ErrorCode.duplicate_sequence_number, ErrorCode.out_of_order_sequence_number}
    assert producer.send(wire, 7) == (ErrorCode.none, 7)


def test_gap_in_sequences_is_refused_until_it_is_filled(wire: Wire, make_topic: MakeTopic) -> None:
    producer = Producer(wire, make_topic())
    assert producer.send(wire, 0, records=3) == (ErrorCode.none, 0)
    assert producer.send(wire, 4) == (ErrorCode.out_of_order_sequence_number, -1)
    assert producer.send(wire, 3) == (ErrorCode.none, 3)
    assert producer.send(wire, 4) == (ErrorCode.none, 4)


def test_newer_epoch_begins_at_0_and_shuts_the_older_one_out(wire: Wire, make_topic: MakeTopic) -> None:
    producer = Producer(wire, make_topic())
    assert producer.send(wire, 0) == (ErrorCode.none, 0)
    assert producer.send(wire, 5, epoch=1) == (ErrorCode.out_of_order_sequence_number, -1)
    assert producer.send(wire, 0, epoch=1) == (ErrorCode.none, 1)
    assert producer.send(wire, 1, epoch=0) == (ErrorCode.invalid_producer_epoch, -1)
    assert producer.send(wire, 1, epoch=1) == (ErrorCode.none, 2)


def test_producers_and_partitions_do_not_mix(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic()
    one, two = Producer(wire, topic), Producer(wire, topic)
    assert [p.send(wire, s) for s in (0, 1) for p in (one, two)] == [(ErrorCode.none, n) for n in range(4)]


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_producers_are_remembered_over_a_restart(fresh_node: NodeFactory, ending: str) -> None:
    node = fresh_node()
    with Wire(node) as wire:
        eventually(lambda: wire.call(messages.metadata("t", create=True)).topics[0].error_code == ErrorCode.none)
        eventually(lambda: wire.call(new_producer_id()).error_code == ErrorCode.none)
        before = wire.call(new_producer_id()).producer_id
        producer = Producer(wire, "t")
        assert [producer.send(wire, n) for n in range(3)] == [(ErrorCode.none, n) for n in range(3)]
    getattr(node, ending)()
    node.start()
    with Wire(node) as wire:
        eventually(lambda: fetch_one(wire, messages.fetch("t", 0)).error_code == ErrorCode.none, timeout_s=30)
        assert producer.send(wire, 2) == (ErrorCode.none, 2)
        assert producer.send(wire, 4) == (ErrorCode.out_of_order_sequence_number, -1)
        assert producer.send(wire, 3) == (ErrorCode.none, 3)
        eventually(lambda: wire.call(new_producer_id()).error_code == ErrorCode.none)
        assert wire.call(new_producer_id()).producer_id > before + 1, "a producer id was given out twice"
