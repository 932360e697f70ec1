"""The controller on its log: what is acknowledged is there after any crash, and nothing is seen before it is committed."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.controller.brokers import ControllerRegistration
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.image import EMPTY_IMAGE
from esp.controller.replay import MetadataReplay
from esp.controller.topics import NewTopic
from esp.model.errors import ApiError, ErrorCode, OperatorError
from esp.model.ids import METADATA_PARTITION, BrokerEpoch, LeaderEpoch, NodeId
from esp.raft.quorum_state import QuorumState
from esp.records.batch import iterate_records
from esp.records.batch_header import read_header
from esp.schemas.metadata_frames import decode_record, encode_record
from esp.schemas.metadata_records import BeginTransactionRecord, RegisterControllerRecord, TopicRecord
from tests.unit.broker.metadata_node import LOG_PATH, NODE, PATH, FatalError, MetadataNode


def _batches(node):
    data = node.disk.read_file(f"{LOG_PATH}/{0:020d}.log")
    while data:
        header = read_header(data)
        yield header, data[: header.size]
        data = data[header.size :]


def _fold(node):
    """The image that the log on the disk gives."""
    replay = MetadataReplay(EMPTY_IMAGE)
    for header, batch in _batches(node):
        if not header.is_control:
            for record in iterate_records(batch):
                replay.replay(record.offset, decode_record(record.value))
    replay.publish(header.last_offset, LeaderEpoch(header.leader_epoch))
    return replay.image


async def test_a_new_cluster_begins_as_kafkas_does():
    node = MetadataNode()
    controller = await node.start()
    headers = [header for header, _ in _batches(node)]
    assert [(header.base_offset, header.is_control) for header in headers] == [(0, True), (3, False), (8, False)]
    assert controller.image == _fold(node)
    assert controller.image.features["metadata.version"] == 30
    assert list(controller.image.controllers) == [NODE]
    assert QuorumState.decode(node.disk.read_file(f"{LOG_PATH}/quorum-state")).leader_epoch == 1


async def test_everything_is_there_after_an_orderly_stop():
    node = MetadataNode()
    controller = await node.start()
    epoch = await node.start_broker(controller)
    await controller.create_topics([NewTopic(name="t", num_partitions=2, configs={"a": "b"})], validate_only=False)
    await controller.controlled_shutdown(NODE, epoch)
    before = controller.image
    await node.stop(controller, epoch)
    node.changes.clear()
    controller = await node.start()
    assert node.directory.was_clean
    assert node.directory.clean_broker_epoch == epoch
    assert controller.image.topics_by_name == before.topics_by_name
    assert controller.image.brokers == before.brokers
    assert controller.image.epoch == 2
    first_image, first_delta = node.changes[0]
    assert set(first_delta.changed_partitions) == set(first_image.topics_by_id)
    await node.start_broker(controller, node.directory.clean_broker_epoch)
    topic = controller.image.topics_by_name["t"]
    assert all(partition.leader == NODE and not partition.recovering for partition in topic.partitions)


async def test_a_killed_node_leads_its_partitions_at_once_when_it_is_back():
    node = MetadataNode()
    controller = await node.start()
    await node.start_broker(controller)
    await controller.create_topics([NewTopic(name="t", num_partitions=3)], validate_only=False)
    await node.kill()
    controller = await node.start()
    await node.start_broker(controller)
    topic = controller.image.topics_by_name["t"]
    assert [(partition.leader, partition.isr) for partition in topic.partitions] == [(NODE, (NODE,))] * 3


async def test_producer_ids_are_never_given_twice_even_if_the_node_is_killed():
    node = MetadataNode()
    given_ids = []
    for _ in range(3):
        controller = await node.start()
        epoch = await node.start_broker(controller)
        given_ids += await controller.allocate_producer_ids(NODE, epoch)
        await node.kill(power=True)
    assert len(set(given_ids)) == 3000


async def test_many_changes_of_one_turn_share_a_flush():
    node = MetadataNode()
    controller = await node.start()
    await node.start_broker(controller)
    syncs = []

    async def count(operation, size):
        syncs.append(operation)
        await asyncio.sleep(0)

    node.disk.wait = count
    results = await asyncio.gather(
        *(controller.create_topics([NewTopic(name=f"t{number}")], validate_only=False) for number in range(50))
    )
    assert all(result[0].name == f"t{number}" for number, result in enumerate(results))
    assert len(syncs) == 1


async def test_nothing_is_answered_or_seen_before_it_is_committed():
    node = MetadataNode()
    controller = await node.start()
    await node.start_broker(controller)
    gate = asyncio.Event()

    async def wait(_operation, _size):
        await gate.wait()

    node.disk.wait = wait
    create = asyncio.create_task(controller.create_topics([NewTopic(name="t")], validate_only=False))
    refuse = asyncio.create_task(controller.create_topics([NewTopic(name="t")], validate_only=False))
    stale = asyncio.create_task(controller.unfence_broker(NODE, BrokerEpoch(0)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not create.done()
    assert not refuse.done()  # what refuses it is not committed yet (RAFT-21)
    assert not stale.done()
    assert "t" not in controller.image.topics_by_name
    gate.set()
    assert (await create)[0].name == "t"
    assert (await refuse)[0].code is ErrorCode.topic_already_exists
    with pytest.raises(ApiError):
        await stale
    assert "t" in controller.image.topics_by_name


async def test_closing_waits_for_what_was_decided():
    node = MetadataNode()
    controller = await node.start()
    await node.start_broker(controller)
    create = asyncio.create_task(controller.create_topics([NewTopic(name="t")], validate_only=False))
    await asyncio.sleep(0)
    await node.stop(controller)
    assert (await create)[0].name == "t"
    assert "t" in (await node.start()).image.topics_by_name


async def test_a_caller_that_gave_up_does_not_hold_up_the_others():
    node = MetadataNode()
    controller = await node.start()
    await node.start_broker(controller)
    first = asyncio.create_task(controller.create_topics([NewTopic(name="a")], validate_only=False))
    second = asyncio.create_task(controller.create_topics([NewTopic(name="b")], validate_only=False))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second)[0].name == "b"
    assert set(controller.image.topics_by_name) == {"a", "b"}


async def test_deleting_answers_in_the_order_of_the_request():
    node = MetadataNode()
    controller = await node.start()
    await node.start_broker(controller)
    (created,) = await controller.create_topics([NewTopic(name="t")], validate_only=False)
    missing, deleted = await controller.delete_topics(["nope", created.topic_id])
    assert missing.code is ErrorCode.unknown_topic_or_partition
    assert deleted.name == "t"
    assert not controller.image.topics_by_name


async def test_what_an_earlier_controller_left_half_done_never_happened():
    node = MetadataNode()
    controller = await node.start()
    controller._raft.propose(
        [
            encode_record(BeginTransactionRecord(name="x")),
            encode_record(TopicRecord(name="half", topic_id=node.env.random.uuid())),
        ]
    )
    await controller._raft.drain()
    await node.kill()
    controller = await node.start()
    assert not controller._replay.in_transaction
    assert not controller.image.topics_by_name
    await node.kill()
    assert not (await node.start()).image.topics_by_name


@pytest.mark.parametrize("pattern", ["*.log", f"{LOG_PATH}/quorum-state*"])
@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_an_error_of_the_disk_at_the_start_ends_the_node(operation, pattern):
    node = MetadataNode()
    await node.stop(await node.start())
    node.disk.fail(operation, pattern)
    start = asyncio.create_task(node.start())
    await asyncio.wait({start}, timeout=0.2)
    assert node.host.reason is not None
    assert LOG_PATH in node.host.reason
    await _end(start)


@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_an_error_of_the_disk_ends_the_node_and_nothing_is_acknowledged(operation):
    node = MetadataNode()
    controller = await node.start()
    await node.start_broker(controller)
    node.disk.fail(operation, "*.log")
    create = asyncio.create_task(controller.create_topics([NewTopic(name="t")], validate_only=False))
    await asyncio.wait({create}, timeout=0.2)
    assert LOG_PATH in node.host.reason
    assert "t" not in controller.image.topics_by_name
    await _end(create)


async def test_a_full_disk_ends_the_node_with_words_that_say_what_to_do():
    node = MetadataNode()
    await node.stop(await node.start())
    node.disk.fill_up(0)
    start = asyncio.create_task(node.start())
    await asyncio.wait({start}, timeout=0.2)
    assert "make room on its disk and start the node again" in node.host.reason
    await _end(start)


async def _end(task):
    """Collect a task of a node that has ended, and the node's own."""
    for other in {task, *asyncio.all_tasks()} - {asyncio.current_task()}:
        other.cancel()
        with pytest.raises((asyncio.CancelledError, FatalError)):
            await other


