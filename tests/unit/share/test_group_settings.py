"""The settings of a share group at the leaders of its partitions."""

from esp.settings.broker import BrokerSettings
from esp.share.dead_letters import DeadLetterSettings
from esp.share.group_settings import ShareGroupSettings, share_group_settings
from esp.share.partition import ShareSettings


def test_a_group_without_settings_has_the_node_s():
    node = BrokerSettings(
        group_share_delivery_count_limit=3,
        group_share_partition_max_record_locks=500,
        group_share_record_lock_duration_ms=16_000,
    )
    expected = ShareGroupSettings(ShareSettings(16_000, 3, 500, True), "latest", is_read_committed=False)
    assert share_group_settings({}, node) == expected
    assert expected.reset_duration_ms is None


def test_a_group_has_its_own():
    configs = {
        "share.record.lock.duration.ms": "20000",
        "share.delivery.count.limit": "7",
        "share.partition.max.record.locks": "300",
        "share.renew.acknowledge.enable": "false",
        "share.auto.offset.reset": "by_duration:PT2S",
        "share.isolation.level": "read_committed",
    }
    settings = share_group_settings(configs, BrokerSettings())
    assert settings == (ShareSettings(20_000, 7, 300, False), "by_duration:PT2S", True, None)
    assert settings.reset_duration_ms == 2_000


def test_a_dead_letter_queue_counts_from_its_level_on():
    configs = {
        "errors.deadletterqueue.topic.name": "dlq.t",
        "errors.deadletterqueue.copy.record.enable": "true",
    }
    settings = share_group_settings(configs, BrokerSettings(), allows_dead_letters=True)
    assert settings.dead_letters == DeadLetterSettings("dlq.t", copies_records=True)
    assert settings.partition.has_dead_letters
    before = share_group_settings(configs, BrokerSettings())
    assert (before.dead_letters, before.partition.has_dead_letters) == (None, False)
    without = share_group_settings({}, BrokerSettings(), allows_dead_letters=True)
    assert (without.dead_letters, without.partition.has_dead_letters) == (None, False)
