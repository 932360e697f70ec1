"""An upgrade node by node: who gets which release, when the level is asked for, and the answers that it takes for a violation."""

import asyncio
from random import Random
from types import SimpleNamespace

import pytest

from esp.controller.features import SUPPORTED_FEATURES
from esp.model.errors import ErrorCode
from esp.model.features import ELIGIBLE_LEADER_REPLICAS
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.nodes_tier.upgrade_profile import NEW_LEVEL, OLDER_RELEASE, UpgradeProfile
from esp.simulation.workload import upgrader as module
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.upgrader import Upgrader
from tests.unit.simulation.workload.scripted import new_history

OLD_LEVEL = NEW_LEVEL - 1
PROFILE = UpgradeProfile(begin_s=1.0, pause_s=0.1, goes_back_share=0.0)


class World:
    """Nodes of the older release, and a broker that raises the level if no node supports less."""

    def __init__(self, profile=PROFILE, seed=1):
        self.nodes = {
            number: SimpleNamespace(node_id=number, name=f"node {number}", is_serving=True, features=OLDER_RELEASE)
            for number in (1, 2, 3)
        }
        self.level = OLD_LEVEL
        self.given = []
        """By restart: the node, and whether its release is the newer one."""
        self.asked = []
        """By request: the level, and whether all nodes support it by then."""
        self.answers = []
        """Errors with which the next requests are answered, whatever they ask for."""
        self.history = new_history()
        client = SimpleNamespace(name="upgrader", any_broker=self.any_broker)
        self.upgrader = Upgrader(client, self, Random(seed), self.history, lambda: self.image, profile)

    @property
    def image(self):
        registered = {number: SimpleNamespace(features=node.features) for number, node in self.nodes.items()}
        return SimpleNamespace(features={ELIGIBLE_LEADER_REPLICAS: self.level}, brokers=registered, controllers={})

    @property
    def is_new(self):
        return all(node.features is SUPPORTED_FEATURES for node in self.nodes.values())

    def spawn(self, coroutine):
        return asyncio.ensure_future(coroutine)

    async def restart(self, node, down_s):
        self.given.append((node.node_id, node.features is SUPPORTED_FEATURES))
        await asyncio.sleep(down_s)

    async def any_broker(self):
        return self

    async def call(self, _key, _version, request, _timeout_s):
        (update,) = request.feature_updates
        self.asked.append((update.max_version_level, self.is_new))
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return SimpleNamespace(error_code=answer)
        if update.max_version_level < self.level or not self.is_new:
            return SimpleNamespace(error_code=ErrorCode.invalid_update_version)
        self.level = update.max_version_level
        return SimpleNamespace(error_code=ErrorCode.none)

    def run(self, seconds=60.0):
        async def main():
            running = asyncio.ensure_future(self.upgrader.run())
            await asyncio.sleep(seconds)
            self.upgrader.is_stopping = True
            await running

        SimulatedLoop().run(main(), limit_s=3600)

    def finish(self):
        SimulatedLoop().run(self.upgrader.finish(), limit_s=3600)


def test_each_node_gets_the_newer_release_once_and_then_the_level_is_raised():
    world = World()
    world.run()
    assert sorted(node for node, _ in world.given[:3]) == [1, 2, 3]
    assert all(is_newer for _, is_newer in world.given[:3])
    assert world.level == NEW_LEVEL
    assert world.history.done["level of a feature raised"] >= 1


def test_a_level_that_was_raised_is_asked_back_and_nodes_of_the_older_release_are_tried():
    world = World()
    world.run()
    raised = world.asked.index((NEW_LEVEL, True))
    assert {level for level, _ in world.asked[raised + 1 :]} == {OLD_LEVEL}
    assert (1, False) in world.given or (2, False) in world.given or (3, False) in world.given


def test_some_runs_ask_for_the_level_too_early():
    assert any((NEW_LEVEL, False) in world.asked for world in _worlds())


def test_a_node_goes_back_only_while_the_level_is_the_old_one():
    for world in _worlds(goes_back_share=1.0):
        first = world.given[:6]  # behind the third node all support the level, and it may be raised
        assert [is_newer for _, is_newer in first] == [True, False, True] * 2
        assert [node for node, _ in first[::3]] == [node for node, _ in first[1::3]]


def _worlds(goes_back_share=0.0):
    for seed in range(5):
        world = World(UpgradeProfile(begin_s=0.1, pause_s=0.1, goes_back_share=goes_back_share), seed)
        world.run(20)
        yield world


def test_a_node_that_is_down_gets_its_release_with_its_next_start():
    world = World()
    world.nodes[2].is_serving = False
    world.run(10)
    assert 2 not in {node for node, _ in world.given}
    assert world.history.done["node given the newer release"] >= 3


def test_an_answer_of_a_level_that_the_metadata_do_not_have_is_a_violation():
    world = World()
    world.answers = [ErrorCode.none]
    with pytest.raises(ViolationError, match="INV-FEATURES at upgrader: is answered that the level is"):
        world.run()


@pytest.mark.parametrize("is_new", [True, False])
def test_in_the_end_the_level_is_raised_if_all_support_it_and_else_refused(is_new):
    world = World()
    if is_new:
        for node in world.nodes.values():
            node.features = SUPPORTED_FEATURES
    world.finish()
    assert world.level == (NEW_LEVEL if is_new else OLD_LEVEL)
    assert len(world.asked) == 1


def test_a_level_that_is_refused_although_all_support_it_is_a_violation():
    world = World()
    for node in world.nodes.values():
        node.features = SUPPORTED_FEATURES
    world.answers = [ErrorCode.invalid_update_version]
    with pytest.raises(
        ViolationError, match="of the older release are \\[\\], and the answer is invalid_update_version"
    ):
        world.finish()


def test_a_level_that_is_raised_beside_a_node_of_the_older_release_is_a_violation(monkeypatch):
    world = World()
    monkeypatch.setattr(World, "is_new", True)
    with pytest.raises(ViolationError, match="of the older release are \\[1, 2, 3\\], and the answer is none"):
        world.finish()


def test_what_is_not_decided_is_asked_again_until_the_tries_are_over():
    world = World()
    world.answers = [NoAnswerError("silence"), ErrorCode.not_controller] * (module.LAST_TRIES // 2)
    with pytest.raises(ViolationError, match="can be neither raised nor refused"):
        world.finish()
    assert len(world.asked) == module.LAST_TRIES
