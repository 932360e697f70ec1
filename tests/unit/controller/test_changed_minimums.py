"""Leaders and the controller go by one minimum of in-sync replicas though each hears of another one at its own time (ELR-3)."""

import pytest

from esp.controller.alter_partition import IsrProposal as Proposed
from esp.controller.alter_partition import decide_alter_partition
from esp.controller.changed_minimums import plan_epochs_of_raised_minimums
from esp.controller.config_rules import ConfigRules
from esp.controller.configs import ConfigChange, ConfigOperation, ConfigResource, Operation, decide_alter_configs
from esp.controller.feature_updates import FeatureAuthority, FeatureUpdate, UpgradeType, decide_update_features
from esp.controller.image import MIN_INSYNC_REPLICAS
from esp.model.errors import ApiError, ErrorCode
from esp.model.features import ELIGIBLE_LEADER_REPLICAS
from esp.model.ids import BrokerEpoch, LeaderEpoch, NodeId
from esp.model.partition import PartitionState
from esp.replication.isr_changes import IsrAnswer
from esp.replication.partition_leader import ALL_REPLICAS, PartitionLeader
from esp.schemas.metadata_records import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigRecord, FeatureLevelRecord
from esp.settings.node import load_broker_settings
from esp.settings.topic import TopicSettings
from esp.simulation.partition_tier.memory_log import MemoryLog
from tests.unit.controller.samples import Cluster
from tests.unit.replication.logs import LAG_US, stamped

RULES = ConfigRules(load_broker_settings(None))
TOPIC, ALL = ConfigResource(TOPIC_RESOURCE, "t"), ConfigResource(BROKER_RESOURCE, "")


def set_minimum(cluster, *changes):
    """Change the minimum of some resources in one request; None takes a value away."""
    asked = [
        ConfigChange(
            resource,
            (ConfigOperation(MIN_INSYNC_REPLICAS, Operation.DELETE if value is None else Operation.SET, value),),
        )
        for resource, value in changes
    ]
    outcomes = cluster.decide(decide_alter_configs(cluster.image, asked, RULES, validate_only=False))
    assert outcomes == [None] * len(changes)


def enable_eligible_leaders(cluster):
    authority = FeatureAuthority(node_id=NodeId(1), kraft_version=1, min_insync_replicas=2)
    update = FeatureUpdate(ELIGIBLE_LEADER_REPLICAS, 1, UpgradeType.UPGRADE)
    cluster.decide(decide_update_features(cluster.image, authority, [update], validate_only=False))


def without_eligible_leaders():
    """A cluster of before the feature: its brokers have no common minimum."""
    cluster = Cluster(2)
    cluster.apply(
        [
            FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=0),
            ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name=MIN_INSYNC_REPLICAS, value=None),
        ]
    )
    return cluster


def with_minimums(cluster, *, topic=None, default="1"):
    cluster.set_cluster_config(MIN_INSYNC_REPLICAS, default)
    cluster.create_partition(1, 2, **({} if topic is None else {MIN_INSYNC_REPLICAS: topic}))
    return cluster


RAISES = {
    "of the topic": (lambda: with_minimums(Cluster(2)), lambda cluster: set_minimum(cluster, (TOPIC, "2"))),
    "of all topics": (lambda: with_minimums(Cluster(2)), lambda cluster: set_minimum(cluster, (ALL, "2"))),
    "by taking the topic's own away": (
        lambda: with_minimums(Cluster(2), topic="1", default="2"),
        lambda cluster: set_minimum(cluster, (TOPIC, None)),
    ),
    "by both at once": (
        lambda: with_minimums(Cluster(2), topic="1", default="1"),
        lambda cluster: set_minimum(cluster, (TOPIC, None), (ALL, "2")),
    ),
    "by a feature": (lambda: with_no_default(without_eligible_leaders()), enable_eligible_leaders),
}


def with_no_default(cluster):
    cluster.create_partition(1, 2)
    return cluster


