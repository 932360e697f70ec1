"""More nodes lose power at once than is promised to be survived, in some runs."""

from types import SimpleNamespace

from esp.simulation.beyond_promise import Blackouts
from esp.simulation.blackout_profile import draw_blackouts
from esp.simulation.faults import Fault, FaultKind
from esp.simulation.ledger import Ledger
from esp.simulation.profile import Profile
from esp.simulation.streams import stream


class Node:
    def __init__(self, node_id, *, is_alive=True):
        self.node_id = node_id
        self.is_alive = is_alive

    def lose_power(self):
        self.is_alive = False


class Scene:
    def __init__(self, *, topic="flights", is_beyond=True, dead=()):
        self.nodes = {number: Node(number, is_alive=number not in dead) for number in range(1, 5)}
        self.started = []
        self.ledger = Ledger(1, is_beyond_promise=is_beyond)
        world = SimpleNamespace(
            nodes=self.nodes,
            loop=SimpleNamespace(time=lambda: 5.0),
            start_later=lambda node, _delay_s: self.started.append(node.node_id),
        )
        state = SimpleNamespace(replicas=(1, 2, 3))
        image = SimpleNamespace(partitions=lambda: [(SimpleNamespace(name=topic), state)])
        self.blackouts = Blackouts(world, self.ledger, lambda: image)

    def bring(self):
        return self.blackouts.bring(Fault(1.0, FaultKind.BLACKOUT, (4,), 10.0, 0.5))

    @property
    def dark(self):
        return [number for number, node in self.nodes.items() if not node.is_alive]


def test_all_machines_of_a_partition_go_dark_and_come_back():
    scene = Scene()
    assert scene.bring()
    assert scene.dark == scene.started == [1, 2, 3]
    assert set(scene.ledger.lossy_s) == {1, 2, 3}


def test_machine_whose_process_is_dead_has_somebody_else_who_starts_it():
    scene = Scene(dead=(2,))
    assert scene.bring()
    assert scene.started == [1, 3]


def test_topic_of_the_cluster_s_own_is_not_aimed_at():
    assert not Scene(topic="__consumer_offsets").bring()


def test_ledger_is_asked():
    scene = Scene(is_beyond=False)
    assert scene.bring()
    assert scene.dark == [1]


def test_some_clusters_of_several_brokers_lose_more_than_is_promised():
    shares = {
        brokers: sum(draw_blackouts(stream("test", seed), brokers) is not None for seed in range(400))
        for brokers in (1, 3)
    }
    assert shares[1] == 0
    assert 30 < shares[3] < 90
    profiles = [Profile.draw(seed) for seed in range(200)]
    assert any(profile.breaks_promise for profile in profiles)
    assert all(profile.breaks_promise == (FaultKind.BLACKOUT in profile.fault_means_s) for profile in profiles)
