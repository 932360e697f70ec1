"""From what a cluster tells to a snapshot."""

import pytest

from esp.cli.doctor.look import look_for_doctor
from esp.cli.kafka.answers import QuorumInfo, QuorumMember
from esp.doctor.open_transactions import KnownTransaction, OpenTransaction
from esp.doctor.protection import Protection, ShownCertificate
from esp.doctor.rules import RULES, examine
from esp.doctor.snapshot import (
    NEVER_MS,
    BrokerCondition,
    FailedDirectory,
    HangingTransaction,
    OverdueTransaction,
    ThrottleSetting,
)
from esp.model.client_quotas import client_alone
from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition
from esp.rebalance.cluster import (
    ALL_BROKERS,
    FOLLOWER_THROTTLED_RATE,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_RATE,
    Broker,
    ConfigTarget,
)
from tests.models.fake_cluster import FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Examined(FakeCluster):
    """A cluster that tells a doctor too what it asks for."""

    def __init__(self, brokers, partitions):
        super().__init__(brokers, partitions, dict.fromkeys(partitions, 1000))
        self.effective = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
        self.failed = []
        self.voters = None
        self.asked_for_eligible = []
        self.hanging = []
        self.quotas = {}
        self.trashed = []
        self.shared = []
        self.overdue = []
        self.rebalancing = []
        self.committed, self.first, self.since, self.ends = {}, {}, {}, {}
        self.asked_for_transactions = []

    def topics(self, names=None):
        found = super().topics(names)
        for partitions in found.values():
            for number, each in partitions.items():
                offline = frozenset(node for node in each.replicas if not self._serves(node))
                partitions[number] = each._replace(offline=offline)
        return found

    def topic_settings(self, topics, names):
        return {
            topic: {
                name: value
                for name, value in (self.effective | self.configs.get(ConfigTarget(topic=topic), {})).items()
                if name in names
            }
            for topic in topics
        }

    def failed_log_dirs(self, brokers):
        return [each for each in self.failed if each[0] in brokers]

    def eligible_leaders(self, topics):
        self.asked_for_eligible.append(set(topics))
        return {T0: (3,)}

    def client_quotas(self):
        return self.quotas

    def trash(self):
        return self.trashed

    def queues(self, brokers):
        return [each for each in self.shared if brokers]

    def consumer_groups(self, brokers):
        return [f"group{broker}" for broker in brokers]

    def rebalancing_groups(self, brokers):
        return self.rebalancing.pop(0) if self.rebalancing else {}

    def group_offsets(self, groups):
        return {group: self.committed.get(group, {}) for group in groups}

    def first_offsets(self, partitions):
        return {each: self.first.get(each, 0) for each in partitions}

    def end_offsets(self, partitions):
        return {each: self.ends.get(each, 0) for each in partitions}

    def offsets_since(self, partitions, timestamp_ms):
        return {each: self.since.get((each, timestamp_ms), -1) for each in partitions}

    def quorum(self):
        return self.voters

    def hanging_transactions(self, by_leader, now_ms):
        self.asked_for_transactions.append({leader: sorted(names) for leader, names in by_leader.items()})
        return self.hanging

    def overdue_transactions(self, now_ms):
        return self.overdue

    def protection(self, addresses, now_ms):
        return Protection(
            certificates=tuple(ShownCertificate(node, address, now_ms) for node, address in addresses.items())
        )


def members(*caught_up_ms, leader=1):
    return QuorumInfo(
        leader,
        5,
        100,
        tuple(QuorumMember(node, "", (), 100 - node, at, at) for node, at in enumerate(caught_up_ms, 1)),
        (),
    )


@pytest.fixture
def examined():
    return Examined([1, 2, 3], {T0: (1, 2, 3), T1: (2, 3, 1)})


def test_everything_that_is_well_is_told_as_it_is(examined):
    found = look_for_doctor(examined)
    assert set(found.conditions.values()) == {BrokerCondition.SERVING}
    assert [(each.name, each.replicas, each.min_in_sync_replicas) for each in found.view.partitions] == [
        (T0, (1, 2, 3), 2),
        (T1, (2, 3, 1), 2),
    ]
    assert found.groups == ("group1", "group2", "group3")
    assert (found.quorum, found.moving, found.offline, found.throttles) == (None, {}, {}, ())
    assert examined.asked_for_eligible == [], "nothing is short of in-sync replicas"