class Leader:
    """Broker 1 leading, as far as it has heard of the metadata."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.log = MemoryLog(TopicSettings())
        self.log.begin_epoch(cluster.partition("t").leader_epoch)
        self.log.settings = self.settings()
        self.core = PartitionLeader(
            self.log,
            cluster.partition("t"),
            NodeId(1),
            now_us=0,
            lag_time_max_us=LAG_US,
            is_eligible=lambda _node, _epoch: True,
        )

    def settings(self):
        topic = self.cluster.image.topics_by_name["t"]
        return TopicSettings(min_insync_replicas=self.cluster.image.min_insync_replicas(topic))

    def hear(self):
        """Apply the newest metadata."""
        self.log.settings = self.settings()
        return self.core.update(self.cluster.partition("t"), 0)

    def append(self):
        self.core.append(stamped(0, 0), 1, 0)

    def propose(self, now_us):
        change = self.core.next_isr_change(now_us, self.cluster.epoch(1))
        assert change is not None
        return change

    def ask(self, change, now_us=0):
        """Have the controller look at a proposal, and take its answer in; returns the answer."""
        proposed = Proposed(
            topic_id=self.core.state.topic_id,
            partition=0,
            leader_epoch=LeaderEpoch(change.leader_epoch),
            partition_epoch=change.partition_epoch,
            new_isr=tuple((node, BrokerEpoch(epoch)) for node, epoch in change.members),
        )
        (reply,) = self.cluster.decide(
            decide_alter_partition(self.cluster.image, NodeId(1), self.cluster.epoch(1), [proposed])
        )
        answer = IsrAnswer(reply.code) if isinstance(reply, ApiError) else answer_of(reply)
        self.core.on_isr_answer(change, answer, now_us)
        return answer.error_code


def answer_of(state: PartitionState) -> IsrAnswer:
    return IsrAnswer(
        ErrorCode.none, state.isr, state.leader, state.leader_epoch, state.partition_epoch, state.recovering
    )


@pytest.mark.parametrize("how", RAISES)
def test_a_proposal_of_before_a_greater_minimum_commits_nothing_that_an_eligible_leader_lacks(how):
    make, raise_minimum = RAISES[how]
    cluster = make()
    leader = Leader(cluster)
    leader.append()
    late = LAG_US + 1
    shrink = leader.propose(late)  # broker 2 lags
    assert shrink.isr == (1,)
    raise_minimum(cluster)
    answer = leader.ask(shrink, late)
    state = cluster.partition("t")
    assert not leader.log.high_watermark or 2 not in (*state.isr, *state.elr), "2 may lead, and lacks what is committed"
    assert answer is ErrorCode.invalid_update_version
    assert leader.log.high_watermark == 0
    leader.hear()
    assert leader.core.min_isr == 2
    shrink = leader.propose(late)
    assert leader.ask(shrink, late) is ErrorCode.none
    assert cluster.partition("t").elr == (2,)
    assert leader.log.high_watermark == 0, "below the minimum nothing is committed (HW-2)"
    with pytest.raises(ApiError, match="fewer than the minimum of 2"):
        leader.core.append(stamped(0, 0), ALL_REPLICAS, 0)


def test_a_replica_that_joins_under_the_old_minimum_is_counted_when_it_leaves_under_the_new_one():
    cluster = with_minimums(Cluster(2))
    leader = Leader(cluster)
    leader.append()
    assert leader.ask(leader.propose(LAG_US + 1), LAG_US + 1) is ErrorCode.none
    assert cluster.partition("t").isr == (1,)
    assert leader.log.high_watermark == 1, "the minimum is 1, and 1 is alone"
    leader.core.on_follower_fetch(LAG_US + 2, NodeId(2), cluster.epoch(2), 0, 1, 0, 0)
    expansion = leader.propose(LAG_US + 2)
    set_minimum(cluster, (TOPIC, "2"))
    assert leader.ask(expansion) is ErrorCode.invalid_update_version, "it was made under the old minimum"
    leader.hear()
    assert leader.ask(leader.propose(LAG_US + 3)) is ErrorCode.none
    assert cluster.partition("t").isr == (1, 2)


def test_only_partitions_that_need_more_than_before_get_another_epoch():
    cluster = Cluster(3)
    cluster.set_cluster_config(MIN_INSYNC_REPLICAS, "2")
    cluster.create_partition(1, 2, 3, topic="t")
    cluster.create_partition(1, 2, topic="of-two-copies")
    cluster.create_partition(1, 2, 3, topic="with-its-own", **{MIN_INSYNC_REPLICAS: "3"})

    def epochs():
        return {name: topic.partitions[0].partition_epoch for name, topic in cluster.image.topics_by_name.items()}

    before = epochs()
    set_minimum(cluster, (ALL, "3"))
    assert epochs() == before | {"t": before["t"] + 1}
    before = epochs()
    set_minimum(cluster, (ALL, "1"))
    assert epochs() == before, "a lesser one needs none: a leader that does not know of it commits less, not more"
    for number in (1, 2, 3):
        cluster.fence(number)
    before = epochs()
    set_minimum(cluster, (TOPIC, "3"))
    assert cluster.partition("t").leader == -1
    assert list(plan_epochs_of_raised_minimums(cluster.image, ())) == []
    assert epochs()["t"] == before["t"] + 2, (
        "cleared, and brought back since nobody is in sync: there is no third record"
    )


def test_who_is_complete_is_not_forgotten_where_nobody_is_in_sync():
    for value in ("1", "3"):
        cluster = Cluster(3)
        cluster.create_partition(1, 2, 3, **{MIN_INSYNC_REPLICAS: "2"})
        for number in (3, 2, 1):
            cluster.fence(number)
        before = cluster.partition("t")
        assert (before.isr, set(before.elr), before.last_known_elr) == ((), {1, 2}, (1,))
        set_minimum(cluster, (TOPIC, value))
        after = cluster.partition("t")
        assert (after.elr, after.last_known_elr) == (before.elr, before.last_known_elr)
        assert after.partition_epoch > before.partition_epoch
        cluster.unfence(2)
        state = cluster.partition("t")
        assert (state.leader, state.isr) == (2, (2,))
        assert state.elr == (() if value == "1" else (1,)), "by the new minimum"
