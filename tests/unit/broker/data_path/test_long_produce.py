"""Whole nodes with topics that recompress, and with requests for very many partitions.

Time is virtual: work beside the loop takes up to four milliseconds, requests less than that.
"""

import asyncio

import pytest

from esp.model.errors import ErrorCode
from esp.protocol.messages import encode_request
from esp.protocol.progress import AT_ONCE_ELEMENTS
from esp.protocol.registry import ApiKey
from esp.records.batch_header import read_header
from tests.unit.broker.config_requests import SET, TOPIC, alter
from tests.unit.broker.conversation import (
    create_topic,
    delete_topic,
    fetch,
    init_producer_id,
    of_one_partition,
    produce,
    produce_later,
    produce_request,
)
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import RefusedError, records, simulated, values

NAMES = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
ROUNDS = 20
MANY = AT_ONCE_ELEMENTS + 60


def headers(data):
    found = []
    data = memoryview(bytes(data))
    while data:
        found.append(read_header(data))
        data = data[found[-1].size :]
    return found


@pytest.mark.parametrize("name", NAMES)
@simulated()
async def test_every_batch_is_kept_in_the_codec_of_its_topic(node, name):
    client = await node.client()
    await create_topic(client, compression_type=name)
    for codec in range(5):
        answer = await produce(client, "t", records(b"%d" % codec, b"x", codec=codec))
        assert (answer.error_code, answer.base_offset) == (0, 2 * codec)
    found = await fetch(client, "t")
    assert {header.codec for header in headers(found.records)} == {NAMES.index(name)}
    assert values(found.records) == [value for codec in range(5) for value in (b"%d" % codec, b"x")]


@simulated()
async def test_batches_of_one_connection_keep_their_order_however_long_one_takes(node):
    client = await node.client()
    await create_topic(client, compression_type="zstd")
    batches = [records(b"%d" % number, codec=4 if number % 3 else 1) for number in range(ROUNDS)]
    answers = [of_one_partition(await sent) for sent in [produce_later(client, "t", batch) for batch in batches]]
    assert [answer.base_offset for answer in answers] == list(range(ROUNDS))
    assert values((await fetch(client, "t")).records) == [b"%d" % number for number in range(ROUNDS)]


@simulated()
async def test_an_idempotent_producer_with_requests_in_flight_is_never_out_of_order(node):
    client = await node.client()
    await create_topic(client, compression_type="uncompressed")
    producer = (await init_producer_id(client)).producer_id
    sent = [
        produce_later(
            client,
            "t",
            records(b"x", codec=number % 5, producer_id=producer, producer_epoch=0, base_sequence=number),
        )
        for number in range(ROUNDS)
    ]
    answers = [of_one_partition(await one) for one in sent]
    assert [(int(answer.error_code), answer.base_offset) for answer in answers] == [(0, n) for n in range(ROUNDS)]
    kept = headers((await fetch(client, "t")).records)
    assert [(header.producer_id, header.base_sequence) for header in kept] == [(producer, n) for n in range(ROUNDS)]
    again = records(b"x", codec=4, producer_id=producer, producer_epoch=0, base_sequence=ROUNDS - 1)
    assert (await produce(client, "t", again)).base_offset == ROUNDS - 1
    assert node.log("t").log_end_offset == ROUNDS


@simulated()
async def test_other_connections_are_not_held_up(node):
    slow, quick = await node.client(), await node.client()
    await create_topic(slow, "slow", compression_type="zstd")
    await create_topic(slow, "quick")
    waiting = [produce_later(slow, "slow", records(b"x")) for _ in range(ROUNDS)]
    for number in range(ROUNDS):
        assert (await produce(quick, "quick", records(b"x"))).base_offset == number
        if waiting[-1].done():
            break
    assert not waiting[-1].done()
    assert [of_one_partition(await one).base_offset for one in waiting] == list(range(ROUNDS))