def _other_registration(node_id):
    return ControllerRegistration(
        node_id=node_id, incarnation_id=None, endpoints={}, security_protocols={}, features=SUPPORTED_FEATURES
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"registration": _other_registration(NodeId(2))}, ["node 1", "node.id is 2", PATH]),
        ({"cluster_id": "abcdefghijklmnopqrstuv"}, ["abcdefghijklmnopqrstuv", PATH]),
    ],
)
async def test_a_directory_of_another_node_or_cluster_is_refused(changes, words):
    node = MetadataNode()
    await node.stop(await node.start())
    with pytest.raises(OperatorError) as refused:
        await node.start(**changes)
    assert all(word in refused.value.problem for word in words)


async def test_a_log_of_newer_software_is_refused():
    node = MetadataNode()
    controller = await node.start()
    controller._raft.propose([bytes.fromhex("01630000")])
    await node.stop(controller)
    with pytest.raises(OperatorError, match="unknown key 99"):
        await node.start()


_STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "delete", "ids"]), st.sampled_from("abcde"), st.integers(1, 3)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.lists(st.tuples(_STEPS, st.integers(0, 40), st.booleans()), min_size=1, max_size=4))
def test_no_acknowledged_change_is_lost_at_any_crash(seed, lives):
    asyncio.run(_live(MetadataNode(seed), lives))


