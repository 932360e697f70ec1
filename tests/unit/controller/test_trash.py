"""The trash: topics that are put in it, restored, purged, and what is remembered of them (TRASH-1 to TRASH-5)."""

import dataclasses
import uuid
from datetime import UTC, datetime

import pytest

from esp.controller import trash
from esp.controller.brokers import decide_unregister_broker
from esp.controller.draft import ClusterDraft
from esp.controller.errors import InvalidMetadataError
from esp.controller.image import EMPTY_IMAGE
from esp.controller.image_difference import image_difference
from esp.controller.partition_change import plan_partition_change
from esp.controller.replay import MetadataReplay
from esp.controller.snapshot_records import snapshot_records
from esp.controller.topics import NewTopic, TopicCreation, TopicDefaults, decide_delete_topics
from esp.controller.trash import GRACE_MS, TrashClock, decide_purge, decide_restore
from esp.controller.trash_records import TRASH_PREFIX, purge_record
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import LOST_DIRECTORY, NO_NODE, OFFSETS_TOPIC, UNASSIGNED_DIRECTORY, LeaderEpoch, NodeId, TopicId
from esp.model.partition import find_contradictions
from esp.schemas.metadata_frames import decode_record, encode_record
from esp.schemas.metadata_records import TOPIC_RESOURCE, ConfigRecord, PartitionChangeRecord, RemoveTopicRecord
from esp.settings.setting import LONG_MAX
from tests.unit.controller.samples import Cluster, accept_configs

HOUR_MS = 3_600_000
TRASH = {"topic.trash.retention.ms": str(HOUR_MS)}
NOW_MS = 1_000_000


def create(cluster, name="t", partitions=1, configs=TRASH, factor=1):
    creation = TopicCreation(cluster.image, TopicDefaults(1, 1), accept_configs, cluster.random)
    wanted = NewTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=configs)
    [reply] = cluster.decide(creation.decide([wanted], validate_only=False))
    assert not isinstance(reply, ApiError), reply
    return cluster.image.topics_by_name[name]


def delete(cluster, *names, now_ms=NOW_MS):
    replies = cluster.decide(decide_delete_topics(cluster.image, names or ["t"], now_ms=now_ms))
    assert not any(isinstance(reply, ApiError) for reply in replies)


def trashed(cluster, **options):
    topic = create(cluster, **options)
    delete(cluster, topic.name)
    return topic


def restore(cluster, topic, **options):
    return cluster.decide(decide_restore(cluster.image, topic.topic_id, **options))


def test_a_broker_with_the_last_log_of_a_topic_in_the_trash_is_not_unregistered(caplog):
    cluster = Cluster(3)
    topic = trashed(cluster, partitions=2, factor=2)
    for broker in (1, 2, 3):
        cluster.fence(broker)
    holders = [set(state.replicas) for state in topic.partitions]
    gone = next(iter(holders[0]))
    cluster.decide(decide_unregister_broker(cluster.image, gone))
    [last] = holders[0] - {gone}
    with pytest.raises(ApiError, match=r"the last complete log of .* in the trash: t-0") as refused:
        decide_unregister_broker(cluster.image, last)
    assert refused.value.code is ErrorCode.policy_violation
    cluster.set_cluster_config("broker.removal.forced", str(last))
    cluster.decide(decide_unregister_broker(cluster.image, last))
    assert "t-0" in caplog.text
    assert refusal(cluster, topic.topic_id).code is ErrorCode.eligible_leaders_not_available


def test_a_topic_that_was_purged_holds_no_broker():
    cluster = Cluster(1)
    topic = trashed(cluster)
    with pytest.raises(ApiError, match="in the trash: t-0"):
        decide_unregister_broker(cluster.image, NodeId(1))
    cluster.decide(decide_purge(cluster.image, [topic.topic_id]))
    cluster.decide(decide_unregister_broker(cluster.image, NodeId(1)))


def refusal(cluster, topic_id, **options):
    with pytest.raises(ApiError) as refused:
        decide_restore(cluster.image, topic_id, **options)
    return refused.value


def reloaded(image):
    """The image after a snapshot."""
    replay = MetadataReplay(EMPTY_IMAGE)
    for record in snapshot_records(image):
        replay.replay(image.offset, record)
    replay.publish(image.offset, LeaderEpoch(1))
    return replay.image