@pytest.mark.parametrize("acks", [-1, 1])
@simulated()
async def test_each_partition_of_a_request_is_answered_for_itself(node, acks):
    client = await node.client()
    await create_topic(client, "plain")
    await create_topic(client, "lz4", compression_type="lz4")
    parts = [
        ("plain", 0, records(b"a")),
        ("lz4", 0, records(b"b")),
        ("lz4", 0, None),
        ("missing", 0, records(b"c")),
        ("plain", 0, b"junk"),
        ("lz4", 0, records(b"d", codec=1)),
        ("plain", 0, records(b"e")),
    ]
    answer = await client.call(ApiKey.PRODUCE, 12, produce_request(parts, acks=acks))
    seen = [
        (topic.name, int(part.error_code), part.base_offset)
        for topic in answer.responses
        for part in topic.partition_responses
    ]
    assert seen == [
        ("plain", 0, 0),
        ("lz4", 0, 0),
        ("lz4", 87, -1),
        ("missing", 3, -1),
        ("plain", 87, -1),
        ("lz4", 0, 1),
        ("plain", 0, 1),
    ]


def frame(*parts, acks):
    return encode_request(ApiKey.PRODUCE, 12, 99, "test", produce_request(parts, acks=acks))


@simulated()
async def test_acks_0_is_never_answered_and_keeps_the_order(node):
    client = await node.client()
    await create_topic(client, compression_type="gzip")
    for number in range(3):
        client.connection.write([frame(("t", 0, records(b"%d" % number)), acks=0)])
    assert (await produce(client, "t", records(b"3"))).base_offset == 3
    assert values((await fetch(client, "t")).records) == [b"0", b"1", b"2", b"3"]


@simulated()
async def test_acks_0_that_is_refused_ends_the_connection(node):
    client, other = await node.client(), await node.client()
    await create_topic(client, compression_type="gzip")
    client.connection.write([frame(("t", 0, records(b"a")), ("missing", 0, records(b"b")), acks=0)])
    with pytest.raises(RefusedError):
        await produce(client, "t", records(b"c"))
    assert values((await fetch(other, "t")).records) == [b"a"]


@simulated()
async def test_what_cannot_be_opened_is_refused_and_nothing_is_appended(node):
    client = await node.client()
    await create_topic(client, compression_type="uncompressed", max_message_bytes=1000)
    answer = await produce(client, "t", records(bytes(1000), codec=4))
    assert answer.error_code is ErrorCode.message_too_large
    assert node.log("t").log_end_offset == 0
    assert (await produce(client, "t", records(bytes(100), codec=4))).base_offset == 0


@simulated()
async def test_what_became_too_large_is_refused(node):
    client = await node.client()
    await create_topic(client, compression_type="zstd", max_message_bytes=len(records(b"a")))
    assert (await produce(client, "t", records(b"a"))).error_code is ErrorCode.message_too_large
    assert node.log("t").log_end_offset == 0


@simulated()
async def test_the_broker_s_time_is_stamped_on_what_was_recompressed(node):
    client = await node.client()
    await create_topic(client, compression_type="zstd", message_timestamp_type="LogAppendTime")
    answer = await produce(client, "t", records(b"a", timestamp_ms=5))
    (header,) = headers((await fetch(client, "t")).records)
    assert (header.codec, header.has_log_append_time) == (4, True)
    assert header.max_timestamp > 5
    assert answer.log_append_time is not None


@simulated()
async def test_requests_too_old_for_zstd_may_produce_to_a_topic_of_that_codec(node):
    client = await node.client()
    await create_topic(client, compression_type="zstd")
    assert (await produce(client, "t", records(b"a"), version=3)).base_offset == 0
    refused = await produce(client, "t", records(b"a", codec=4), version=6)
    assert refused.error_code is ErrorCode.unsupported_compression_type