async def _live(node, lives):
    acknowledged = {}
    uncertain = set()
    ids = []
    quorum_epoch = 0
    for steps, turns, power in lives:
        controller = await node.start()
        assert controller.image == _fold(node)
        assert controller.image.epoch > quorum_epoch  # RAFT-5
        quorum_epoch = controller.image.epoch
        there = {name: len(topic.partitions) for name, topic in controller.image.topics_by_name.items()}
        for name in uncertain:
            acknowledged.pop(name, None)
            if name in there:
                acknowledged[name] = there[name]
        assert there == acknowledged
        epoch = await node.start_broker(controller)
        uncertain = set()

        async def work(controller=controller, epoch=epoch, steps=steps, uncertain=uncertain):
            for kind, name, partitions in steps:
                if kind == "ids":
                    ids.extend(await controller.allocate_producer_ids(NODE, epoch))
                    continue
                uncertain.add(name)
                if kind == "create":
                    (result,) = await controller.create_topics(
                        [NewTopic(name=name, num_partitions=partitions)], validate_only=False
                    )
                    if not isinstance(result, ApiError):
                        acknowledged[name] = partitions
                else:
                    (result,) = await controller.delete_topics([name])
                    if not isinstance(result, ApiError):
                        del acknowledged[name]
                uncertain.discard(name)

        working = asyncio.create_task(work())
        for _ in range(turns):
            await asyncio.sleep(0)
        await node.kill(power=power)
        del working
    assert len(set(ids)) == len(ids)
    assert node.host.reason is None


async def test_the_metadata_log_is_one_of_its_directorys_logs():
    node = MetadataNode()
    controller = await node.start()
    log = node.directory.logs[METADATA_PARTITION]
    assert log.high_watermark == log.log_end_offset == log.recovery_point == controller.image.offset + 1
    assert isinstance(decode_record(next(iterate_records(list(_batches(node))[-1][1])).value), RegisterControllerRecord)
