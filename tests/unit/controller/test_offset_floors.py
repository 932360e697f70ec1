"""Offsets that never go back: floors at deletion, by what they fall, where topics begin that are created again (FLOOR-1 to FLOOR-4)."""

import dataclasses
import itertools
import random
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.controller import offset_floors
from esp.controller.errors import InvalidMetadataError
from esp.controller.floor_records import FLOOR_PREFIX, format_piece, parse_piece
from esp.controller.image import EMPTY_IMAGE
from esp.controller.offset_floors import FinalEnd, are_settled, decide_final_ends
from esp.controller.partitions import NewPartitions, decide_create_partitions
from esp.controller.replay import MetadataReplay
from esp.controller.snapshot_records import snapshot_records
from esp.controller.topics import NewTopic, TopicCreation, TopicDefaults, decide_delete_topics
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NO_NODE, OFFSETS_TOPIC, LeaderEpoch, NodeId, TopicId
from esp.model.offset_floor import FLOOR_MAX, OFFSET_SPAN, PIECE_PARTITIONS, FloorPiece, PartitionFloor, floor_of
from esp.schemas.metadata_records import TOPIC_RESOURCE, ConfigRecord, RemoveTopicRecord
from tests.unit.controller.samples import Cluster, SeededRandom, accept_configs

CONTINUE = {"topic.recreate.offsets": "continue"}
RESET = {"topic.recreate.offsets": "reset"}


def create(cluster, name="t", partitions=1, configs=CONTINUE, factor=1):
    creation = TopicCreation(cluster.image, TopicDefaults(1, 1), accept_configs, cluster.random)
    wanted = NewTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=configs)
    [reply] = cluster.decide(creation.decide([wanted], validate_only=False))
    if isinstance(reply, ApiError):
        raise reply
    return cluster.image.topics_by_name[name]


def delete(cluster, name="t"):
    [reply] = cluster.decide(decide_delete_topics(cluster.image, [name]))
    assert not isinstance(reply, ApiError)


def report(cluster, node_id, topic, end, partition=0):
    ends = [FinalEnd(topic.name, topic.topic_id, partition, end)]
    cluster.decide(decide_final_ends(cluster.image, node_id, cluster.epoch(node_id), ends))


def floor(cluster, name="t", partition=0):
    return floor_of(cluster.image.offset_floors.get(name, {}), partition)


def reload(cluster):
    """The state goes through a snapshot."""
    replay = MetadataReplay(EMPTY_IMAGE)
    for record in snapshot_records(cluster.image):
        replay.replay(cluster.image.offset, record)
    replay.publish(cluster.image.offset, LeaderEpoch(1))
    assert replay.image.offset_floors == cluster.image.offset_floors
    assert list(replay.image.offset_floors) == list(cluster.image.offset_floors)
    cluster.replay = replay


def test_a_topic_goes_on_at_the_end_that_its_last_leader_reported():
    cluster = Cluster(brokers=1)
    topic = create(cluster)
    delete(cluster)
    assert not are_settled(cluster.image, "t", topic.topic_id)
    report(cluster, 1, topic, 15)
    assert are_settled(cluster.image, "t", topic.topic_id)
    reload(cluster)
    [state] = create(cluster).partitions
    assert (state.start_offset, state.leader_epoch) == (15, 1)


def test_before_the_report_the_floor_is_above_everything_that_the_log_can_hold():
    cluster = Cluster(brokers=1)
    create(cluster)
    delete(cluster)
    assert floor(cluster) == PartitionFloor(OFFSET_SPAN, 1, asked=1, least=0)
    [state] = create(cluster).partitions
    assert state.start_offset == OFFSET_SPAN


def test_a_report_that_comes_after_the_new_topic_changes_nothing():
    cluster = Cluster(brokers=1)
    first = create(cluster)
    delete(cluster)
    second = create(cluster)
    report(cluster, 1, first, 15)
    assert floor(cluster).offset == OFFSET_SPAN
    delete(cluster)
    report(cluster, 1, first, 16)
    assert floor(cluster).offset == 2 * OFFSET_SPAN, "that was the topic before the last one"
    report(cluster, 1, second, OFFSET_SPAN + 3)
    assert floor(cluster).offset == OFFSET_SPAN + 3


def test_only_the_last_leader_is_believed():
    cluster = Cluster(brokers=2)
    topic = create(cluster, factor=2)
    leader = topic.partitions[0].leader
    delete(cluster)
    report(cluster, 3 - leader, topic, 15)
    assert floor(cluster).offset == OFFSET_SPAN
    report(cluster, leader, topic, 17)
    assert floor(cluster).offset == 17


