"""Three replicas and a controller, with Hypothesis in charge of what arrives when and who crashes.

The invariants are those of :mod:`esp.simulation.partition_tier.checks`, looked at with every step; the cluster must be whole again in the
end.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from esp.simulation.partition_tier.cluster import PartitionCluster
from esp.simulation.partition_tier.profile import KINDS, PartitionProfile

nodes = st.integers(0, 2)


class ReplicationMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1000), flush=st.booleans(), tells=st.booleans(), loss=st.sampled_from([0, 0.1]))
    def start(self, seed, flush, tells, loss):
        profile = PartitionProfile(
            faults_per_s=0, loss=loss, flush_every_batch=flush, tells_high_watermark=tells, spike_probability=0
        )
        self.cluster = PartitionCluster(seed, profile)

    @rule(places=st.lists(st.integers(0, 8), min_size=1, max_size=30))
    def events_come_in_some_order(self, places):
        for place in places:
            self.cluster.step(place)

    @rule(count=st.integers(10, 200))
    def events_come_in_order(self, count):
        for _ in range(count):
            self.cluster.step()

    @rule(kind=st.sampled_from(KINDS), node=nodes)
    def fault(self, kind, node):
        self.cluster.inflict(kind, self.cluster.nodes[node])

    def teardown(self):
        if hasattr(self, "cluster"):
            self.cluster.recover()


TestReplication = ReplicationMachine.TestCase
TestReplication.settings = settings(max_examples=40, stateful_step_count=25)