def test_a_deleted_topic_is_in_the_trash_as_it_was():
    cluster = Cluster(brokers=1)
    topic = trashed(cluster, partitions=3)
    image = cluster.image
    assert "t" not in image.topics_by_name
    assert topic.topic_id not in image.topics_by_id
    [entry] = image.trashed_topics.values()
    assert (entry.topic, entry.trashed_ms, entry.until_ms) == (topic, NOW_MS, NOW_MS + HOUR_MS)
    assert image.is_trashed("t")
    assert not image.is_trashed("u")


def test_for_kafka_the_topic_is_deleted():
    cluster = Cluster(brokers=1)
    topic = create(cluster)
    decision = decide_delete_topics(cluster.image, ["t"], now_ms=NOW_MS)
    assert decision.records == (
        RemoveTopicRecord(topic_id=topic.topic_id, trashed_ms=NOW_MS, trash_until_ms=NOW_MS + HOUR_MS),
    )


@pytest.mark.parametrize(
    ("name", "configs", "brokers", "own", "expected_ms"),
    [
        ("t", {}, {}, 0, 0),
        ("t", {}, {}, 5, 5),
        ("t", {}, {"topic.trash.retention.ms": "7"}, 5, 7),
        ("t", {"topic.trash.retention.ms": "9"}, {"topic.trash.retention.ms": "7"}, 5, 9),
        ("t", {"topic.trash.retention.ms": "0"}, {"topic.trash.retention.ms": "7"}, 5, 0),
        ("t", {"topic.trash.retention.ms": "x"}, {}, 5, 0),
        ("t", {"topic.trash.retention.ms": "-3"}, {}, 5, 0),
        ("t", {"topic.trash.retention.ms": "2592000000"}, {}, 0, 2_592_000_000),
        ("t", {}, {"topic.trash.retention.ms": "2147483648"}, 0, 2_147_483_648),
        (OFFSETS_TOPIC, {"topic.trash.retention.ms": "9"}, {}, 5, 0),
    ],
)
def test_the_time_in_the_trash_is_the_topics_then_the_clusters_then_the_nodes(name, configs, brokers, own, expected_ms):
    cluster = Cluster(brokers=1)
    topic = create(cluster, name, configs=configs)
    image = dataclasses.replace(cluster.image, own_trash_retention_ms=own, broker_configs={"": brokers})
    assert image.trash_retention_ms(topic) == expected_ms
    [record] = decide_delete_topics(image, [name], now_ms=NOW_MS).records
    assert record.trash_until_ms == (NOW_MS + expected_ms if expected_ms else -1)


@pytest.mark.parametrize(("configs", "own"), [({"topic.trash.retention.ms": str(LONG_MAX)}, 0), ({}, LONG_MAX)])
def test_a_topic_that_is_to_stay_in_the_trash_for_ever_stays_until_the_last_date(configs, own):
    cluster = Cluster(brokers=1)
    create(cluster, configs=configs)
    image = dataclasses.replace(cluster.image, own_trash_retention_ms=own)
    [record] = decide_delete_topics(image, ["t"], now_ms=NOW_MS).records
    assert decode_record(encode_record(record)) == record
    assert datetime.fromtimestamp(record.trash_until_ms / 1000, UTC).year == 9999


def test_a_restored_topic_has_its_id_and_settings_and_waits_for_the_replicas_that_were_complete():
    cluster = Cluster(brokers=3)
    topic = create(cluster, partitions=2, factor=3)
    state = topic.partitions[0]
    behind = next(node for node in state.replicas if node != state.leader)
    record = plan_partition_change(
        state,
        is_acceptable=lambda _node: True,
        min_insync_replicas=1,
        target_isr=tuple(node for node in state.isr if node != behind),
    )
    cluster.apply([record])
    state = cluster.image.topics_by_name["t"].partitions[0]
    delete(cluster)
    assert restore(cluster, topic).offline == ()
    after = cluster.image.topics_by_name["t"]
    assert (after.topic_id, after.configs, len(after.partitions)) == (topic.topic_id, topic.configs, 2)
    restored = after.partitions[0]
    assert (restored.leader, restored.isr) == (NO_NODE, ())
    assert restored.elr == tuple(node for node in state.replicas if node in state.isr)
    assert restored.last_known_elr == (state.leader,)
    assert restored.leader_epoch == restored.restored_epoch == state.leader_epoch + 1
    assert restored.partition_epoch == state.partition_epoch + 1
    places = dict(zip(restored.replicas, restored.directories, strict=True))
    assert {node for node, place in places.items() if place == LOST_DIRECTORY} == set(restored.elr)
    assert places[behind] == UNASSIGNED_DIRECTORY
    assert not list(find_contradictions(restored))
    assert not cluster.image.trashed_topics


