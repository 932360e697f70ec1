"""A cluster in memory for the commands about brokers: :class:`tests.models.fake_cluster.FakeCluster`, and what it lacks for them."""

from typing import Self

from esp.cli.kafka.answers import QuorumInfo, QuorumMember, RefusedError
from esp.cli.kafka.brokers import BrokersAdmin
from esp.model.errors import ErrorCode
from esp.rebalance.cluster import ALL_BROKERS, ConfigTarget
from tests.models.fake_cluster import FakeCluster


class FakeBrokers(FakeCluster, BrokersAdmin):
    """ESP's cluster if it has a mode of self-repair, else Kafka's. Brokers 1 and 2 vote; 2 leads the quorum."""

    mode: str | None = "propose"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def knows_draining(self, broker: int) -> bool:
        return self.mode is not None

    def self_repair_mode(self, broker: int) -> str:
        assert self.mode is not None
        return self.mode

    def quorum(self) -> QuorumInfo:
        voters = tuple(QuorumMember(node, f"dir-{node}", (), 9, -1, -1) for node in (1, 2))
        return QuorumInfo(2, 1, 9, voters, ())

    def unregister(self, broker: int) -> None:
        forced = self.configs.get(ALL_BROKERS, {}).get("broker.removal.forced", "").split(",")
        is_last = any(held == (broker,) for held in self.replicas.values())
        if self.mode is not None and is_last and str(broker) not in forced:
            raise RefusedError(ErrorCode.policy_violation, f"Broker {broker} holds the last complete copy.")
        del self.registered[broker]

    def is_marked(self, broker: int) -> bool:
        """Whether the broker is to be emptied."""
        return self.configs.get(ConfigTarget(broker=str(broker)), {}).get("broker.draining") == "true"
