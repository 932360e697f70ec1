import pytest

from esp.settings.broker import BrokerSettings
from esp.settings.throttled_replicas import NO_REPLICAS, parse_throttled_replicas, read_repaired_replicas
from esp.settings.topic_overrides import resolve_topic_settings


def test_an_empty_list_covers_nobody():
    assert parse_throttled_replicas(()) == NO_REPLICAS
    assert not NO_REPLICAS.covers(0, 0)


def test_an_asterisk_covers_all_replicas():
    assert parse_throttled_replicas(("*",)).covers(7, 3)


def test_a_pair_covers_one_replica_on_one_broker():
    listed = parse_throttled_replicas(("0:101", "12:102"))
    assert listed.covers(0, 101)
    assert listed.covers(12, 102)
    assert not listed.covers(0, 102)
    assert not listed.covers(101, 0)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_topic_s_text_becomes_the_list(role):
    name = f"{role}.replication.throttled.replicas"
    settings = resolve_topic_settings({name: " 0:1, 1:2 "}, BrokerSettings())
    listed = getattr(settings, name.replace(".", "_"))
    assert [listed.covers(partition, broker) for partition, broker in ((0, 1), (1, 2), (1, 1))] == [True, True, False]


def test_a_stored_text_that_is_no_list_covers_nobody():
    settings = resolve_topic_settings({"leader.replication.throttled.replicas": "nonsense"}, BrokerSettings())
    assert settings.leader_replication_throttled_replicas == NO_REPLICAS


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("0:4", {(0, 4)}),
        ("0:4,12:101", {(0, 4), (12, 101)}),
        ("", set()),
        ("*", set()),
        ("0:4,x,5,:,1:,6:7:8", {(0, 4)}),
        ("9" * 5000 + ":1", set()),
    ],
)
def test_only_pairs_of_what_self_repair_wrote_count(text, pairs):
    assert read_repaired_replicas(text).replicas == pairs
    assert not read_repaired_replicas(text).is_all
    settings = resolve_topic_settings({"rebalance.throttled.replicas": text}, BrokerSettings())
    assert settings.rebalance_throttled_replicas == read_repaired_replicas(text)
