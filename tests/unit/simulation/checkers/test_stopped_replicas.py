"""The replicas that brokers have stopped are known from the moment on, as long as they are there."""

from types import SimpleNamespace

from esp.broker.replication.host import ReplicaHost
from esp.model.ids import NodeId
from esp.replication.partition_follower import CommittedDataLossError
from esp.simulation.checkers.stopped_replicas import StoppedReplicas
from tests.unit.storage.helpers import TOPIC_ID

NODE = NodeId(2)
KEY = (TOPIC_ID, 0)


class Replica:
    """One that a host can stop."""

    def __init__(self):
        self.is_offline = False
        self.log = SimpleNamespace(path="/data/t-0")


def test_a_stopped_replica_is_known_until_another_one_takes_its_place():
    hosted, now_s, told = {(NODE, KEY): Replica()}, [5.0], []
    stopped = StoppedReplicas(lambda node_id, key: hosted.get((node_id, key)), lambda: now_s[0])
    host = SimpleNamespace(_roles=SimpleNamespace(give_up=lambda _hosted: None), tell_directory=told.append)
    replica = hosted[NODE, KEY]
    with stopped.watched():
        assert stopped.since_s(NODE, KEY) is None
        for now_s[0] in (6.0, 7.0):
            ReplicaHost.take_offline(host, replica, CommittedDataLossError("its leader has another log"))
    assert replica.is_offline
    assert told == [replica, replica]
    assert stopped.since_s(NODE, KEY) == 6.0
    hosted[NODE, KEY] = Replica()
    assert stopped.since_s(NODE, KEY) is None
    hosted.clear()
    assert stopped.since_s(NODE, KEY) is None


def test_nothing_is_watched_after_the_block():
    before = ReplicaHost.take_offline
    with StoppedReplicas(lambda _node_id, _key: None, lambda: 0.0).watched():
        assert ReplicaHost.take_offline is not before
    assert ReplicaHost.take_offline is before