def test_broker_that_does_not_serve_is_fenced_gone_or_silent(examined):
    examined.fence(3)
    assert look_for_doctor(examined).conditions == {
        1: BrokerCondition.SERVING,
        2: BrokerCondition.SERVING,
        3: BrokerCondition.FENCED,
    }
    del examined.registered[3]
    assert look_for_doctor(examined).conditions[3] is BrokerCondition.GONE
    examined.registered[3] = Broker(3, None, False)
    answering = examined.log_dirs
    examined.log_dirs = lambda brokers: answering([node for node in brokers if node != 3])
    found = look_for_doctor(examined)
    assert found.conditions[3] is BrokerCondition.SILENT
    assert [broker.broker_id for broker in found.serving] == [1, 2]


def test_eligible_replicas_are_asked_for_where_in_sync_ones_are_missing(examined):
    examined.fence(3)
    examined.fence(2)
    found = look_for_doctor(examined)
    assert examined.asked_for_eligible == [{"t"}]
    assert found.eligible == {T0: (3,)}
    assert found.offline == {T0: {2, 3}, T1: {2, 3}}


@pytest.fixture
def moving(examined):
    """One whose partition 0 gets a copy on broker 3, in place of that on 2."""
    examined.replicas[T0] = (1, 2)
    examined.reassign({T0: (1, 3)})
    return examined


def set_rate(examined, rate, **lists):
    """Let all copies be made at a rate; ``lists`` are those of replicas that are named as throttled."""
    rates = dict.fromkeys((LEADER_THROTTLED_RATE, FOLLOWER_THROTTLED_RATE), str(rate))
    named = {f"{end}.replication.throttled.replicas": text for end, text in lists.items()}
    examined.configs = {ALL_BROKERS: rates, ConfigTarget(topic="t"): named}


def test_partition_that_does_not_get_on_between_two_looks_is_stalled(moving):
    set_rate(moving, 100)
    assert not look_for_doctor(moving).moving[T0].is_stalled, "one look tells nothing"
    assert not look_for_doctor(moving, 1, moving.sleep).moving[T0].is_stalled
    set_rate(moving, 0)
    assert look_for_doctor(moving, 1, moving.sleep).moving[T0][:4] == ({3}, {2}, True, None), "it is not throttled"


