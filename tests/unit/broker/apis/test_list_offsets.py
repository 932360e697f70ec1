import asyncio

import pytest
from crc32c import crc32c

from esp.model.errors import ErrorCode
from esp.records.batch_header import HEADER_SIZE, MAX_TIMESTAMP_OFFSET
from esp.records.builder import seal_batch
from esp.storage import timestamp_search
from tests.unit.broker.conversation import create_topic, list_offset, produce
from tests.unit.broker.simulated_node import RefusedError, records, simulated

NOW_MS = 1_795_000_000_000
SEGMENT = "/data/t-0/00000000000000000000.log"


async def filled(node):
    client = await node.client()
    await create_topic(client)
    for number in (0, 2, 1):
        await produce(client, "t", records(b"x" * 5000, timestamp_ms=NOW_MS + number))
    return client


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize(
    ("timestamp", "known_from", "offset", "told_ms"),
    [
        (-1, 1, 3, -1),
        (-2, 1, 0, -1),
        (-3, 7, 1, NOW_MS + 2),
        (-4, 8, 0, -1),
        (-5, 9, -1, -1),
        (-6, 11, -1, -1),
        (NOW_MS, 1, 0, NOW_MS),
        (NOW_MS + 1, 1, 1, NOW_MS + 2),
        (NOW_MS + 3, 1, -1, -1),
        (0, 1, 0, NOW_MS),
    ],
)
@simulated()
async def test_offsets_by_meaning_and_by_time(node, version, timestamp, known_from, offset, told_ms):
    answer = await list_offset(await filled(node), "t", timestamp, version=version)
    if version < known_from:
        assert answer.error_code is ErrorCode.unsupported_version
    else:
        assert (answer.error_code, answer.offset, answer.timestamp) == (ErrorCode.none, offset, told_ms)


@pytest.mark.parametrize("timestamp", [-7, -(2**63)])
@simulated()
async def test_a_meaning_that_nobody_knows_is_refused(node, timestamp):
    assert (await list_offset(await filled(node), "t", timestamp)).error_code is ErrorCode.unsupported_version


@pytest.mark.parametrize(("topic", "partition", "code"), [("t", 1, 3), ("u", 0, 3), ("t", -1, 3)])
@pytest.mark.parametrize("timestamp", [-1, NOW_MS])
@simulated()
async def test_a_partition_that_is_not_there_is_an_error(node, topic, partition, code, timestamp):
    answer = await list_offset(await filled(node), topic, timestamp, partition=partition)
    assert answer.error_code == code


@pytest.mark.parametrize("timestamp", [-1, NOW_MS])
@simulated()
async def test_another_leader_epoch_is_refused(node, timestamp):
    answer = await list_offset(await filled(node), "t", timestamp, leader_epoch=9)
    assert answer.error_code is ErrorCode.unknown_leader_epoch


@simulated()
async def test_an_empty_partition_has_no_offset_by_time(node):
    client = await node.client()
    await create_topic(client)
    for timestamp, offset in ((-1, 0), (-2, 0), (-3, -1), (NOW_MS, -1)):
        assert (await list_offset(client, "t", timestamp)).offset == offset


@pytest.mark.parametrize("timestamp", [-3, NOW_MS])
@simulated()
async def test_a_device_that_fails_costs_an_error_and_not_the_node(node, timestamp):
    client = await filled(node)
    await node.log("t").flush()
    node.disk.make_cold(SEGMENT)
    node.disk.fail("read", "*/t-0/*.log", times=1000)
    assert (await list_offset(client, "t", timestamp)).error_code is ErrorCode.kafka_storage_error
    assert (await list_offset(client, "t", -1)).offset == 3


@pytest.mark.parametrize("payload", [b"", b"\xff" * 50, bytes(50)])
@simulated()
async def test_a_batch_whose_records_make_no_sense_costs_an_error_and_not_the_node(node, payload):
    """Records are not opened when they are produced, so that anybody can send such a batch."""
    client = await node.client()
    await create_topic(client)
    for codec in range(5):
        batch = bytearray(records(b"x", b"y", timestamp_ms=NOW_MS))[:HEADER_SIZE] + payload
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        batch[22] = codec
        batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
        assert (await produce(client, "t", bytes(batch))).error_code is ErrorCode.none
    for timestamp in (-3, NOW_MS, 0):
        assert (await list_offset(client, "t", timestamp)).error_code is ErrorCode.corrupt_message
    assert node.hosted("t").log.rot is None, "what is there is what was written"
    assert (await list_offset(client, "t", -1)).offset == 10


@simulated()
async def test_a_timestamp_for_which_the_answer_has_no_room_is_passed_over(node):
    client = await node.client()
    await create_topic(client)
    late = seal_batch(b"\x0c\0\x02\0\1\1\0", 1, base_timestamp=2**63 - 1, max_timestamp=NOW_MS)
    for batch in (late, records(b"x", timestamp_ms=NOW_MS)):
        assert (await produce(client, "t", batch)).error_code is ErrorCode.none
    for timestamp in (0, NOW_MS):
        answer = await list_offset(client, "t", timestamp)
        assert (answer.error_code, answer.offset, answer.timestamp) == (ErrorCode.none, 1, NOW_MS)


@simulated()
async def test_a_header_with_a_flipped_bit_costs_an_error_and_hides_no_record(node):
    client = await filled(node)
    first = len(node.disk.read_file(SEGMENT)) // 3
    assert (await list_offset(client, "t", NOW_MS + 1)).offset == 1
    node.disk.corrupt(SEGMENT, first + MAX_TIMESTAMP_OFFSET + 7, 2)
    for timestamp in (NOW_MS + 1, -3):
        answer = await list_offset(client, "t", timestamp)
        assert (answer.error_code, answer.offset) == (ErrorCode.corrupt_message, -1)
    assert node.hosted("t").log.rot is not None
    assert (await list_offset(client, "t", NOW_MS)).offset == 0, "a batch before it is found"


@simulated()
async def test_searches_for_clients_that_have_gone_are_not_made(node, monkeypatch):
    opened, begun = [], asyncio.Event()
    open_batch = timestamp_search._open

    def counted(*args):
        opened.append(args)
        begun.set()
        return open_batch(*args)

    monkeypatch.setattr(timestamp_search, "_open", counted)
    client, leaving = await filled(node), await node.client()
    asked = [asyncio.ensure_future(list_offset(leaving, "t", NOW_MS + 1)) for _ in range(50)]
    await begun.wait()
    leaving.close()
    assert (await list_offset(client, "t", NOW_MS + 1)).offset == 1
    assert len(opened) < 10
    assert all(
        isinstance(answer, RefusedError) for answer in (await asyncio.gather(*asked, return_exceptions=True))[10:]
    )
