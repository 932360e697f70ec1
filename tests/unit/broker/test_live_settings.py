import uuid
from dataclasses import replace

from esp.broker.live_settings import LiveSettings
from esp.controller.image import ClusterImage, TopicImage
from esp.model.ids import NodeId, TopicId
from esp.settings.broker import BrokerSettings


def test_this_broker_s_settings_count_more_than_those_of_all_and_those_of_others_not_at_all():
    live = LiveSettings(NodeId(1), BrokerSettings())
    all_brokers = {"log.retention.ms": "5", "max.connections": "6"}
    live.update(
        ClusterImage(broker_configs={"": all_brokers, "1": {"max.connections": "7"}, "2": {"log.roll.ms": "8"}})
    )
    assert (live.current.log_retention_ms, live.current.max_connections) == (5, 7)
    assert live.current.log_roll_ms == BrokerSettings().log_roll_ms
    live.update(ClusterImage())
    assert live.current == BrokerSettings()


def topic(**configs):
    made = TopicImage(
        "t", TopicId(uuid.UUID(int=7)), (), {name.replace("_", "."): text for name, text in configs.items()}
    )
    return ClusterImage(topics_by_name={"t": made}, broker_configs={"": {"min.insync.replicas": "2"}}), made


def test_a_topic_has_its_own_settings_over_those_of_the_broker_and_min_insync_replicas_of_the_metadata():
    live = LiveSettings(NodeId(1), BrokerSettings(min_insync_replicas=3))
    image, made = topic(retention_ms="5")
    live.update(image)
    assert (live.of_topic(image, made).retention_ms, live.of_topic(image, made).min_insync_replicas) == (5, 2)


def test_what_is_wrong_with_a_topic_is_told_once(caplog):
    live = LiveSettings(NodeId(1), BrokerSettings())
    image, made = topic(retention_ms="x")
    for _ in range(3):
        assert live.of_topic(image, made).retention_ms == BrokerSettings().log_retention_ms
    assert caplog.text.count("the settings of topic t") == 1
    live.forget(made.topic_id)
    live.of_topic(image, made)
    assert caplog.text.count("the settings of topic t") == 2


def test_topics_with_the_same_settings_share_them_and_others_do_not():
    live = LiveSettings(NodeId(1), BrokerSettings())
    image, made = topic(retention_ms="5")
    same = replace(made, name="u", topic_id=TopicId(uuid.UUID(int=8)))
    other = replace(made, configs={"retention.ms": "6"})
    assert live.of_topic(image, same) is live.of_topic(image, made)
    assert live.of_topic(image, other).retention_ms == 6
    raised = replace(image, broker_configs={"": {"min.insync.replicas": "3"}})
    assert live.of_topic(raised, made).min_insync_replicas == 3
    assert live.of_topic(image, made).min_insync_replicas == 2


def test_another_setting_of_the_node_counts_for_topics_that_were_asked_about_before():
    live = LiveSettings(NodeId(1), BrokerSettings())
    image, made = topic()
    assert live.of_topic(image, made).segment_ms == BrokerSettings().log_roll_ms
    live.update(ClusterImage(broker_configs={"": {"log.roll.ms": "8"}}))
    assert live.of_topic(image, made).segment_ms == 8


def test_a_node_with_topics_of_ever_other_settings_keeps_a_bounded_number_of_them():
    live = LiveSettings(NodeId(1), BrokerSettings())
    for number in range(2_500):
        image, made = topic(retention_ms=str(number))
        assert live.of_topic(image, made).retention_ms == number
    assert len(live._resolved) <= 1_000