@pytest.mark.parametrize("lists", [{"leader": "0:1"}, {"follower": "0:3"}, {"follower": "*"}, {"leader": "1:9, 0:1"}])
@pytest.mark.parametrize("rate", [0, 1024, (1 << 20) // 5])
def test_partition_whose_throttle_explains_that_it_does_not_get_on_is_held(moving, lists, rate):
    set_rate(moving, rate, **lists)
    assert look_for_doctor(moving).moving[T0][:4] == ({3}, {2}, False, rate)
    moving.sleep = lambda seconds: None
    assert look_for_doctor(moving, 5, moving.sleep).moving[T0][:4] == ({3}, {2}, False, rate)


@pytest.mark.parametrize("lists", [{"leader": "0:1"}, {"follower": "0:3"}])
def test_throttle_that_lets_a_batch_through_between_two_looks_explains_nothing(moving, lists):
    set_rate(moving, 1 << 19, **lists)
    assert look_for_doctor(moving, 2, lambda seconds: None).moving[T0][:4] == ({3}, {2}, True, None)
    assert look_for_doctor(moving, 1, lambda seconds: None).moving[T0].held_to == 1 << 19


@pytest.mark.parametrize("lists", [{"leader": "0:2,0:3,1:1"}, {"follower": "0:1,0:2,1:3"}])
def test_throttle_of_other_replicas_holds_nobody(moving, lists):
    set_rate(moving, 0, **lists)
    assert look_for_doctor(moving, 1, moving.sleep).moving[T0].is_stalled


def test_what_gets_on_is_not_held_unless_its_plan_is_paused(moving):
    set_rate(moving, 1025, follower="*")
    moving.size[T0] = 1 << 20
    assert look_for_doctor(moving).moving[T0].held_to == 1025
    assert look_for_doctor(moving, 5, moving.sleep).moving[T0][:4] == ({3}, {2}, False, None)
    set_rate(moving, 1024, follower="*")
    assert look_for_doctor(moving, 5, moving.sleep).moving[T0].held_to == 1024


def test_rate_of_a_broker_s_own_counts_before_that_of_all(moving):
    set_rate(moving, 1 << 30, follower="0:3")
    moving.configs[ConfigTarget(broker="3")] = {FOLLOWER_THROTTLED_RATE: "7"}
    assert look_for_doctor(moving).moving[T0].held_to == 7


def test_throttled_moves_wait_for_one_another(moving):
    set_rate(moving, 1 << 20, follower="*")
    assert look_for_doctor(moving, 1, lambda seconds: None).moving[T0].is_stalled
    moving.replicas[T1] = (1, 2)
    moving.reassign({T1: (1, 3)})
    found = look_for_doctor(moving, 1, lambda seconds: None).moving
    assert [found[name].held_to for name in (T0, T1)] == [1 << 20] * 2


def test_nobody_waits_while_nothing_moves(examined):
    look_for_doctor(examined, 5, lambda seconds: pytest.fail("it waits"))


def test_throttles_are_those_of_topics_of_brokers_and_of_all(examined):
    examined.configs = {
        ALL_BROKERS: {LEADER_THROTTLED_RATE: "1"},
        ConfigTarget(broker="2"): {FOLLOWER_THROTTLED_RATE: "1"},
        ConfigTarget(broker="3"): {"broker.draining": "true"},
        ConfigTarget(topic="t"): {FOLLOWER_THROTTLED_REPLICAS: "0:1"},
    }
    found = look_for_doctor(examined)
    assert found.throttles == (
        ThrottleSetting("t", True, (FOLLOWER_THROTTLED_REPLICAS,)),
        ThrottleSetting("", False, (LEADER_THROTTLED_RATE,)),
        ThrottleSetting("2", False, (FOLLOWER_THROTTLED_RATE,)),
    )
    assert [broker.broker_id for broker in found.view.brokers if broker.is_draining] == [3]
    examined.effective[FOLLOWER_THROTTLED_REPLICAS] = ""
    examined.configs = {}
    assert look_for_doctor(examined).throttles == (), "an empty list names nobody"


def test_topic_that_is_deleted_meanwhile_is_left_out(examined):
    examined.topic_settings = lambda topics, names: {}
    assert look_for_doctor(examined).view.partitions == ()


def test_settings_and_directories_are_told(examined):
    examined.effective["unclean.leader.election.enable"] = "true"
    examined.failed = [(2, "/data", "KAFKA_STORAGE_ERROR")]
    found = look_for_doctor(examined)
    assert found.unclean_topics == {"t"}
    assert found.failed_directories == (FailedDirectory(2, "/data", "KAFKA_STORAGE_ERROR"),)


def test_age_of_a_voter_is_by_the_clock_of_the_leader(examined):
    examined.voters = members(50_000, 49_000, -1)
    found = look_for_doctor(examined).quorum
    assert [(voter.behind_ms, voter.behind_records) for voter in found.voters] == [(0, 0), (1000, 1), (NEVER_MS, 2)]
    examined.voters = members(-1, -1, -1)
    assert [voter.behind_ms for voter in look_for_doctor(examined).quorum.voters] == [None] * 3, "nobody tells"


def test_cluster_whose_controllers_do_not_answer_is_looked_at_without_them(examined):
    def refuse():
        raise OperatorError("The active controller did not answer within 30000 ms.", "Look at it.")

    examined.quorum = refuse
    examined.reassignments = lambda: pytest.fail("that would take as long once more")
    found = look_for_doctor(examined)
    assert (found.has_controller, found.quorum, found.moving) == (False, None, {})
    assert len(found.view.partitions) == 2
    assert look_for_doctor(Examined([1], {})).has_controller


def test_broker_that_dies_meanwhile_is_no_hindrance(examined):
    def settings(targets, names):
        if any(target.broker == "2" for target in targets):
            raise OperatorError("broker 2 does not answer", "Start it.")
        return {target: {"broker.draining": "true"} for target in targets if target.broker}

    examined.settings = settings
    assert [broker.broker_id for broker in look_for_doctor(examined).view.brokers if broker.is_draining] == [1, 3]


def test_empty_cluster_can_be_looked_at():
    found = look_for_doctor(Examined([1], {}))
    assert found.view.partitions == ()
    assert examine(found, RULES.values()) == ()


def test_transactions_that_stay_open_are_asked_for_where_there_were_any(examined):
    hanging = OpenTransaction(T0, 7, 3, -1, 50, 1_000)
    overdue = KnownTransaction("a", 1, 8, 0, "PrepareAbort", 60_000, 0, frozenset({T1}))
    examined.hanging, examined.overdue = [hanging], [overdue]
    found = look_for_doctor(examined)
    assert (found.hanging, found.overdue, examined.asked_for_transactions) == ((), (), [])
    state = TopicPartition("__transaction_state", 0)
    examined.replicas[state], examined.leaders[state], examined.size[state] = (3,), 3, 0
    examined.fence(3)
    found = look_for_doctor(examined, wall_ms=lambda: 500_000)
    assert examined.asked_for_transactions == [{1: [T0], 2: [T1]}], "a partition without a leader is not asked for"
    assert found.hanging == (HangingTransaction(hanging, 499_000),)
    assert found.overdue == (OverdueTransaction(overdue, 440_000),)


def test_the_protection_of_the_brokers_that_answer_is_looked_at():
    cluster = Examined([1, 2], {T0: (1,)})
    cluster.registered = {1: Broker(1, None, False, "h:1"), 2: Broker(2, None, True, "h:2")}
    found = look_for_doctor(cluster, wall_ms=lambda: 7)
    assert found.protection.certificates == (ShownCertificate(1, "h:1", 7),)


def test_quotas_of_clients_are_looked_up():
    cluster = Examined([1], {})
    cluster.quotas = {client_alone("c"): {"producer_byte_rate": 7.0}}
    assert look_for_doctor(cluster).client_quotas == cluster.quotas


def test_the_trash_and_the_room_that_each_broker_leaves_are_told(examined):
    examined.trashed = ["u", "v"]
    examined.configs = {
        ALL_BROKERS: {"topic.trash.min.free.percent": "20"},
        ConfigTarget(broker="3"): {"topic.trash.min.free.percent": "0"},
    }
    found = look_for_doctor(examined)
    assert found.trash == ("u", "v")
    assert {disk.broker: disk.least_percent for disk in found.disks} == {1: 20, 2: 20, 3: 0}


def test_without_a_setting_the_default_counts(examined):
    found = look_for_doctor(examined)
    assert found.trash == ()
    assert {disk.least_percent for disk in found.disks} == {10}


def test_groups_are_found_that_rebalance_in_each_of_some_looks(examined):
    slept = []
    busy = {"g": "Assigning", "h": "PreparingRebalance"}
    examined.rebalancing = [busy, busy, {"h": "CompletingRebalance", "new": "Assigning"}, busy]
    [found] = look_for_doctor(examined, 5, slept.append).rebalancing
    assert found == ("h", "PreparingRebalance", 15)
    assert slept == [5, 5, 5]
    examined.rebalancing = [busy, {}]
    assert look_for_doctor(examined, 5, slept.append).rebalancing == ()
    assert len(slept) == 4, "it looks no longer than there are any"
    examined.rebalancing = [busy] * 4
    assert look_for_doctor(examined).rebalancing == (), "one look tells nothing"


def test_unread_records_that_are_too_many_for_their_log_are_found(examined):
    examined.committed = {"group1": {T0: 0}}
    examined.effective |= {"cleanup.policy": "delete", "retention.bytes": "1100"}
    examined.ends = {T0: 10}
    [found] = look_for_doctor(examined).unread
    assert (found.nearly_full_partitions, found.limit_bytes) == (1, 1100)
