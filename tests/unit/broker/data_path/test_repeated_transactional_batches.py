"""Transactional batches that repeat an earlier request, compared with a node each of whose requests takes the ordinary way."""

import asyncio
import struct
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.broker.data_path.produce_repetitions import TRANSACTIONAL_ID_SIZE_MAX
from esp.model.errors import ErrorCode
from esp.protocol.messages import encode_request
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, produce, produce_request
from tests.unit.broker.simulated_node import records, values
from tests.unit.broker.transaction_conversation import ID, add, end, init, set_level, until_state, with_transactions


def batch_of(producer, sequence=0, *batch_values, transactional=True):
    producer_id, epoch = producer
    return records(
        *batch_values or (b"v",),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def frame_of(batch, *, partition=0, version=12, transactional_id=ID):
    request = produce_request([("t", partition, batch)], version=version, transactional_id=transactional_id)
    return encode_request(ApiKey.PRODUCE, version, 5, "test", request)


def answer_to(shortcut, frame):
    return shortcut.answer(memoryview(bytearray(frame)))


async def begun(node, client, *, version=12, transactional_id=ID):
    """A producer with two batches in an open transaction; what its connection remembers."""
    await create_topic(client, partitions=2)
    made = await init(client, transactional_id=transactional_id)
    producer = made.producer_id, made.producer_epoch
    if version < 12:
        await add(client, producer, {"t": [0, 1]}, transactional_id=transactional_id)
    for sequence in range(2):
        sent = await produce(
            client, "t", batch_of(producer, sequence), version=version, transactional_id=transactional_id
        )
        assert (sent.error_code, sent.base_offset) == (ErrorCode.none, sequence)
    return producer, shortcut_of(node)


def shortcut_of(node):
    """The only shortcut that a connection has; None if there is none."""
    shortcuts = [each.client.shortcut for each in node.server._sessions if each.client.shortcut is not None]
    return shortcuts[0] if shortcuts else None


@pytest.mark.parametrize("version", [9, 11, 12])
@with_transactions()
async def test_the_next_batch_of_an_open_transaction_is_answered_by_the_short_way(node, client, version):
    producer, shortcut = await begun(node, client, version=version)
    assert answer_to(shortcut, frame_of(batch_of(producer, 2, b"by", b"it"), version=version)) is not None
    log = node.log("t")
    assert values(log.read(0, 1 << 20, log.log_end_offset, at_least_one=True)) == [b"v", b"v", b"by", b"it"]
    assert log.producers.has_open_transaction(*producer)


@with_transactions()
async def test_a_producer_of_one_batch_in_each_transaction_is_not_remembered(node, client):
    """Each of its requests takes the ordinary way: a short one would be looked for in vain."""
    await create_topic(client)
    made = await init(client)
    for epoch in range(3):
        producer = made.producer_id, epoch
        assert (await produce(client, "t", batch_of(producer), transactional_id=ID)).error_code is ErrorCode.none
        assert shortcut_of(node) is None
        await end(client, producer)
        await until_state(client, "CompleteCommit")


@with_transactions()
async def test_a_batch_that_opens_a_transaction_goes_the_ordinary_way(node, client):
    producer, shortcut = await begun(node, client)
    answer = await end(client, producer)
    following = answer.producer_id, answer.producer_epoch
    await until_state(client, "CompleteCommit")
    end_offset = node.log("t").log_end_offset
    for of_producer, sequence in ((producer, 2), (following, 0)):
        assert answer_to(shortcut, frame_of(batch_of(of_producer, sequence))) is None
    assert node.log("t").log_end_offset == end_offset
    sent = await produce(client, "t", batch_of(following), transactional_id=ID)
    assert (sent.error_code, sent.base_offset) == (ErrorCode.none, end_offset)
    assert answer_to(shortcut, frame_of(batch_of(following, 1))) is not None


@with_transactions()
async def test_what_is_of_no_open_transaction_goes_the_ordinary_way_untouched(node, client):
    producer, shortcut = await begun(node, client)
    await init(client, transactional_id="other")
    producer_id, epoch = producer
    others = {
        "another transactional id": frame_of(batch_of(producer, 2), transactional_id="bpp"),
        "a longer one": frame_of(batch_of(producer, 2), transactional_id="app2"),
        "none": frame_of(batch_of(producer, 2), transactional_id=None),
        "no transactional batch": frame_of(batch_of(producer, 2, transactional=False)),
        "no producer": frame_of(records(b"v")),
        "another producer": frame_of(batch_of((producer_id + 1, 0))),
        "a later epoch": frame_of(batch_of((producer_id, epoch + 1))),
        "another partition": frame_of(batch_of(producer), partition=1),
        "less than a header": frame_of(batch_of(producer, 2)[:60]),
    }
    for name, frame in others.items():
        before = bytearray(frame)
        assert shortcut.answer(memoryview(before)) is None, name
        assert before == frame, name
    assert node.log("t").log_end_offset == 2
    assert answer_to(shortcut, frame_of(batch_of(producer, 2))) is not None


@with_transactions()
async def test_where_transactions_are_no_longer_served_none_goes_on(node, client):
    producer, shortcut = await begun(node, client)
    await set_level(node, 0)
    assert answer_to(shortcut, frame_of(batch_of(producer, 2))) is None
    sent = await produce(client, "t", batch_of(producer, 2), transactional_id=ID)
    assert sent.error_code is ErrorCode.transactional_id_authorization_failed


@with_transactions()
async def test_a_transactional_id_too_long_to_be_remembered_goes_the_ordinary_way(node, client):
    _, shortcut = await begun(node, client, transactional_id="x" * (TRANSACTIONAL_ID_SIZE_MAX + 1))
    assert shortcut is None


ERROR_CODE = slice(13, 15)
"""Its place in the answer to a request for one partition of topic t."""

TURN = st.tuples(
    st.just("produce"),
    st.sampled_from((0, 0, 0, 1)),
    st.sampled_from((0, 0, 0, 0, 0, 1, -1)),
    st.sampled_from((True, True, True, True, True, False)),
)
"""Partition, how far the sequence is from the right one, and whether the batch is transactional."""

STEPS = st.lists(
    st.one_of(*[TURN] * 6, st.tuples(st.just("end"), st.booleans()), st.just(("fence",))), min_size=4, max_size=16
)


class OrdinaryWay:
    """In the place of what counts the answers of a shortcut: there are none."""

    def answer(self, shortcut, frame):
        return None


async def play(node, client, steps, version, seen, *, shortly):
    """Put all answers, and what stands in the logs afterwards, into ``seen``."""
    await create_topic(client, partitions=2)
    if not shortly:
        for session in node.server._sessions:
            session.client.counter = OrdinaryWay()
    made = await init(client)
    producer, sequences = (made.producer_id, made.producer_epoch), {0: 0, 1: 0}
    for step in steps:
        if step[0] == "produce":
            _, partition, off_by, transactional = step
            if version < 12:
                await add(client, producer, {"t": [partition]})
            sequence = max(0, sequences[partition] + off_by)
            batch = batch_of(producer, sequence, transactional=transactional)
            answer = await client.send_frame(frame_of(batch, partition=partition, version=version), 5)
            seen.append(bytes(answer))
            sequences[partition] += struct.unpack(">h", seen[-1][ERROR_CODE]) == (0,) and off_by == 0
        elif step[0] == "end":
            answer = await end(client, producer, commit=step[1])
            seen.append(answer.error_code)
            if answer.error_code is ErrorCode.none:
                producer = answer.producer_id, answer.producer_epoch
                await asyncio.sleep(1)
        else:  # another instance takes over, and this one writes on as a zombie
            seen.append((await init(client)).error_code)
            await asyncio.sleep(1)
    logs = [node.log("t", partition) for partition in (0, 1)]
    seen += [bytes(log.read(0, 1 << 30, log.log_end_offset, at_least_one=False)) for log in logs]


@settings(max_examples=20, deadline=None)
@given(STEPS, st.sampled_from((11, 12)))
def test_both_ways_give_the_same_answers_and_the_same_logs(steps, version):
    ways = [], []
    for seen, shortly in zip(ways, (True, False), strict=True):
        with_transactions()(partial(play, shortly=shortly))(steps, version, seen)
    assert ways[0] == ways[1]