def test_a_topic_is_restored_again_and_again():
    """Without a leader in between nothing was written, and logs that were put in the trash the first time are complete (TRASH-3)."""
    cluster = Cluster(brokers=1)
    topic = create(cluster)
    for epoch, is_led_then in ((1, False), (1, True), (3, False), (3, False)):
        delete(cluster)
        restore(cluster, topic)
        state = cluster.image.topics_by_id[topic.topic_id].partitions[0]
        assert (state.leader_epoch, state.restored_epoch) == (epoch, epoch)
        if is_led_then:
            [node] = state.replicas
            cluster.apply([PartitionChangeRecord(topic_id=topic.topic_id, partition_id=0, leader=node, isr=(node,))])


def test_what_cannot_be_restored_is_refused_with_a_reason():
    cluster = Cluster(brokers=1)
    unknown = refusal(cluster, TopicId(uuid.UUID(int=7)))
    assert unknown.code is ErrorCode.unknown_topic_id
    assert "may have been purged" in unknown.message
    topic = create(cluster)
    alive = refusal(cluster, topic.topic_id)
    assert alive.code is ErrorCode.unknown_topic_id
    assert "it is there" in alive.message
    delete(cluster)
    create(cluster)
    taken = refusal(cluster, topic.topic_id)
    assert taken.code is ErrorCode.topic_already_exists
    assert "another topic named 't'" in taken.message


def test_offsets_that_another_topic_has_used_are_not_used_twice():
    cluster = Cluster(brokers=1)
    topic = trashed(cluster, configs={**TRASH, "topic.recreate.offsets": "continue"})
    second = trashed(cluster, configs={**TRASH, "topic.recreate.offsets": "continue"})
    refused = refusal(cluster, topic.topic_id)
    assert refused.code is ErrorCode.invalid_request
    assert "topic.recreate.offsets=continue" in refused.message
    restore(cluster, second)


def test_without_a_broker_that_was_in_sync_a_topic_is_restored_by_force_only():
    cluster = Cluster(brokers=1)
    topic = trashed(cluster, partitions=2)
    cluster.replay.image = dataclasses.replace(cluster.image, brokers={})
    image = cluster.replay.image
    with pytest.raises(ApiError) as refused:
        decide_restore(image, topic.topic_id)
    assert refused.value.code is ErrorCode.eligible_leaders_not_available
    assert "partition 0 of 't' and 1 more" in refused.value.message
    assert decide_restore(image, topic.topic_id, is_forced=True).reply.offline == (0, 1)


def test_a_purged_topic_is_gone_and_only_once():
    cluster = Cluster(brokers=1)
    topic = trashed(cluster)
    before = cluster.image
    [purged] = cluster.decide(decide_purge(cluster.image, [topic.topic_id, topic.topic_id]))
    assert purged.topic == topic
    assert not cluster.image.trashed_topics
    assert image_difference(before, cluster.image).purged_topics == {topic.topic_id: topic}
    [refused] = decide_purge(cluster.image, [topic.topic_id]).reply
    assert refused.code is ErrorCode.unknown_topic_id


def test_the_topics_that_were_deleted_first_make_room(monkeypatch):
    monkeypatch.setattr(trash, "PARTITIONS_MAX", 5)
    cluster = Cluster(brokers=1)
    for name in ("a", "b", "c"):
        trashed(cluster, name=name, partitions=2)
    assert [entry.topic.name for entry in cluster.image.trashed_topics.values()] == ["b", "c"]
    trashed(cluster, name="d", partitions=9)
    assert [entry.topic.name for entry in cluster.image.trashed_topics.values()] == ["d"]


def test_a_snapshot_has_the_trash_and_topics_of_the_same_names():
    cluster = Cluster(brokers=1)
    first = trashed(cluster, partitions=2)
    second = trashed(cluster, configs={**TRASH, "retention.ms": "7"})
    third = create(cluster)
    trashed(cluster, name="u")
    image = reloaded(cluster.image)
    assert image.trashed_topics == cluster.image.trashed_topics
    assert list(image.trashed_topics) == list(cluster.image.trashed_topics)
    assert image.topics_by_name == {"t": third}
    assert [image.trashed_topics[topic.topic_id].topic for topic in (first, second)] == [first, second]


