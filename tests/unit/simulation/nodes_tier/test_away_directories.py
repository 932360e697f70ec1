"""A log directory that goes away and comes back as it was, when that may happen, and what the checkers are told of it."""

import asyncio
from random import Random
from types import SimpleNamespace

import pytest

from esp.settings.broker import BrokerSettings
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.nodes_tier.away_directories import AWAY, TRASH_WAIT_S, AwayDirectories
from esp.simulation.nodes_tier.faults import Fault, FaultKind
from esp.simulation.nodes_tier.ledger import Ledger
from tests.unit.storage.helpers import TOPIC_ID, new_disk

OLD, NEW, FIRST = "/more/t-0", "/more/t-1", "/data/t-2"


class Scene:
    """A node with two log directories, in a cluster that lets everything happen at once."""

    def __init__(self):
        self.loop = SimulatedLoop()
        self.told = []
        self.disk = new_disk()
        for path in ("/data", FIRST, "/more", OLD):
            self.disk.make_directory(path)
        self.disk.write_file(f"{OLD}/{0:020d}.log", b"old")
        self.disk.sync_all_blocking()
        self.node = SimpleNamespace(
            node_id=1,
            disk=self.disk,
            damaged={},
            is_serving=True,
            settings=BrokerSettings(log_dirs=("/data", "/more")),
        )
        self.ledger = Ledger(1, copies_allowed=1)
        self.is_over = self.is_last = False
        self.strikes = []
        world = SimpleNamespace(
            loop=self.loop,
            profile=SimpleNamespace(layout=SimpleNamespace(brokers=(1, 2, 3))),
            spawn=self.loop.create_task,
        )
        caretaker = SimpleNamespace(
            on_moved_away=lambda _node, path: self.told.append(f"lost {path}"),
            on_away=lambda _node, path: self.told.append(f"away {path}"),
            on_returned=lambda _node: self.told.append("returned"),
        )
        moments = SimpleNamespace(is_last_somewhere=lambda _node: self.is_last, strike=self.strike)
        self.image = SimpleNamespace(topics_by_id={}, trashed_topics={})
        self.away = AwayDirectories(world, self.ledger, caretaker, moments, lambda: self.image, lambda: self.is_over)

    async def strike(self, node, damage, what, *, is_aimed, in_order):
        self.strikes.append((self.loop.time(), what, is_aimed, in_order))
        if self.is_last:
            return
        damage(None)

    def stand_in(self):
        """What the node writes where the directory is missing."""
        self.disk.make_directory("/more")
        self.disk.make_directory(NEW)

    def bring(self, amount=0.5):
        """Bring the fault, of five seconds."""
        return self.away.bring(Fault(0.0, FaultKind.LOG_DIR_AWAY, (1,), 5.0, amount), self.node)

    def play(self, *steps):
        """Take these steps, each after its seconds."""

        async def main():
            for seconds, step in steps:
                await asyncio.sleep(seconds)
                step()

        self.loop.run(main())

    def is_away(self):
        return self.disk.exists(AWAY)


@pytest.fixture
def scene():
    found = Scene()
    yield found
    found.loop.close()


def test_a_directory_comes_back_as_it_was_and_what_stood_in_its_place_is_lost(scene):
    scene.node.damaged = {FIRST: None, OLD: None}
    damaged = scene.away.take(scene.node, is_dropped=False)
    assert (damaged, list(scene.node.damaged), scene.told) == ([OLD], [FIRST], ["away /more"])
    assert not scene.disk.exists("/more")
    assert scene.node.settings.log_dirs == ("/data", "/more")
    assert list(scene.ledger.copies) == [1]

    scene.ledger.on_whole()
    scene.stand_in()
    scene.node.damaged[NEW] = None
    scene.away.give_back(scene.node, damaged)
    assert scene.told[1:] == [f"lost {NEW}", "returned"]
    assert list(scene.node.damaged) == [FIRST, OLD]
    assert scene.disk.read_file(f"{OLD}/{0:020d}.log") == b"old"
    assert not scene.disk.exists(NEW)
    assert not scene.disk.exists(AWAY)
    assert list(scene.ledger.copies) == [1]
    assert scene.ledger.returned_directories == 1


