"""Whom a device may cost a part of what it said to hold, and what is said of it."""

import asyncio
import dataclasses
from random import Random
from types import SimpleNamespace

import pytest

from esp.controller.image import EMPTY_IMAGE, TopicImage
from esp.model.ids import NO_NODE, NodeId
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.nodes_tier.caretaker import DiskCopy
from esp.simulation.nodes_tier.faults import Fault, FaultKind
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.lost_parts import LostParts
from esp.simulation.nodes_tier.profile import TopicProfile
from tests.unit.replication.logs import state
from tests.unit.storage.helpers import TOPIC_ID, new_disk

LOG, SEALED = "/data/t-0/00000000000000000009.log", "/data/t-0/00000000000000000000.log"
FORMATTED = "/data/bootstrap.checkpoint"
FILES = {LOG: b"new", SEALED: b"sealed", "/data/recovery-point-offset-checkpoint": b"new", FORMATTED: b"first"}


class Scene:
    """Node 2 of three brokers, whose device has held nothing of its files."""

    def __init__(self, *, configs=None, profile_configs=None, **places):
        node = NodeId(2)
        self.configs = configs or {}
        self.state = state(
            replicas=tuple(map(NodeId, (1, 2, 3))), **{"isr": (NodeId(1),), "leader": NodeId(1), **places}
        )
        self.said, self.restored, self.struck = [], [], []
        self.loop = None
        self.nodes = {
            number: SimpleNamespace(
                node_id=NodeId(number), name=f"node {number}", disk=new_disk(), is_serving=number == node, dark=False
            )
            for number in (1, 2, 3)
        }
        self.node = self.nodes[node]
        for each in self.nodes.values():
            each.disk.make_directory("/data")
            each.lose_power = lambda each=each: setattr(each, "dark", True)
        self.ledger = Ledger(1, copies_allowed=1)
        world = SimpleNamespace(
            nodes=self.nodes,
            profile=SimpleNamespace(
                layout=SimpleNamespace(brokers=(1, 2, 3)),
                every_topic=(TopicProfile("t", 1, 3, 2, profile_configs or {}),),
            ),
            trace=SimpleNamespace(say=lambda _who, what: self.said.append(what)),
            spawn=self.spawn,
        )
        caretaker = SimpleNamespace(
            copy_records=lambda _node: DiskCopy(FILES, (), {}),
            copy_synced_records=lambda _node: DiskCopy({}, (), {}),
            restore_records=lambda _node, copied, *, is_same_disk: self.restored.append((copied, is_same_disk)),
        )
        self.parts = LostParts(world, self.ledger, caretaker, SimpleNamespace(strike=self.strike), self.image)

    def spawn(self, coroutine):
        return self.loop.create_task(coroutine)

    async def strike(self, node, _damage, _what, *, is_aimed, in_order):
        self.struck.append((int(node.node_id), is_aimed, in_order))

    def image(self):
        topic = TopicImage("t", TOPIC_ID, (self.state,), self.configs)
        return dataclasses.replace(EMPTY_IMAGE, topics_by_name={"t": topic}, topics_by_id={TOPIC_ID: topic})

    def lose(self, seed=1, *, in_order=False):
        self.parts.lose(self.node, DiskCopy({}, (), {}), Random(seed), in_order=in_order)


def test_parts_of_files_are_gone_with_the_power_and_the_replica_is_known_to_be_damaged():
    found = set()
    for seed in range(30):
        scene = Scene()
        scene.lose(seed)
        [(copied, is_same_disk)] = scene.restored
        assert scene.node.dark
        assert is_same_disk
        assert copied.files[SEALED] in (b"sealed", b""), "zeros in a sealed segment are rot"
        assert copied.files[FORMATTED] == b"first"
        assert (copied.damaged == ("/data/t-0",)) is any(copied.files[path] != FILES[path] for path in (LOG, SEALED))
        assert scene.ledger.lost_parts >= (copied.files != FILES)
        found.add(copied.files[LOG])
    assert found == {b"new", b"", b"\0\0\0"}


@pytest.mark.parametrize("where", ["configs", "profile_configs"])
def test_a_hole_that_looks_like_one_of_compaction_is_not_made(where):
    lost = set()
    for seed in range(30):
        scene = Scene(**{where: {"cleanup.policy": "compact,delete"}})
        scene.lose(seed)
        [(copied, _)] = scene.restored
        assert copied.files.keys() == FILES.keys()
        assert copied.files[SEALED] == FILES[SEALED]
        lost.update(path for path in FILES if copied.files[path] != FILES[path])
    assert lost == FILES.keys() - {SEALED, FORMATTED}


@pytest.mark.parametrize(
    "places",
    [
        {"isr": (NodeId(1), NodeId(2))},
        {"elr": (NodeId(2),)},
        {"isr": (), "leader": NO_NODE, "last_known_elr": (NodeId(2),)},
    ],
    ids=["in sync", "eligible", "last known leader"],
)
def test_who_was_stopped_in_order_loses_nothing_where_it_may_lead(places):
    scene = Scene(**places)
    scene.lose(in_order=True)
    assert not scene.restored
    assert not scene.node.dark
    scene.lose(in_order=False)
    assert scene.restored, "a machine that was restarted is no candidate"


def test_who_was_stopped_in_order_and_leads_nothing_may_lose_something():
    scene = Scene()
    scene.lose(in_order=True)
    assert scene.restored


def test_a_disk_that_has_rotted_meanwhile_loses_nothing():
    scene = Scene()
    disk = scene.node.disk
    disk.make_directory("/data/t-0")
    disk.replace_file_blocking(LOG, b"record")
    disk.content(LOG).rot(3, 1)
    scene.lose()
    assert not scene.restored
    assert not scene.node.dark


def bring(scene, amount):
    async def main():
        is_brought = scene.parts.bring(Fault(0, FaultKind.LOST_PART, (3,), 1.0, amount))
        await asyncio.sleep(2)
        return is_brought

    scene.loop = SimulatedLoop()
    return scene.loop.run(main())


def test_a_broker_that_serves_is_struck_some_of_them_in_order_and_some_when_it_hurts():
    struck = set()
    for number in range(40):
        scene = Scene()
        assert bring(scene, number / 40)
        struck.update(scene.struck)
    assert struck == {(2, False, False), (2, True, False), (2, False, True)}


def test_nobody_is_struck_beyond_what_the_ledger_covers():
    for change in ("copy", "poisoned", "down"):
        scene = Scene()
        if change == "copy":
            scene.ledger.on_copy_lost(1, 0.0)
        elif change == "poisoned":
            scene.ledger.on_failed_sync(2, 0.0)
        else:
            scene.node.is_serving = False
        assert not bring(scene, 0.5)
        assert not scene.struck
