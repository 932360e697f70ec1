"""The internal topics, as the nodes have them created."""

from types import SimpleNamespace

import pytest

from esp.broker.auto_create import create_missing_topics
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TRANSACTIONS_TOPIC
from esp.settings.broker import BrokerSettings
from tests.unit.storage.helpers import run


class Controller:
    """Keeps the request, and is gone then."""

    request = None

    async def call(self, _api_key, request, **_):
        self.request = request
        raise ApiError(ErrorCode.request_timed_out)


def transaction_topic(alive, **settings):
    """(Partitions, replicas, settings) of ``__transaction_state`` where so many brokers are alive."""
    services = SimpleNamespace(
        settings=BrokerSettings(**settings),
        metadata=SimpleNamespace(alive=[*range(alive)]),
        controller=Controller(),
    )
    run(create_missing_topics(services, [TRANSACTIONS_TOPIC]))
    (topic,) = services.controller.request.topics
    assert topic.name == TRANSACTIONS_TOPIC
    return topic.num_partitions, topic.replication_factor, {config.name: config.value for config in topic.configs}


def test_the_topic_of_transactions_has_its_own_settings():
    settings = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": str(100 * 1024 * 1024),
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
    }
    assert transaction_topic(5) == (50, 3, settings)
    made = transaction_topic(
        5,
        transaction_state_log_num_partitions=7,
        transaction_state_log_replication_factor=4,
        transaction_state_log_segment_bytes=1 << 20,
        transaction_state_log_min_isr=3,
        unclean_leader_election_enable=True,
        compression_type="zstd",
    )
    assert made == (7, 4, settings | {"segment.bytes": str(1 << 20), "min.insync.replicas": "3"})


@pytest.mark.parametrize(
    ("alive", "min_isr", "replicas", "min_insync_replicas"),
    [(0, 2, 1, "1"), (1, 2, 1, "1"), (2, 2, 2, "2"), (2, 3, 2, "2"), (3, 2, 3, "2"), (3, 1, 3, "1")],
)
def test_no_more_replicas_are_wanted_in_sync_than_there_are(alive, min_isr, replicas, min_insync_replicas):
    _, found, settings = transaction_topic(alive, transaction_state_log_min_isr=min_isr)
    assert (found, settings["min.insync.replicas"]) == (replicas, min_insync_replicas)