def test_deltas_of_one_publication_and_of_any_two_images_agree():
    cluster = Cluster(brokers=1)
    topic = create(cluster)
    base = cluster.image
    deletion = decide_delete_topics(base, ["t"], now_ms=NOW_MS).records
    gone = MetadataReplay(base)
    for record in deletion:
        gone.replay(base.offset + 1, record)
    delta = gone.publish(base.offset + 1, LeaderEpoch(1))
    assert delta == image_difference(base, gone.image)
    assert delta.deleted_topics == {topic.topic_id: topic}
    assert not delta.purged_topics
    both = MetadataReplay(base)
    for record in (*deletion, *decide_restore(gone.image, topic.topic_id).records):
        both.replay(base.offset + 1, record)
    delta = both.publish(base.offset + 1, LeaderEpoch(1))
    assert not delta.deleted_topics, "replicas stay where they are"
    assert delta.changed_partitions == {topic.topic_id: {0}}
    purged = MetadataReplay(base)
    for record in (*deletion, purge_record(gone.image.trashed_topics[topic.topic_id])):
        purged.replay(base.offset + 1, record)
    delta = purged.publish(base.offset + 1, LeaderEpoch(1))
    assert delta == image_difference(base, purged.image)
    assert delta.deleted_topics
    assert not purged.image.trashed_topics


def test_purging_what_is_not_there_changes_nothing():
    draft = ClusterDraft(EMPTY_IMAGE)
    draft.purge_topic(TopicId(uuid.UUID(int=7)))
    assert draft.freeze(0, LeaderEpoch(1))[0].trashed_topics == {}


@pytest.mark.parametrize("text", ["", "x", "AAAA", "!" * 22])
def test_a_purge_without_an_id_is_refused(text):
    record = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name=TRASH_PREFIX + text, value=None)
    with pytest.raises(InvalidMetadataError):
        MetadataReplay(EMPTY_IMAGE).replay(0, record)


# Time (TRASH-5).


def due(clock, image, at_s, wall_ms):
    return clock.find_due(image, at_s * 1_000_000, wall_ms)


def test_time_runs_by_the_monotonic_clock_however_the_wall_clock_steps():
    cluster = Cluster(brokers=1)
    topic = trashed(cluster)
    clock = TrashClock()
    assert due(clock, cluster.image, 100, NOW_MS) == []
    assert due(clock, cluster.image, 200, NOW_MS + 100 * HOUR_MS) == []
    assert due(clock, cluster.image, 100 + 3599, 0) == []
    assert due(clock, cluster.image, 100 + 3600, 0) == [topic.topic_id]


@pytest.mark.parametrize(
    ("wall_ms", "left_ms"),
    [
        (NOW_MS + 1_000_000, HOUR_MS - 1_000_000),
        (NOW_MS + 100 * HOUR_MS, GRACE_MS),
        (NOW_MS - 100 * HOUR_MS, HOUR_MS),
    ],
)
def test_a_new_controller_takes_what_has_passed_from_the_wall_clock_within_bounds(wall_ms, left_ms):
    cluster = Cluster(brokers=1)
    topic = trashed(cluster)
    clock = TrashClock()
    assert clock.find_due(cluster.image, 0, wall_ms) == []
    assert clock.find_due(cluster.image, left_ms * 1000 - 1, wall_ms) == []
    assert clock.find_due(cluster.image, left_ms * 1000, wall_ms) == [topic.topic_id]


def test_a_short_time_is_not_made_longer():
    cluster = Cluster(brokers=1)
    topic = trashed(cluster, configs={"topic.trash.retention.ms": "1000"})
    clock = TrashClock()
    assert clock.find_due(cluster.image, 0, NOW_MS) == []
    assert clock.find_due(cluster.image, 1_000_000, NOW_MS) == [topic.topic_id]


def test_a_topic_that_is_deleted_again_has_its_whole_time_again():
    cluster = Cluster(brokers=1)
    topic = trashed(cluster)
    clock = TrashClock()
    due(clock, cluster.image, 0, NOW_MS)
    restore(cluster, topic)
    delete(cluster, now_ms=NOW_MS + 3000_000)
    due(clock, cluster.image, 3000, NOW_MS + 3000_000)
    assert due(clock, cluster.image, 3600, NOW_MS + 3600_000) == []
    assert due(clock, cluster.image, 6600, NOW_MS) == [topic.topic_id]
