"""Which copies count against the budget of self-repair, whatever happens to the reassignments that make them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.controller.alter_partition import IsrProposal, decide_alter_partition
from esp.controller.config_rules import ConfigRules
from esp.controller.configs import ConfigChange, ConfigOperation, ConfigResource, Operation, decide_alter_configs
from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.controller.self_repair_marks import decide_mark_removal
from esp.controller.topics import NewTopic, decide_delete_topics
from esp.model.errors import ApiError
from esp.model.ids import NodeId
from esp.schemas.metadata_records import TOPIC_RESOURCE, ConfigRecord
from esp.settings.broker import BrokerSettings
from tests.unit.controller.samples import Cluster

MARK = "rebalance.throttled.replicas"
PARTITIONS = 3


class Marked:
    """Six brokers, and a topic of three partitions on the first three."""

    def __init__(self):
        self.cluster = Cluster(6)
        on_three = tuple((number, tuple(map(NodeId, (1, 2, 3)))) for number in range(PARTITIONS))
        self.cluster.create(NewTopic(name="t", assignments=on_three))

    @property
    def image(self):
        return self.cluster.image

    def state(self, number):
        return self.cluster.partition("t", number)

    def move(self, number, *replicas, for_repair=True):
        """Begin a reassignment, or with no replicas cancel it; whether it was accepted."""
        wanted = Reassignment("t", number, tuple(map(NodeId, replicas)) or None)
        (refusal,) = self.cluster.decide(decide_reassignments(self.image, [wanted], for_repair=for_repair))
        return refusal is None

    def catch_up(self, number):
        """Everything that is being added comes into the in-sync set."""
        state = self.state(number)
        change = IsrProposal(
            topic_id=state.topic_id,
            partition=number,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr=tuple((node, self.cluster.epoch(node)) for node in state.replicas),
        )
        epoch = self.cluster.epoch(state.leader)
        self.cluster.decide(decide_alter_partition(self.image, state.leader, epoch, [change]))

    def clean(self):
        self.cluster.decide(decide_mark_removal(self.image))

    @property
    def marks(self):
        topic = self.image.topics_by_name.get("t")
        return None if topic is None else topic.configs.get(MARK)


def test_what_self_repair_adds_is_marked_in_the_batch_that_begins_it():
    world = Marked()
    wanted = [Reassignment("t", number, (NodeId(1), NodeId(2), NodeId(4 + number))) for number in (0, 1)]
    decision = decide_reassignments(world.image, wanted, for_repair=True)
    assert [type(record).__name__ for record in decision.records] == ["PartitionChangeRecord"] * 2 + ["ConfigRecord"]
    world.cluster.decide(decision)
    assert world.marks == "0:4,1:5"


def test_what_others_add_is_not():
    world = Marked()
    assert world.move(0, 1, 2, 4, for_repair=False)
    assert world.marks is None


def test_a_move_that_copies_nothing_is_not_marked():
    world = Marked()
    assert world.move(0, 3, 2, 1)
    assert world.marks is None


def test_marks_of_other_partitions_stay():
    world = Marked()
    world.move(0, 1, 2, 4)
    world.move(1, 4, 5, 3)
    assert world.marks == "0:4,1:4,1:5"
    world.move(0)
    assert world.marks == "1:4,1:5"


@pytest.mark.parametrize("replicas", [(), (1, 2, 5), (1, 2, 4)], ids=["cancel", "elsewhere", "the same"])
def test_somebody_who_takes_a_reassignment_over_takes_it_out_of_the_budget_at_once(replicas):
    world = Marked()
    world.move(0, 1, 2, 4)
    assert world.move(0, *replicas, for_repair=False)
    assert bool(world.state(0).adding_replicas) is bool(replicas)
    if replicas == (1, 2, 4):  # it changes nothing: it goes on as it was begun
        assert world.marks == "0:4"
    else:
        assert world.marks is None


def test_marks_go_when_the_reassignment_has_ended_and_not_before():
    world = Marked()
    world.move(0, 1, 2, 4)
    world.move(1, 1, 2, 5)
    world.clean()
    assert world.marks == "0:4,1:5"
    world.catch_up(0)
    world.clean()
    assert world.marks == "1:5"
    world.catch_up(1)
    world.clean()
    assert world.marks is None
    offset = world.cluster.next_offset
    world.clean()
    assert world.cluster.next_offset == offset


def test_marks_go_with_their_topic():
    world = Marked()
    world.move(0, 1, 2, 4)
    world.cluster.decide(decide_delete_topics(world.image, ["t"]))
    world.clean()
    assert not world.image.topics_by_name


@pytest.mark.parametrize("text", ["", "*", "0", "7:1", "0:x,0:4,0:99999999999999", "9" * 4000 + ":1"])
def test_what_makes_no_sense_is_taken_away(text):
    world = Marked()
    world.move(0, 1, 2, 4, for_repair=False)
    record = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name=MARK, value=text)
    world.cluster.apply([record])
    world.clean()
    assert world.marks == ("0:4" if "0:4" in text else None)


def alter(world, *operations, replaces_all=False):
    change = ConfigChange(ConfigResource(TOPIC_RESOURCE, "t"), operations, replaces_all)
    rules = ConfigRules(BrokerSettings())
    (refusal,) = world.cluster.decide(decide_alter_configs(world.image, [change], rules, validate_only=False))
    return refusal


def test_settings_that_replace_all_others_leave_the_marks():
    world = Marked()
    world.move(0, 1, 2, 4)
    alter(world, ConfigOperation("retention.ms", Operation.SET, "1000"), replaces_all=True)
    assert world.marks == "0:4"
    assert world.image.topics_by_name["t"].configs["retention.ms"] == "1000"
    alter(world, replaces_all=True)
    assert world.image.topics_by_name["t"].configs == {MARK: "0:4"}


def test_operator_cannot_set_marks():
    world = Marked()
    refusal = alter(world, ConfigOperation(MARK, Operation.SET, "0:1"))
    assert isinstance(refusal, ApiError)
    assert refusal.message == f"Unknown topic config name: {MARK}"
    assert world.marks is None


@st.composite
def _steps(draw):
    number = draw(st.integers(0, PARTITIONS - 1))
    match draw(st.sampled_from(["repair", "other", "cancel", "catch up", "clean", "fence"])):
        case "catch up":
            return ("catch up", number)
        case "clean":
            return ("clean",)
        case "fence":
            return ("fence", draw(st.integers(4, 6)))
        case "cancel":
            return ("move", number, (), draw(st.booleans()))
        case word:
            replicas = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True))
            return ("move", number, tuple(replicas), word == "repair")


@settings(max_examples=200)
@given(st.lists(_steps(), max_size=15))
def test_exactly_that_is_marked_which_self_repair_was_the_last_to_begin(steps):
    """As far as it is still being added; what has ended may be marked until somebody cleans up."""
    world = Marked()
    ours = {}
    for step in steps:
        match step:
            case ("move", number, replicas, for_repair):
                before = world.state(number)
                if world.move(number, *replicas, for_repair=for_repair) and world.state(number) is not before:
                    ours[number] = for_repair
            case ("catch up", number):
                world.catch_up(number)
            case ("clean",):
                world.clean()
                marked = set((world.marks or "").split(",")) - {""}
                assert marked == {
                    f"{number}:{node}"
                    for number in range(PARTITIONS)
                    for node in world.state(number).adding_replicas
                    if ours.get(number)
                }
            case ("fence", node):
                if world.image.brokers[node].is_active:
                    world.cluster.fence(node)
        marked = set((world.marks or "").split(",")) - {""}
        for number in range(PARTITIONS):
            for node in world.state(number).adding_replicas:
                assert (f"{number}:{node}" in marked) is ours.get(number, False)