def test_a_directory_that_was_taken_out_of_the_settings_is_put_back_and_nothing_is_lost(scene):
    damaged = scene.away.take(scene.node, is_dropped=True)
    assert scene.node.settings.log_dirs == ("/data",)
    scene.ledger.on_whole()
    scene.away.give_back(scene.node, damaged)
    assert scene.node.settings.log_dirs == ("/data", "/more")
    assert scene.told == ["away /more", "returned"]
    assert not scene.ledger.copies


def test_nothing_comes_back_to_another_disk(scene):
    damaged = scene.away.take(scene.node, is_dropped=False)
    scene.disk.remove_tree(AWAY)
    scene.stand_in()
    scene.away.give_back(scene.node, damaged)
    assert scene.disk.exists(NEW)
    assert scene.ledger.returned_directories == 0


def test_the_fault_takes_the_directory_for_its_time_and_brings_it_back(scene):
    seen = []
    scene.play(
        (0, lambda: seen.append(scene.bring())),
        (4.9, lambda: seen.append(scene.is_away())),
        (0, lambda: seen.append(scene.bring())),  # one is away at a time
        (0.2, lambda: seen.append(scene.is_away())),
    )
    assert seen == [True, True, False, False]
    assert scene.ledger.returned_directories == 1
    assert [(at_s, what) for at_s, what, *_ in scene.strikes] == [
        (0.0, "misses a log directory"),
        (5.0, "gets a log directory back"),
    ]


def test_what_comes_back_waits_until_nothing_is_lost_by_it_and_for_the_end_of_all_faults(scene):
    away = []

    def forbid():
        scene.is_last = True

    def end():
        away.append(scene.is_away())
        scene.is_over, scene.is_last = True, False

    scene.play((0, scene.bring), (1, forbid), (9, end), (60, lambda: away.append(scene.is_away())))
    assert len(scene.strikes) > 2
    assert away == [True, True], "no fault begins after the end of all"


def test_a_directory_with_a_log_in_the_trash_is_away_until_its_topic_was_restored_and_deleted_again(scene):
    scene.disk.make_directory(f"/more/t-1.{TOPIC_ID.hex}-stray")
    scene.image.trashed_topics[TOPIC_ID] = None
    away = []

    def restore():
        away.append(scene.is_away())
        scene.image.topics_by_id[TOPIC_ID] = scene.image.trashed_topics.pop(TOPIC_ID)

    def delete():
        away.append(scene.is_away())
        scene.image.trashed_topics[TOPIC_ID] = scene.image.topics_by_id.pop(TOPIC_ID)

    scene.play((0, scene.bring), (9, restore), (9, delete), (1, lambda: away.append(scene.is_away())))
    assert away == [True, True, False]


def test_a_directory_whose_topic_stays_in_the_trash_comes_back(scene):
    scene.disk.make_directory(f"/more/t-1.{TOPIC_ID.hex}-stray")
    scene.image.trashed_topics[TOPIC_ID] = None
    scene.play((0, scene.bring), (2 * TRASH_WAIT_S + 1, lambda: None))
    assert scene.ledger.returned_directories == 1


def test_deaths_are_in_order_or_not_and_aimed_or_not_and_directories_stay_in_the_settings_or_not():
    found = set()
    for number in range(40):
        scene = Scene()
        amount = Random(number).random()
        scene.play((0, lambda scene=scene, amount=amount: scene.bring(amount)), (1, lambda: None))
        found.add((*scene.strikes[0][2:], scene.node.settings.log_dirs))
    assert len(found) == 8


@pytest.mark.parametrize(
    "spoil",
    [
        lambda scene: setattr(scene.node, "node_id", 4),
        lambda scene: setattr(scene.node, "is_serving", False),
        lambda scene: setattr(scene, "is_last", True),
        lambda scene: setattr(scene.node, "settings", BrokerSettings(log_dirs=("/data",))),
        lambda scene: scene.ledger.on_copy_lost(2, 0.0),
        lambda scene: scene.disk.content(f"{OLD}/{0:020d}.log").rot(0, 1),
    ],
)
def test_the_fault_is_left_out(scene, spoil):
    spoil(scene)
    assert not scene.bring()
