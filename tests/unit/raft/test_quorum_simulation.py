"""Quorums through faults: the state machine that hypothesis drives, seeds, and how fast a new leader is there.

:mod:`esp.simulation.quorum_tier.checks` says what must hold at every step.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from esp.simulation.quorum_tier.cluster import QuorumCluster
from esp.simulation.quorum_tier.profile import KINDS, SECOND_US, QuorumProfile

_CALM = QuorumProfile(spares=0, faults_per_s=0.0001, loss=0, doubled=0, spike_probability=0)


@pytest.mark.parametrize("seed", range(25))
def test_faults_break_no_invariant_and_the_quorum_recovers(seed):
    QuorumCluster(seed).run(chaos_us=10 * SECOND_US, calm_us=15 * SECOND_US)


def test_a_seed_gives_the_same_run_twice():
    runs = [QuorumCluster(7) for _ in range(2)]
    for cluster in runs:
        cluster.run(chaos_us=5 * SECOND_US, calm_us=12 * SECOND_US)
    assert runs[0].events == runs[1].events
    assert runs[0].checks == runs[1].checks


def _led(cluster):
    return next((member for member in cluster.members.values() if member.is_leader), None)


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_quorum_elects_once(seed):
    cluster = QuorumCluster(seed, _CALM)
    cluster.start()
    cluster.run_until(SECOND_US)
    leader = _led(cluster)
    cluster.run_until(60 * SECOND_US)
    assert (_led(cluster), cluster.checks.leaders) == (leader, {1: leader.key})


@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("seed", range(5))
def test_a_new_leader_is_there_at_once_when_the_process_of_the_old_is_gone(seed, how):
    cluster = QuorumCluster(seed, _CALM)
    cluster.start()
    cluster.run_until(5 * SECOND_US)
    cluster.inflict(how, _led(cluster))

    def is_led() -> bool:
        nodes = [member.node for member in cluster.members.values() if member.is_leader]
        return any(node.epoch > 1 and node.high_watermark > node.epoch_start_offset for node in nodes)

    cluster.run_until(20 * SECOND_US, is_led)
    assert cluster.now_us - 5 * SECOND_US < 200_000


class QuorumMachine(RuleBasedStateMachine):
    """Faults in any order; time passes between them."""

    @initialize(
        seed=st.integers(0, 2**32),
        voters=st.sampled_from((3, 4, 5)),
        loss=st.sampled_from((0.0, 0.05)),
        flush_us_max=st.sampled_from((2_000, 200_000)),
    )
    def begin(self, seed, voters, loss, flush_us_max):
        profile = QuorumProfile(
            voters=voters, faults_per_s=0.0001, loss=loss, flush_us_max=flush_us_max, propose_interval_us=200_000
        )
        self.cluster = QuorumCluster(seed, profile)
        self.cluster.start()
        self.cluster.begin_load()
        self.cluster.run_until(SECOND_US // 2)

    @rule(kind=st.sampled_from(KINDS), number=st.integers(0, 6), at_leader=st.booleans())
    def break_something(self, kind, number, at_leader):
        members = list(self.cluster.members.values())
        leader = _led(self.cluster)
        self.cluster.inflict(kind, leader if at_leader and leader else members[number % len(members)])

    @rule(milliseconds=st.sampled_from((3, 30, 300, 3_000)))
    def let_time_pass(self, milliseconds):
        self.cluster.run_until(self.cluster.now_us + milliseconds * 1000)

    def teardown(self):
        if hasattr(self, "cluster"):
            self.cluster.settle(15 * SECOND_US)


TestQuorum = QuorumMachine.TestCase
TestQuorum.settings = settings(max_examples=20, stateful_step_count=20)