@simulated()
async def test_the_codec_changes_while_the_node_runs(node):
    client = await node.client()
    await create_topic(client)
    for name in ("producer", *NAMES, "producer"):
        assert await alter(client, (TOPIC, "t", ("compression.type", SET, name))) == [(ErrorCode.none, None)]
        await asyncio.sleep(1)
        before = node.log("t").log_end_offset
        assert (await produce(client, "t", records(b"a", codec=3))).error_code is ErrorCode.none
        (header,) = headers((await fetch(client, "t", before)).records)
        assert header.codec == (3 if name == "producer" else NAMES.index(name))


@simulated(compression_type="gzip", compression_gzip_level=1)
async def test_topics_without_a_codec_of_their_own_have_the_node_s(node):
    client = await node.client()
    await create_topic(client)
    await create_topic(client, "own", compression_type="producer")
    for topic, codec in (("t", 1), ("own", 0)):
        await produce(client, topic, records(b"a"))
        (header,) = headers((await fetch(client, topic)).records)
        assert header.codec == codec


@simulated()
async def test_a_topic_may_be_deleted_and_a_client_may_go_while_a_batch_is_recompressed(node):
    client, other = await node.client(), await node.client()
    await create_topic(client, compression_type="zstd")
    await create_topic(client, "kept", compression_type="zstd")
    for number in range(ROUNDS):
        leaving = await node.client()
        leaving.connection.write([frame(("kept", 0, records(b"%d" % number)), acks=0)])
        await asyncio.sleep(node.rng.random() / 500)
        leaving.close()
    waiting = [produce_later(client, "t", records(b"x")) for _ in range(ROUNDS)]
    assert (await delete_topic(other, "t")).error_code is ErrorCode.none
    codes = [of_one_partition(await one).error_code for one in waiting]
    taken = codes.count(ErrorCode.none)
    assert codes[:taken] == [ErrorCode.none] * taken, "what comes after a refused batch is not taken"
    # until the files are put aside, clients are told to ask again who leads
    assert {*codes[taken:]} <= {ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_or_partition}
    assert len(codes) > taken
    assert (await produce(other, "t", records(b"late"))).error_code is ErrorCode.unknown_topic_or_partition
    assert (await produce(other, "kept", records(b"last"))).error_code is ErrorCode.none


# Very many partitions.


@simulated()
async def test_a_batch_behind_a_refused_one_is_refused_like_it_among_very_many_too(node):
    def batch(sequence):
        return records(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence)

    client = await node.client()
    await create_topic(client, partitions=MANY)
    leader = node.hosted("t").leader
    leader._may_commit = False
    assert (await produce(client, "t", batch(0))).error_code is ErrorCode.not_enough_replicas
    leader._may_commit = True
    for sequence, code in ((1, ErrorCode.not_enough_replicas), (0, ErrorCode.none), (1, ErrorCode.none)):
        parts = [("t", partition, batch(sequence)) for partition in range(MANY)]
        answer = await client.call(ApiKey.PRODUCE, 12, produce_request(parts))
        codes = {part.index: part.error_code for topic in answer.responses for part in topic.partition_responses}
        assert codes[0] is code


def many_parts(count=MANY):
    """For the partitions in turn; one of them there is not, one batch is junk, one topic recompresses."""
    parts = [("t", partition, records(b"%d" % partition)) for partition in range(count)]
    parts[30] = ("missing", 0, records(b"a"))
    parts[64] = ("t", 64, b"junk")
    parts[65] = ("lz4", 0, records(b"b"))
    return parts


async def with_many_partitions(node):
    client = await node.client()
    await create_topic(client, partitions=MANY)
    await create_topic(client, "lz4", compression_type="lz4")
    return client