def test_a_report_of_an_older_registration_is_refused():
    cluster = Cluster(brokers=1)
    topic = create(cluster)
    delete(cluster)
    ends = [FinalEnd("t", topic.topic_id, 0, 15)]
    with pytest.raises(ApiError) as refusal:
        decide_final_ends(cluster.image, NodeId(1), cluster.epoch(1) - 1, ends)
    assert refusal.value.code is ErrorCode.stale_broker_epoch


def test_reports_about_what_is_not_known_change_nothing():
    cluster = Cluster(brokers=1)
    topic = create(cluster)
    delete(cluster)
    before = cluster.image.offset_floors
    report(cluster, 1, dataclasses.replace(topic, name="other"), 15)
    report(cluster, 1, dataclasses.replace(topic, topic_id=TopicId(uuid.UUID(int=5))), 15)
    report(cluster, 1, topic, 15, partition=1)
    report(cluster, 1, topic, 15, partition=-1)
    report(cluster, 1, topic, 15, partition=PIECE_PARTITIONS)
    assert cluster.image.offset_floors == before


def test_a_partition_without_a_leader_keeps_the_upper_bound():
    cluster = Cluster(brokers=1)
    topic = create(cluster)
    cluster.fence(1)
    assert cluster.image.topics_by_name["t"].partitions[0].leader == NO_NODE
    delete(cluster)
    assert floor(cluster) == PartitionFloor(OFFSET_SPAN, 2)
    assert are_settled(cluster.image, "t", topic.topic_id)


def test_nobody_waits_for_a_leader_that_does_not_serve():
    cluster = Cluster(brokers=1)
    topic = create(cluster)
    delete(cluster)
    cluster.fence(1)
    assert are_settled(cluster.image, "t", topic.topic_id)


def test_the_epoch_is_above_all_that_were():
    cluster = Cluster(brokers=2)
    topic = create(cluster, factor=2)
    leader = topic.partitions[0].leader
    cluster.fence(leader)
    assert cluster.image.topics_by_name["t"].partitions[0].leader_epoch == 1
    delete(cluster)
    assert create(cluster).partitions[0].leader_epoch == 2


def test_fewer_partitions_and_then_more_again():
    cluster = Cluster(brokers=1)
    topic = create(cluster, partitions=3)
    delete(cluster)
    for partition in range(3):
        report(cluster, 1, topic, 10 + partition, partition)
    topic = create(cluster, partitions=1)
    assert topic.partitions[0].start_offset == 10
    cluster.decide(
        decide_create_partitions(cluster.image, [NewPartitions("t", 2)], cluster.random, validate_only=False)
    )
    topic = cluster.image.topics_by_name["t"]
    assert (topic.partitions[1].start_offset, topic.partitions[1].leader_epoch) == (11, 1)
    delete(cluster)
    assert floor(cluster, partition=2) == PartitionFloor(12, 1), "nothing was written to it since"
    assert create(cluster, partitions=4).partitions[3].start_offset == 0


def test_the_last_reports_of_many_partitions():
    cluster = Cluster(brokers=1)
    count = PIECE_PARTITIONS + 2
    topic = create(cluster, partitions=count)
    delete(cluster)
    ends = [FinalEnd("t", topic.topic_id, partition, partition) for partition in range(count)]
    decision = decide_final_ends(cluster.image, NodeId(1), cluster.epoch(1), ends)
    assert [record.name for record in decision.records] == [f"{FLOOR_PREFIX}0", f"{FLOOR_PREFIX}1"]
    cluster.decide(decision)
    reload(cluster)
    assert [state.start_offset for state in create(cluster, partitions=count).partitions] == list(range(count))


def test_a_piece_is_short_enough_for_kafkas_reader():
    piece = FloorPiece(
        TopicId(uuid.UUID(int=1)), (PartitionFloor(2**63 - 1, 2**31 - 1, NodeId(2**31 - 1), 2**62),) * PIECE_PARTITIONS
    )
    assert len(format_piece(piece)) <= 32_767


def test_with_reset_everything_is_kafkas_and_nothing_is_remembered():
    cluster = Cluster(brokers=1)
    create(cluster, configs=RESET)
    decision = decide_delete_topics(cluster.image, ["t"])
    assert [type(record) for record in decision.records] == [RemoveTopicRecord]
    cluster.decide(decision)
    assert not cluster.image.offset_floors


def test_a_topic_that_is_reset_begins_at_0_and_its_deletion_forgets_the_floor():
    cluster = Cluster(brokers=1)
    topic = create(cluster)
    delete(cluster)
    report(cluster, 1, topic, 15)
    [state] = create(cluster, configs=RESET).partitions
    assert (state.start_offset, state.leader_epoch) == (0, 0)
    assert floor(cluster).offset == 15
    delete(cluster)
    assert not cluster.image.offset_floors


