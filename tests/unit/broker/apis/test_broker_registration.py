import uuid

import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.played_broker import PlayedBroker
from tests.unit.broker.simulated_node import simulated


@pytest.mark.parametrize("version", [2, 3, 4])
@simulated()
async def test_a_broker_is_written_down_as_it_says_of_itself(node, version):
    broker = await PlayedBroker(node, 7).connect()
    answer = await broker.register(version, rack="r")
    assert answer.error_code is ErrorCode.none
    known = broker.image.brokers[7]
    assert (known.epoch, known.fenced, known.rack) == (answer.broker_epoch, True, "r")
    assert known.endpoints == {"PLAINTEXT": broker.address}
    assert known.log_dirs == (broker.directory,)
    assert "metadata.version" in known.features


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.inconsistent_cluster_id),
        ({"log_dirs": ()}, ErrorCode.invalid_registration),
        ({"log_dirs": (None,)}, ErrorCode.invalid_registration),
        ({"features": ()}, ErrorCode.invalid_registration),
        ({"is_migrating_zk_broker": True}, ErrorCode.broker_id_not_registered),
        ({"broker_id": 1}, ErrorCode.duplicate_broker_registration),  # the node's own, which lives
    ],
)
@simulated()
async def test_a_refusal_is_told_by_kafkas_code_and_changes_nothing(node, changes, code):
    broker = await PlayedBroker(node, 7).connect()
    before = broker.image.brokers
    answer = await broker.register(**changes)
    assert (answer.error_code, answer.broker_epoch) == (code, -1)
    assert broker.image.brokers == before


@simulated()
async def test_the_same_incarnation_gets_the_same_epoch(node):
    broker = await PlayedBroker(node, 7).connect()
    incarnation = uuid.uuid4()
    first = await broker.register(incarnation_id=incarnation)
    assert (await broker.register(incarnation_id=incarnation)).broker_epoch == first.broker_epoch