@pytest.mark.parametrize("acks", [-1, 1, 5])
@pytest.mark.parametrize("version", [3, 8, 12])
@simulated()
async def test_every_partition_of_very_many_is_answered_for_itself(node, version, acks):
    client = await with_many_partitions(node)
    answer = await client.call(ApiKey.PRODUCE, version, produce_request(many_parts(), acks=acks, version=version))
    seen = [
        (topic.name, part.index, part.error_code) for topic in answer.responses for part in topic.partition_responses
    ]
    assert [place[:2] for place in seen] == [part[:2] for part in many_parts()]
    refused = {30: ErrorCode.unknown_topic_or_partition, 64: ErrorCode.invalid_record}
    if acks == 5:
        refused = dict.fromkeys(range(MANY), ErrorCode.invalid_required_acks)
    assert {place: code for place, (*_, code) in enumerate(seen) if code} == refused
    ends = [node.log("t", partition).log_end_offset for partition in range(MANY)]
    assert ends == [int(acks != 5 and partition not in (30, 64, 65)) for partition in range(MANY)]


@simulated()
async def test_others_are_served_while_very_many_partitions_are_written(node):
    busy, other = await node.client(), await node.client()
    await create_topic(busy)
    await produce(other, "t", records(b"0"))
    parts = [("missing", partition, records(b"a")) for partition in range(2_000)]
    long = busy.send(ApiKey.PRODUCE, 12, produce_request([*parts, ("t", 0, records(b"last"))]))
    turns = 0
    while not long.done():
        turns += 1
        assert (await produce(other, "t", records(b"x"))).error_code is ErrorCode.none
    assert turns > 1
    assert 1 < (await long).responses[-1].partition_responses[0].base_offset <= turns + 1


@simulated()
async def test_what_follows_very_many_partitions_is_appended_behind_them(node):
    client = await with_many_partitions(node)
    long = client.send(ApiKey.PRODUCE, 12, produce_request(many_parts()))
    after = [produce_later(client, "t", records(b"after"), partition=MANY - 1) for _ in range(3)]
    assert [of_one_partition(await answer).base_offset for answer in after] == [1, 2, 3]
    assert long.done()


@simulated()
async def test_very_many_partitions_without_an_answer(node):
    client, other = await with_many_partitions(node), await node.client()
    whole = [("t", partition, records(b"a")) for partition in range(MANY)]
    client.connection.write([frame(*whole, acks=0)])
    assert (await produce(client, "t", records(b"b"), partition=MANY - 1)).base_offset == 1
    client.connection.write([frame(*many_parts(), acks=0)])
    with pytest.raises(RefusedError):
        await produce(client, "t", records(b"c"))
    assert node.log("t", MANY - 1).log_end_offset == 3
    assert (await produce(other, "t", records(b"c"))).base_offset == 2


@simulated()
async def test_very_many_partitions_that_end_in_the_middle_end_the_connection(node):
    client = await with_many_partitions(node)
    whole = frame(*many_parts(), acks=-1)
    with pytest.raises(RefusedError):
        await client.send_frame(whole[:-3000] + b"\xff" * 3000, 99)
    assert node.log("t").log_end_offset == 0


@clustered()
async def test_very_many_partitions_are_acknowledged_when_all_followers_have_them(cluster):
    cluster.controller.create(partitions=MANY, leader=1)  # so that followers name very many partitions too
    await cluster.applied()
    client = await cluster[1].client()
    parts = [("t", partition, records(b"%d" % partition)) for partition in range(MANY)]
    answer = await client.call(ApiKey.PRODUCE, 12, produce_request(parts))
    codes = [part.error_code for topic in answer.responses for part in topic.partition_responses]
    assert codes == [ErrorCode.none] * MANY
    ends = {cluster[node].log(partition=number).log_end_offset for node in (1, 2, 3) for number in range(MANY)}
    assert ends == {1}


@clustered()
async def test_followers_get_the_recompressed_bytes_and_acks_all_waits_for_them(cluster):
    cluster.controller.create(compression_type="lz4")
    await cluster.applied()
    client = await cluster[1].client()
    for number in range(5):
        answer = await produce(client, "t", records(b"%d" % number, codec=number))
        assert (answer.error_code, answer.base_offset) == (0, number)
        assert all(cluster[node].log().log_end_offset > number for node in (1, 2, 3))
    await cluster.until(cluster.are_equal)
    assert {header.codec for header in headers(cluster[2].bytes_of())} == {3}
