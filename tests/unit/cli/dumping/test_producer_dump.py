from esp.cli.dumping.file_dump import dump_producers
from esp.records.batch_header import read_header
from esp.storage.producer_state import ProducerStates
from tests.unit.cli.dumping.test_segment_dump import batch, complaints


def test_each_producer_is_shown_with_its_last_batch():
    states = ProducerStates()
    states.update(read_header(batch(10, b"a", b"b", producer_id=7, producer_epoch=2, base_sequence=4)))
    (found,) = dump_producers(states.encode())
    assert found.text == (
        "producerId: 7 producerEpoch: 2 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 1000 "
        "firstSequence: 4 lastSequence: 5 lastOffset: 11 offsetDelta: 1 timestamp: 1000"
    )


def test_a_snapshot_that_is_none_is_told():
    data = bytearray(ProducerStates().encode())
    data[3] ^= 1
    assert len(complaints(dump_producers(bytes(data)))) == 1
    assert len(complaints(dump_producers(b""))) == 1
