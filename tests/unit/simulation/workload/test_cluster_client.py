"""What clients know of brokers and leaders, and when they ask anew."""

import asyncio
import uuid
from random import Random
from types import SimpleNamespace

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.ports.network import Address
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.workload.cluster_client import RECONNECT_S, UNREACHED_MAX_S, ClusterClient, Leadership
from esp.simulation.workload.connection import NoAnswerError
from tests.unit.simulation.workload.scripted import TOPIC, ScriptedConnection
from tests.unit.storage.helpers import TOPIC_ID

BOOTSTRAP = Address("10.0.0.1", 9092)


class Client(ClusterClient):
    """One whose connections are scripted; it notes where it connects."""

    def __init__(self, *answers):
        super().__init__(None, [BOOTSTRAP], "client", Random(1))
        self.connection = ScriptedConnection(*answers)
        self.connected = []

    async def connect(self, address):
        self.connected.append(address)
        return self.connection


def metadata(*, leader=2, epoch=5, topic_id=TOPIC_ID, code=ErrorCode.none):
    partition = SimpleNamespace(partition_index=0, leader_id=leader, leader_epoch=epoch)
    topic = SimpleNamespace(name=TOPIC, topic_id=topic_id, error_code=code, partitions=[partition])
    brokers = [SimpleNamespace(node_id=number, host=f"10.0.0.{number}", port=9092) for number in (1, 2, 3)]
    return SimpleNamespace(brokers=brokers, topics=[topic])


def leader_of(client):
    return SimulatedLoop().run(client.leader(TOPIC, 0))[1]


def refresh(client):
    SimulatedLoop().run(client.refresh([TOPIC]))


def test_leader_is_asked_for_once_and_connected_to():
    client = Client(metadata())
    assert leader_of(client) == leader_of(client) == Leadership(2, 5)
    assert len(client.connection.sent) == 1
    assert client.connected == [BOOTSTRAP, *[Address("10.0.0.2", 9092)] * 2]


def test_leader_that_was_forgotten_is_asked_for_again():
    client = Client(metadata(), metadata(leader=3, epoch=6))
    leader_of(client)
    client.forget_leader(TOPIC, 0)
    assert leader_of(client) == Leadership(3, 6)


def test_who_is_avoided_is_asked_for_leaders_only_if_no_other_is_known():
    client = Client(metadata())
    client.avoided = frozenset({BOOTSTRAP})
    for _ in range(30):
        refresh(client)
    assert client.connected[0] == BOOTSTRAP
    assert {*client.connected[1:]} == {Address("10.0.0.2", 9092), Address("10.0.0.3", 9092)}


def test_broker_that_lags_does_not_bring_an_old_leader_back():
    client = Client(metadata(leader=3, epoch=6), metadata(leader=2, epoch=5))
    refresh(client)
    refresh(client)
    assert client.leaders == {(TOPIC, 0): Leadership(3, 6)}


def test_broker_that_lags_does_not_bring_an_old_leader_back_that_was_forgotten_where_epochs_are_kept():
    client = Client(metadata(leader=3, epoch=6), metadata(leader=2, epoch=5), metadata(leader=1, epoch=7))
    client.keeps_epochs = True
    refresh(client)
    client.forget_leader(TOPIC, 0)
    assert leader_of(client) == leader_of(client) == Leadership(3, 6)
    client.forget_leader(TOPIC, 0)
    assert leader_of(client) == Leadership(1, 7)


def test_new_topic_of_the_name_has_leaders_of_its_own():
    other = TopicId(uuid.UUID(int=7))
    client = Client(metadata(leader=3, epoch=6), metadata(leader=2, epoch=0, topic_id=other))
    refresh(client)
    refresh(client)
    assert client.leaders == {(TOPIC, 0): Leadership(2, 0)}
    assert client.topic_ids == {TOPIC: other}


def test_topic_that_is_gone_has_no_id():
    client = Client(metadata(), metadata(code=ErrorCode.unknown_topic_or_partition))
    refresh(client)
    refresh(client)
    assert client.topic_ids == {}


@pytest.mark.parametrize("leader", [-1, 9])
def test_leader_that_is_nobody_is_no_answer_and_asked_for_again(leader):
    client = Client(metadata(leader=leader), metadata())
    with pytest.raises(NoAnswerError):
        leader_of(client)
    assert leader_of(client) == Leadership(2, 5)


class SwitchedNetwork:
    """Refuses connections until it is on."""

    def __init__(self):
        self.is_on = False

    async def connect(self, _address, on_open, _timeout_us):
        if not self.is_on:
            raise ConnectionRefusedError
        return on_open(None)


def test_client_that_reaches_no_broker_for_long_tries_less_often_until_it_reaches_one():
    network, loop = SwitchedNetwork(), SimulatedLoop()
    client = ClusterClient(network, [BOOTSTRAP], "client", Random(1))

    async def tries_in(seconds):
        end_s, tries = loop.time() + seconds, 0
        while loop.time() < end_s:
            with pytest.raises(NoAnswerError):
                await client.any_broker()
            tries += 1
            await asyncio.sleep(0.1)
        return tries

    async def main():
        eager = await tries_in(UNREACHED_MAX_S)
        patient = await tries_in(11 * RECONNECT_S)
        network.is_on = True
        (await client.any_broker()).is_closed = True
        network.is_on = False
        return eager, patient, await tries_in(1.0)

    eager, patient, again = loop.run(main())
    assert eager >= 10 * UNREACHED_MAX_S - 1
    assert patient <= 11
    assert again >= 9
