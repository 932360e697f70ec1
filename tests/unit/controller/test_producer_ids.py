"""Blocks of producer ids (PROD-10)."""

import pytest

from esp.controller.producer_ids import decide_producer_id_block
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import BrokerEpoch, NodeId
from esp.schemas.metadata_records import ProducerIdsRecord
from esp.settings.setting import LONG_MAX
from tests.unit.controller.samples import Cluster


def _allocate(cluster, number):
    broker = cluster.image.brokers[NodeId(number)]
    return cluster.decide(decide_producer_id_block(cluster.image, broker.node_id, broker.epoch))


def test_no_id_is_in_two_blocks():
    cluster = Cluster(2)
    blocks = [_allocate(cluster, number) for number in (1, 2, 1)]
    assert blocks == [range(1000), range(1000, 2000), range(2000, 3000)]
    assert cluster.image.next_producer_id == 3000


def test_a_broker_of_an_earlier_epoch_gets_none():
    cluster = Cluster(1)
    with pytest.raises(ApiError) as refused:
        decide_producer_id_block(cluster.image, NodeId(1), BrokerEpoch(1))
    assert refused.value.code is ErrorCode.stale_broker_epoch


def test_no_block_goes_beyond_the_largest_id():
    cluster = Cluster(1)
    cluster.apply([ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=LONG_MAX - 1500)])
    last = _allocate(cluster, 1)
    assert last.stop == LONG_MAX - 500
    with pytest.raises(ApiError, match="Exhausted all producerIds") as refused:
        _allocate(cluster, 1)
    assert refused.value.code is ErrorCode.unknown_server_error