def test_a_floor_never_falls_below_an_earlier_one():
    cluster = Cluster(brokers=1)
    topic = create(cluster)
    delete(cluster)
    report(cluster, 1, topic, 15)
    topic = create(cluster, configs=RESET)
    cluster.apply(
        [ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name="topic.recreate.offsets", value="continue")]
    )
    delete(cluster)
    report(cluster, 1, topic, 4)
    assert floor(cluster).offset == 15


def test_internal_topics_begin_at_0():
    cluster = Cluster(brokers=1)
    create(cluster, OFFSETS_TOPIC)
    delete(cluster, OFFSETS_TOPIC)
    assert not cluster.image.offset_floors


@pytest.mark.parametrize("own", ["continue", "reset"])
def test_the_default_of_all_brokers_counts_before_the_nodes_own(own):
    cluster = Cluster(brokers=1)
    image = dataclasses.replace(cluster.image, own_recreate_offsets=own)
    assert image.continues_offsets("t", {}) is (own == "continue")
    for value in ("continue", "reset"):
        given = dataclasses.replace(image, broker_configs={"": {"topic.recreate.offsets": value}})
        assert given.continues_offsets("t", {}) is (value == "continue")
    assert image.continues_offsets("t", CONTINUE)
    assert not image.continues_offsets("t", RESET)


def test_a_name_whose_offsets_are_used_up_can_be_reset_only():
    cluster = Cluster(brokers=1)
    create(cluster)
    delete(cluster)
    text = format_piece(FloorPiece(TopicId(uuid.UUID(int=1)), (PartitionFloor(FLOOR_MAX + 1, 1),)))
    cluster.apply([ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name=f"{FLOOR_PREFIX}0", value=text)])
    with pytest.raises(ApiError, match=r"topic\.recreate\.offsets=reset") as refusal:
        create(cluster)
    assert refusal.value.code is ErrorCode.invalid_request
    assert create(cluster, configs=RESET).partitions[0].start_offset == 0


def test_names_without_a_topic_are_forgotten_from_the_oldest_on(monkeypatch):
    monkeypatch.setattr(offset_floors, "NAMES_MAX", 3)
    cluster = Cluster(brokers=1)
    for name in "abcde":
        create(cluster, name)
        delete(cluster, name)
    assert list(cluster.image.offset_floors) == ["c", "d", "e"]
    create(cluster, "c")
    for name in "fg":
        create(cluster, name)
        delete(cluster, name)
    assert list(cluster.image.offset_floors) == ["c", "f", "g"], "the floor of a topic that lives is kept"


def test_deleted_and_created_very_often_it_is_one_floor():
    cluster = Cluster(brokers=1)
    for _ in range(1000):
        topic = create(cluster)
        delete(cluster)
        report(cluster, 1, topic, topic.partitions[0].start_offset + 2)
    assert floor(cluster) == PartitionFloor(2000, 1000)
    assert len(list(snapshot_records(cluster.image))) < 20


@pytest.mark.parametrize("between", ["nothing", "snapshots"])
def test_what_a_time_costs_and_leaves_does_not_grow_with_the_times_before_it(between):
    """With other numbers of partitions each time, by replicas that are asked and replicas that are dead."""
    cluster = Cluster(brokers=3)
    counts = itertools.cycle((1, 5, 2, 3))
    ends, records, sizes = {}, [], []
    for turn in range(2_000):
        count = next(counts)
        begun = len(cluster.log)
        topic = create(cluster, partitions=count)
        for state in topic.partitions:
            assert state.start_offset == ends.get(state.partition, 0)
        delete(cluster)
        for state in topic.partitions:
            number = state.partition
            if turn % 100 == number:  # its leader is dead, and never says anything
                ends[number] = state.start_offset + OFFSET_SPAN
            else:
                ends[number] = state.start_offset + 2
                report(cluster, state.leader, topic, ends[number], number)
        if between == "snapshots":
            reload(cluster)
        if turn % 4 == 3 and turn % 100 > 5:
            records.append(len(cluster.log) - begun)
            sizes.append(sum(len(repr(record)) for record in snapshot_records(cluster.image)))
            cluster.log.clear()
    assert set(records) == {records[0]}
    assert max(sizes) < min(sizes) + 200, "no more than longer numbers"


