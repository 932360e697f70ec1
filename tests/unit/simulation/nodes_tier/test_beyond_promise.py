"""More nodes lose power at once than is promised to be survived, in some runs."""

from types import SimpleNamespace

from esp.simulation.nodes_tier.beyond_promise import BeyondPromise
from esp.simulation.nodes_tier.faults import Fault, FaultKind
from esp.simulation.nodes_tier.layout import Layout
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.loss_profile import draw_losses
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.streams import stream


class Node:
    def __init__(self, node_id, *, is_alive=True):
        self.node_id = node_id
        self.is_alive = is_alive

    def kill(self):
        self.is_alive = False

    def lose_power(self):
        self.is_alive = False


class Scene:
    def __init__(self, *, topic="flights", is_beyond=True, dead=(), controllers=(5,), isr=(1, 2, 3), elr=()):
        self.nodes = {number: Node(number, is_alive=number not in dead) for number in range(1, 5)}
        self.started = []
        self.ledger = Ledger(1, is_beyond_promise=is_beyond)
        world = SimpleNamespace(
            nodes=self.nodes,
            profile=SimpleNamespace(layout=Layout((1, 2, 3, 4), controllers, controllers)),
            loop=SimpleNamespace(time=lambda: 5.0),
            start_later=lambda node, _delay_s: self.started.append(node.node_id),
        )
        self.replaced = []
        caretaker = SimpleNamespace(replace_disk=lambda node: self.replaced.append(node.node_id))
        state = SimpleNamespace(replicas=(1, 2, 3), isr=isr, elr=elr)
        image = SimpleNamespace(partitions=lambda: [(SimpleNamespace(name=topic), state)])
        self.faults = BeyondPromise(world, self.ledger, caretaker, lambda: image)

    def bring(self):
        return self.faults.black_out(Fault(1.0, FaultKind.BLACKOUT, (4,), 10.0, 0.5))

    def lose_copies(self):
        return self.faults.lose_copies(Fault(1.0, FaultKind.LOSE_COPIES, (4,), 10.0, 0.5))

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


def test_all_complete_copies_are_lost_and_no_others():
    scene = Scene(isr=(2,), elr=(1,), dead=(1,))
    assert scene.lose_copies()
    assert scene.replaced == scene.dark == [1, 2]
    assert scene.started == [2], "somebody else starts the other one"


def test_disk_of_a_member_of_the_quorum_or_of_everybody_stays():
    assert not Scene(isr=(1, 2), controllers=(1, 2, 3)).lose_copies()
    assert not Scene(isr=(1, 2, 3, 4)).lose_copies()
    assert not Scene(isr=()).lose_copies(), "there is no complete copy"


def test_some_clusters_of_several_brokers_lose_more_than_is_promised():
    combined, split, single = Layout.combined(3), Layout((1, 2, 3), (4, 5, 6), (4, 5, 6)), Layout.combined(1)
    drawn = {
        layout: [losses for seed in range(400) if (losses := draw_losses(stream("test", seed), layout))]
        for layout in (combined, split, single)
    }
    assert not drawn[single]
    assert 30 < len(drawn[combined]) < 90
    assert all(set(losses) == {FaultKind.BLACKOUT} for losses in drawn[combined])
    assert all(set(losses) == {FaultKind.BLACKOUT, FaultKind.LOSE_COPIES} for losses in drawn[split])
    profiles = [Profile.draw(seed) for seed in range(200)]
    assert any(profile.breaks_promise for profile in profiles)
    assert all(profile.breaks_promise == (FaultKind.BLACKOUT in profile.fault_means_s) for profile in profiles)
