"""The mistakes change nothing that others have, whatever a node does with them but refuse them."""

from dataclasses import replace
from random import Random

import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.simulation.nodes_tier.consumer_group_profile import CONSUMER_GROUP
from esp.simulation.workload.mistaken_requests import MISTAKES, NO_PRODUCER
from esp.simulation.workload.survey_requests import Scene
from tests.unit.controller.samples import Cluster
from tests.unit.groups.share.share_world import ShareWorld
from tests.unit.groups.world import Topics


def contents(key, configs=None):
    cluster = Cluster(3)
    cluster.create_partition(1, 2, 3)
    [topic] = cluster.image.topics_by_name.values()
    topic = replace(topic, configs=configs or {})
    [mistake] = [mistake for mistake in MISTAKES if mistake.key is key]
    return [mistake.content(Scene(Random(seed), cluster.image, topic, 9, ())) for seed in range(20)]


def test_keyless_records_go_to_compacted_topics_only():
    assert all(content["topic_data"] == [] for content in contents(ApiKey.PRODUCE))
    for content in contents(ApiKey.PRODUCE, {"cleanup.policy": "compact,delete"}):
        [topic] = content["topic_data"]
        assert len(topic["partition_data"]) == 1


@pytest.mark.parametrize("key", [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN])
def test_the_producer_is_none_of_the_cluster(key):
    for content in contents(key):
        asked = [content, *content.get("transactions", ())]
        assert {each.get("producer_id", NO_PRODUCER) for each in asked} == {NO_PRODUCER}


def test_no_share_group_comes_to_have_the_name_of_the_consumer_group():
    altered = [
        content for content in contents(ApiKey.ALTER_SHARE_GROUP_OFFSETS) if content["group_id"] == CONSUMER_GROUP
    ]
    assert altered
    for content in altered:
        [topic] = content["topics"]
        world = ShareWorld(topics=Topics(**{topic["topic_name"]: 1}))
        offsets = {(topic["topic_name"], one["partition_index"]): one["start_offset"] for one in topic["partitions"]}
        world.alter(offsets, group=CONSUMER_GROUP)
        assert world.described(CONSUMER_GROUP).error is ErrorCode.group_id_not_found
