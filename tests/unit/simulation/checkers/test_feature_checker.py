"""The levels of features as INV-FEATURES sees them: of nodes that cannot work at the cluster's level, and of levels that fall."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from esp.broker import controller_role
from esp.broker.controller_client import lifecycle
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.image import EMPTY_IMAGE
from esp.model.features import ELIGIBLE_LEADER_REPLICAS
from esp.simulation.checkers import probe
from esp.simulation.checkers.feature_checker import REFUSED, FeatureChecker, check_levels, is_too_old
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.upgrade_profile import NEW_LEVEL, OLDER_RELEASE

EPOCH = 7


class Scene:
    """A node with an image, and the epoch under which it knows itself to be registered."""

    def __init__(self, monkeypatch):
        self.node = SimpleNamespace(
            node_id=1,
            name="node 1",
            end_reason="",
            settings=SimpleNamespace(node_id=1, is_controller=False),
            running_features=SUPPORTED_FEATURES,
        )
        self.image = image(NEW_LEVEL)
        self.epoch = EPOCH
        self.checker = FeatureChecker()
        monkeypatch.setattr(probe, "image", lambda _node: self.image)
        monkeypatch.setattr(probe, "broker_epoch", lambda _node: self.epoch)

    def look(self):
        self.checker.look(self.node)

    def is_found(self, text):
        with pytest.raises(ViolationError, match=f"INV-FEATURES at node 1: .*{text}"):
            self.look()


def image(level, *, offset=3, registered=SUPPORTED_FEATURES, epoch=EPOCH):
    """At a level of eligible leader replicas, with one broker."""
    broker = SimpleNamespace(broker_id=1, node_id=1, epoch=epoch, features=registered)
    return replace(EMPTY_IMAGE, offset=offset, features={ELIGIBLE_LEADER_REPLICAS: level}, brokers={1: broker})


@pytest.fixture
def scene(monkeypatch):
    return Scene(monkeypatch)


def test_a_node_at_a_level_that_it_supports_is_well(scene):
    scene.look()
    scene.image = image(0, offset=4)
    scene.look()


def test_a_registered_broker_at_a_level_above_its_own_is_seen(scene):
    scene.node.running_features = OLDER_RELEASE
    scene.is_found(f"is at level {NEW_LEVEL}, and this release supports 0 to {NEW_LEVEL - 1}")


def test_a_process_that_is_not_registered_yet_may_learn_of_the_level_and_end(scene):
    scene.node.running_features, scene.epoch = OLDER_RELEASE, EPOCH + 1
    scene.look()


def test_a_controller_needs_no_registration_to_be_seen(scene):
    scene.node.running_features, scene.epoch = OLDER_RELEASE, EPOCH + 1
    scene.node.settings.is_controller = True
    scene.is_found("is at level")


def test_a_broker_that_is_registered_with_other_features_than_its_own_is_seen(scene):
    scene.image = image(0, registered=OLDER_RELEASE)
    scene.is_found("is registered as")


def test_an_image_is_looked_at_once(scene):
    scene.look()
    scene.node.running_features = OLDER_RELEASE
    scene.look()
    scene.image = image(NEW_LEVEL, offset=4)
    scene.is_found("is at level")


def test_a_level_that_falls_is_seen_whether_or_not_it_is_named_still():
    with pytest.raises(ViolationError, match=r"INV-FEATURES at the cluster: .* falls from"):
        check_levels(image(NEW_LEVEL), image(NEW_LEVEL - 1, offset=4))
    gone = replace(image(NEW_LEVEL, offset=4), features={})
    with pytest.raises(ViolationError, match=r"INV-FEATURES at the cluster: .* falls from"):
        check_levels(image(NEW_LEVEL), gone)
    check_levels(image(NEW_LEVEL - 1), image(NEW_LEVEL, offset=4))


def test_a_level_above_that_of_a_registered_broker_is_seen_when_either_changes():
    with pytest.raises(ViolationError, match="INV-FEATURES at broker 1"):
        check_levels(image(NEW_LEVEL - 1, registered=OLDER_RELEASE), image(NEW_LEVEL, registered=OLDER_RELEASE))
    with pytest.raises(ViolationError, match="INV-FEATURES at broker 1"):
        check_levels(image(NEW_LEVEL), image(NEW_LEVEL, registered=OLDER_RELEASE))


def test_the_first_image_of_a_run_has_none_before_it():
    check_levels(EMPTY_IMAGE, image(NEW_LEVEL, registered=OLDER_RELEASE))


@pytest.mark.parametrize(
    ("features", "reason", "expected"),
    [
        (OLDER_RELEASE, f"start {REFUSED}, please", True),
        (OLDER_RELEASE, "the disk is full", False),
        (SUPPORTED_FEATURES, f"start {REFUSED}, please", False),
    ],
)
def test_a_node_may_end_itself_for_its_release_alone_and_says_so(scene, features, reason, expected):
    scene.node.running_features, scene.node.end_reason = features, reason
    assert is_too_old(scene.node, scene.image) is expected


@pytest.mark.parametrize("module", [controller_role, lifecycle])
def test_the_words_by_which_a_node_is_excused_are_those_of_the_product(module):
    assert REFUSED in Path(module.__file__).read_text(encoding="utf-8")
