import uuid

import pytest

from esp.model.errors import ErrorCode
from esp.protocol.messages import encode_request
from esp.protocol.registry import ApiKey
from esp.records.builder import NewRecord, build_batch, seal_batch
from esp.records.compression import compress
from tests.unit.broker.conversation import (
    create_topic,
    fetch,
    init_producer_id,
    metadata,
    of_one_partition,
    produce,
    produce_later,
    produce_request,
)
from tests.unit.broker.simulated_node import RefusedError, records, simulated, values
from tests.unit.broker.transaction_conversation import set_level


def at(version, topic_id, name="t"):
    return topic_id if version >= 13 else name


@pytest.mark.parametrize("version", range(3, 14))
@simulated()
async def test_batches_get_the_offsets_in_their_order(node, version):
    client = await node.client()
    topic = at(version, await create_topic(client))
    for offset in (0, 2, 4):
        answer = await produce(client, topic, records(b"a", b"b"), version=version)
        assert (answer.error_code, answer.base_offset, answer.index) == (ErrorCode.none, offset, 0)
        assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert values((await fetch(client, "t")).records) == [b"a", b"b"] * 3


@pytest.mark.parametrize("version", range(3, 14))
@simulated()
async def test_what_is_not_there_is_refused_by_name_or_id(node, version):
    client = await node.client()
    topic_id = await create_topic(client)
    unknown = await produce(client, at(version, uuid.uuid4(), "u"), records(b"a"), version=version)
    code = ErrorCode.unknown_topic_id if version >= 13 else ErrorCode.unknown_topic_or_partition
    assert (unknown.error_code, unknown.base_offset) == (code, -1)
    answer = await produce(client, at(version, topic_id), records(b"a"), partition=1, version=version)
    assert answer.error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("acks", [-1, 1])
@simulated()
async def test_each_partition_is_answered_for_itself(node, acks):
    client = await node.client()
    await create_topic(client, partitions=2)
    request = produce_request(
        [("t", 0, records(b"a")), ("u", 0, records(b"b")), ("t", 1, b"junk"), ("t", 1, records(b"c"))], acks=acks
    )
    answer = await client.call(ApiKey.PRODUCE, 12, request)
    seen = [
        (topic.name, part.index, int(part.error_code))
        for topic in answer.responses
        for part in topic.partition_responses
    ]
    assert seen == [("t", 0, 0), ("u", 0, 3), ("t", 1, 87), ("t", 1, 0)]


@pytest.mark.parametrize("acks", [2, -2, 32767])
@simulated()
async def test_an_impossible_number_of_acks_is_refused_and_nothing_is_appended(node, acks):
    client = await node.client()
    await create_topic(client)
    assert (await produce(client, "t", records(b"a"), acks=acks)).error_code is ErrorCode.invalid_required_acks
    assert node.log("t").log_end_offset == 0


@simulated()
async def test_transactional_requests_are_refused_at_level_0(node):
    await set_level(node, 0)
    client = await node.client()
    await create_topic(client)
    answer = await produce(client, "t", records(b"a"), transactional_id="x")
    assert answer.error_code is ErrorCode.transactional_id_authorization_failed
    assert node.log("t").log_end_offset == 0


@pytest.mark.parametrize("batch", [None, b"", b"x" * 60, bytes(200)])
@simulated()
async def test_what_is_no_batch_is_refused_and_nothing_is_appended(node, batch):
    client = await node.client()
    await create_topic(client)
    answer = await produce(client, "t", batch)
    assert answer.error_code in (ErrorCode.invalid_record, ErrorCode.corrupt_message)
    assert node.log("t").log_end_offset == 0
    assert (await produce(client, "t", records(b"a"))).base_offset == 0


@simulated()
async def test_acks_0_is_never_answered_and_later_requests_are(node):
    client = await node.client()
    await create_topic(client)
    for _ in range(3):
        client.connection.write([_frame_without_answer(records(b"a"))])
    assert (await produce(client, "t", records(b"b"))).base_offset == 3


def _frame_without_answer(batch, topic="t"):
    return encode_request(ApiKey.PRODUCE, 12, 99, "test", produce_request([(topic, 0, batch)], acks=0))


@simulated()
async def test_acks_0_that_is_refused_ends_the_connection(node):
    client, other = await node.client(), await node.client()
    await create_topic(other)
    client.connection.write([_frame_without_answer(records(b"a"), topic="u")])
    with pytest.raises(RefusedError):
        await produce(client, "t", records(b"b"))
    assert (await produce(other, "t", records(b"b"))).error_code is ErrorCode.none


@simulated()
async def test_a_retry_of_an_idempotent_batch_gets_the_same_offset_and_is_not_appended_again(node):
    client = await node.client()
    await create_topic(client)
    producer_id = (await init_producer_id(client)).producer_id

    def batch(sequence, epoch=0):
        return records(b"a", b"b", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)

    for sequence in (0, 2, 4):
        assert (await produce(client, "t", batch(sequence))).base_offset == sequence
    for restart in (False, True):
        if restart:
            await node.restart()
            client = await node.client()
        for sequence in (0, 4, 2):
            answer = await produce(client, "t", batch(sequence))
            assert (answer.error_code, answer.base_offset) == (ErrorCode.none, sequence)
    assert node.log("t").log_end_offset == 6
    assert (await produce(client, "t", batch(8))).error_code is ErrorCode.out_of_order_sequence_number
    assert (await produce(client, "t", batch(0, epoch=1))).base_offset == 6
    assert (await produce(client, "t", batch(6))).error_code is ErrorCode.invalid_producer_epoch


