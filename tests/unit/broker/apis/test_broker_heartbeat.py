import asyncio

import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.played_broker import PlayedBroker
from tests.unit.broker.simulated_node import simulated


@pytest.mark.parametrize("version", [0, 1, 2])
@simulated()
async def test_a_broker_serves_when_it_has_read_its_registration(node, version):
    broker = await PlayedBroker(node, 7).connect()
    await broker.register()
    answer = await broker.beat(version, current_metadata_offset=0)
    assert (answer.is_caught_up, answer.is_fenced, answer.should_shut_down) == (False, True, False)
    answer = await broker.beat(version)
    assert (answer.is_caught_up, answer.is_fenced, answer.should_shut_down) == (True, False, False)
    assert broker.image.brokers[7].is_active


@simulated()
async def test_a_stale_epoch_is_told(node):
    broker = await PlayedBroker(node, 7).start()
    assert (await broker.beat(broker_epoch=broker.epoch - 1)).error_code is ErrorCode.stale_broker_epoch
    assert (await broker.beat(broker_id=8)).error_code is ErrorCode.stale_broker_epoch


@simulated()
async def test_a_broker_that_leads_nothing_may_stop(node):
    broker = await PlayedBroker(node, 7).start()
    answer = await broker.beat(want_shut_down=True)
    assert (answer.is_fenced, answer.should_shut_down) == (True, True)
    assert broker.image.brokers[7].fenced


@simulated()
async def test_an_offline_directory_costs_leadership(node):
    broker = await PlayedBroker(node, 7).connect()
    other = broker.directory.__class__(int=5000)
    await broker.register(log_dirs=(broker.directory, other))
    await broker.beat()
    await broker.create("t", 7)
    await broker.beat(1, offline_log_dirs=(other,))
    assert broker.image.brokers[7].log_dirs == (broker.directory,)
    assert broker.partition("t").leader == 7  # it has not said that the replica was there


@simulated()
async def test_the_end_of_the_connection_fences_a_broker_whose_listener_refuses(node):
    broker = await PlayedBroker(node, 7).start()
    await broker.create("t", 7, 1)
    assert broker.partition("t").leader == 7
    broker.client.close()
    await asyncio.sleep(0.1)
    assert broker.image.brokers[7].fenced
    assert broker.partition("t").leader == 1