def test_a_million_times_are_one_step_a_million_times():
    """All that a time leaves to the next one is the floor's record, and a cluster that has just that goes on in the same way."""
    began = Cluster(brokers=1)
    for _ in range(3):
        topic = create(began)
        delete(began)
        report(began, 1, topic, topic.partitions[0].start_offset + 2)
    topic = create(began)
    delete(began)
    report(began, 1, topic, 6)
    kept = [one for one in snapshot_records(began.image) if getattr(one, "name", "").startswith(FLOOR_PREFIX)]
    assert [one.value for one in kept] == [format_piece(FloorPiece(topic.topic_id, (PartitionFloor(6, 4),)))]
    times = 1_000_000
    went_on = Cluster(brokers=1)
    piece = format_piece(FloorPiece(topic.topic_id, (PartitionFloor(2 * (times - 1), times - 1),)))
    name = f"{FLOOR_PREFIX}0"
    went_on.apply([ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name=name, value=piece)])
    topic = create(went_on)
    assert (topic.partitions[0].start_offset, topic.partitions[0].leader_epoch) == (2 * (times - 1), times - 1)
    delete(went_on)
    report(went_on, 1, topic, topic.partitions[0].start_offset + 2)
    assert floor(went_on) == PartitionFloor(2 * times, times)
    assert len(list(snapshot_records(went_on.image))) == len(list(snapshot_records(began.image)))


@pytest.mark.parametrize(
    "text", ["", "x", "AAAAAAAAAAAAAAAAAAAAAQ 1", "AAAAAAAAAAAAAAAAAAAAAQ 1:2:3", "AAAAAAAAAAAAAAAAAAAAAQ a:b"]
)
def test_damaged_floors_are_refused(text):
    with pytest.raises(InvalidMetadataError):
        parse_piece(text)


@pytest.mark.parametrize("number", ["", "x", "-1"])
def test_floors_without_a_number_are_refused(number):
    cluster = Cluster(brokers=1)
    record = ConfigRecord(
        resource_type=TOPIC_RESOURCE, resource_name="t", name=f"{FLOOR_PREFIX}{number}", value="AAAAAAAAAAAAAAAAAAAAAQ"
    )
    with pytest.raises(InvalidMetadataError):
        cluster.apply([record])


_steps = st.lists(
    st.tuples(
        st.sampled_from(["write", "delete", "create", "report", "late", "wrong", "fence", "start", "snapshot", "grow"]),
        st.integers(0, 3),
    ),
    max_size=60,
)


@settings(max_examples=150)
@given(_steps, st.integers(0, 2**32))
def test_no_offset_and_no_epoch_is_given_twice(steps, seed):
    """Against a naive twin that knows the logs: each partition begins at or above all that was committed under its name."""
    cluster = Cluster(brokers=2)
    cluster.random = SeededRandom(seed)
    chance = random.Random(seed)
    ends, used, epochs, gone = {}, {}, {}, []
    topic = None
    for step, number in steps:
        match step:
            case "create" if topic is None:
                try:
                    topic = create(cluster, partitions=number + 1, factor=2)
                except ApiError:
                    continue
                ends = {}
            case "grow" if topic is not None:
                wanted = [NewPartitions("t", len(topic.partitions) + number)]
                cluster.decide(decide_create_partitions(cluster.image, wanted, cluster.random, validate_only=False))
            case "write" if topic is not None and number < len(topic.partitions):
                if topic.partitions[number].leader != NO_NODE:
                    ends[number] = ends[number] + chance.choice((1, 1, 1000, 2**40))
                    used[number] = ends[number]
            case "delete" if topic is not None:
                delete(cluster)
                gone.append((topic, ends))
                topic = None
                continue
            case "report" | "late" | "wrong" if gone:
                known, known_ends = gone[-1] if step != "late" else gone[0]
                for state in known.partitions:
                    node = state.leader if step != "wrong" else NodeId(3 - state.leader)
                    if node in cluster.image.brokers:
                        end = known_ends[state.partition] if step != "wrong" else state.start_offset
                        report(cluster, node, known, end, state.partition)
            case "fence" if number in (1, 2) and not cluster.image.brokers[NodeId(number)].fenced:
                cluster.fence(number)
            case "start" if number in (1, 2) and cluster.image.brokers[NodeId(number)].fenced:
                cluster.start_broker(number)
            case "snapshot":
                reload(cluster)
        if topic is not None:
            topic = cluster.image.topics_by_name["t"]
            for state in topic.partitions:
                if state.partition not in ends:
                    assert state.start_offset >= used.get(state.partition, 0)
                    assert state.leader_epoch > epochs.get(state.partition, -1)
                    ends[state.partition] = state.start_offset
                epochs[state.partition] = max(epochs.get(state.partition, -1), state.leader_epoch)