@simulated()
async def test_a_retry_of_a_batch_that_is_not_flushed_yet_waits_for_the_flush_too(node):
    client, other = await node.client(), await node.client()
    await create_topic(client, flush_messages=1)
    batch = records(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    first = produce_later(client, "t", batch)
    second = produce_later(other, "t", batch)
    for answer in (await first, await second):
        assert answer.responses[0].partition_responses[0].base_offset == 0
    assert node.log("t").recovery_point == 1


@simulated()
async def test_the_brokers_time_is_stamped_where_the_topic_wants_that(node):
    client = await node.client()
    await create_topic(client, message_timestamp_type="LogAppendTime")
    answer = await produce(client, "t", records(b"a", timestamp_ms=5))
    assert answer.log_append_time is not None
    now_ms = node.env.clock.wall_ms()
    assert now_ms - 100 < answer.log_append_time.timestamp() * 1000 <= now_ms


@pytest.mark.parametrize("version", [6, 7])
@simulated()
async def test_zstd_needs_version_7(node, version):
    client = await node.client()
    await create_topic(client)
    answer = await produce(client, "t", records(b"a", codec=4), version=version)
    assert answer.error_code is (ErrorCode.none if version == 7 else ErrorCode.unsupported_compression_type)


@simulated()
async def test_too_few_replicas_are_refused_before_anything_is_appended(node):
    client = await node.client()
    await create_topic(client, min_insync_replicas=1)
    await produce(client, "t", records(b"a"))
    node.hosted("t").leader._may_commit = False
    assert (await produce(client, "t", records(b"b"))).error_code is ErrorCode.not_enough_replicas
    assert (await produce(client, "t", records(b"b"), acks=1)).error_code is ErrorCode.none


@pytest.mark.parametrize("version", [8, 12], ids=["ordinary way", "short way"])
@simulated()
async def test_what_is_behind_a_refused_batch_on_its_connection_is_refused_like_it(node, version):
    async def send(client, sequence):
        batch = records(b"%d" % sequence, producer_id=7, producer_epoch=0, base_sequence=sequence)
        answer = await produce(client, "t", batch, version=version)
        return answer.error_code, answer.base_offset

    client, other = await node.client(), await node.client()
    await create_topic(client)
    assert await send(client, 0) == (ErrorCode.none, 0)
    leader = node.hosted("t").leader
    leader._may_commit = False
    assert await send(client, 1) == (ErrorCode.not_enough_replicas, -1)
    leader._may_commit = True
    assert await send(client, 2) == (ErrorCode.not_enough_replicas, -1)
    assert await send(other, 2) == (ErrorCode.out_of_order_sequence_number, -1)
    for sequence in (1, 2, 3):
        assert await send(client, sequence) == (ErrorCode.none, sequence)


@simulated(offsets_topic_num_partitions=1)
async def test_only_administrators_write_to_internal_topics(node):
    client = await node.client()
    await metadata(client, ["__consumer_offsets"], create=True)
    answer = await produce(client, "__consumer_offsets", records(b"a"))
    assert (answer.error_code, answer.error_message) == (ErrorCode.invalid_topic_exception, None)
    request = produce_request([("__consumer_offsets", 0, keyed(b"a"))])
    answer = await client.send(ApiKey.PRODUCE, 12, request, client_id="__admin_client")
    assert of_one_partition(answer).error_code is ErrorCode.none


def keyed(*keys: bytes | None, codec: int = 0, size: int = 10) -> bytes:
    return build_batch([NewRecord(bytes(size), key) for key in keys], timestamp_ms=1_795_000_000_000, codec=codec)


@pytest.mark.parametrize("version", [7, 8, 12])
@pytest.mark.parametrize(("codec", "size"), [(0, 10), (0, 20_000), (1, 10), (4, 10)])
@simulated()
async def test_compacted_topics_refuse_records_without_a_key(node, version, codec, size):
    client = await node.client()
    await create_topic(client, cleanup_policy="compact")
    answer = await produce(client, "t", keyed(b"k", None, b"", None, codec=codec, size=size), version=version)
    assert answer.error_code is ErrorCode.invalid_record
    if version >= 8:
        text = "Compacted topic cannot accept message without key in topic partition t-0"
        assert [(error.batch_index, error.batch_index_error_message) for error in answer.record_errors] == [
            (1, text),
            (3, text),
        ]
        assert answer.error_message.startswith("One or more records have been rejected due to 2 record errors in total")
    assert node.log("t").log_end_offset == 0
    answer = await produce(client, "t", keyed(b"k", b"", codec=codec, size=size), version=version)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 0)


@simulated()
async def test_repeated_requests_to_compacted_topics_are_looked_at_too(node):
    client = await node.client()
    await create_topic(client, cleanup_policy="compact")
    for _ in range(3):
        assert (await produce(client, "t", keyed(b"k"), version=12)).error_code is ErrorCode.none
    assert (await produce(client, "t", keyed(None), version=12)).error_code is ErrorCode.invalid_record
    assert (await produce(client, "t", keyed(b"k", codec=2), version=12)).base_offset == 3


@pytest.mark.parametrize("codec", [0, 1])
@simulated()
async def test_compacted_topics_refuse_records_that_are_none(node, codec):
    client = await node.client()
    await create_topic(client, cleanup_policy="compact")
    batch = seal_batch(compress(codec, b"\x10\0\0\0\x02k"), 1, base_timestamp=0, max_timestamp=0, attributes=codec)
    assert (await produce(client, "t", batch)).error_code is ErrorCode.invalid_record
    assert node.log("t").log_end_offset == 0
