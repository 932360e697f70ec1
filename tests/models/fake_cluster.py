"""A cluster in memory for the tools that move partitions: it obeys as Kafka's controller, and copies by its throttle, on its own clock."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition
from esp.rebalance.cluster import (
    ALL_BROKERS,
    FOLLOWER_THROTTLED_RATE,
    FOLLOWER_THROTTLED_REPLICAS,
    Broker,
    ConfigTarget,
    LogDir,
    Partition,
    Reassignment,
    Replica,
)

UNTHROTTLED = 1 << 40


class Killed(BaseException):
    """The tool's process ended here."""


class FakeCluster:
    """The admin API of a cluster; also its clock.

    Args:
        brokers: ids.
        partitions: replicas of each.
        sizes: bytes of each.
    """

    def __init__(
        self,
        brokers: Iterable[int],
        partitions: Mapping[TopicPartition, Sequence[int]],
        sizes: Mapping[TopicPartition, int],
    ) -> None:
        self.registered = {broker: Broker(broker, None, False) for broker in brokers}
        self.replicas = {partition: tuple(replicas) for partition, replicas in partitions.items()}
        self.leaders = {partition: replicas[0] for partition, replicas in self.replicas.items()}
        self.size = dict(sizes)
        self.targets: dict[TopicPartition, tuple[int, ...]] = {}
        self.copied: dict[Replica, int] = {}
        self.configs: dict[ConfigTarget, dict[str, str]] = {}
        self.now = 1_000_000
        self.id = "c1"
        self.refuses: dict[TopicPartition, str] = {}
        self.calls = 0
        self.kill_at: int | None = None
        self.most_at_once = 0
        self.began_unthrottled: list[TopicPartition] = []
        self.on_sleep: Callable[[], None] = lambda: None

    # the clock

    def now_ms(self) -> int:
        """See :class:`esp.rebalance.driver.Timer`."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let the copies go on for so long."""
        self.now += int(seconds * 1000)
        self.on_sleep()
        self._copy(seconds)

    def _copy(self, seconds: float) -> None:
        budget = int(self.rate * seconds)
        for partition, target in list(self.targets.items()):
            adding = [broker for broker in target if broker not in self.replicas[partition]]
            for broker in adding:
                if self.registered[broker].fenced:
                    continue
                replica = Replica(partition, broker)
                step = min(budget, self.size[partition] - self.copied.get(replica, 0))
                self.copied[replica] = self.copied.get(replica, 0) + step
            if all(
                self.copied.get(Replica(partition, broker), 0) >= self.size[partition]
                and not self.registered[broker].fenced
                for broker in adding
            ):
                self.replicas[partition] = target
                del self.targets[partition]
                if self.leaders[partition] not in target:
                    self.leaders[partition] = target[0]

    @property
    def rate(self) -> int:
        """Bytes per second of every copy."""
        return int(self.configs.get(ALL_BROKERS, {}).get(FOLLOWER_THROTTLED_RATE, UNTHROTTLED))

    def _serves(self, broker: int) -> bool:
        return broker in self.registered and not self.registered[broker].fenced

    def _call(self) -> None:
        self.calls += 1
        if self.kill_at is not None and self.calls >= self.kill_at:
            self.kill_at = None
            raise Killed

    # the admin API

    def cluster_id(self) -> str:
        """As the protocol says, like all that follow."""
        return self.id

    def brokers(self) -> dict[int, Broker]:
        self._call()
        return dict(self.registered)

    def topics(self, names: Iterable[str] | None = None) -> dict[str, dict[int, Partition]]:
        self._call()
        wanted = None if names is None else set(names)
        found: dict[str, dict[int, Partition]] = {}
        for partition, replicas in self.replicas.items():
            if wanted is None or partition.topic in wanted:
                target = self.targets.get(partition, ())
                everybody = (*target, *(each for each in replicas if each not in target))
                isr = frozenset(each for each in replicas if self._serves(each))
                leader = self.leaders[partition] if self.leaders[partition] in isr else min(isr, default=-1)
                found.setdefault(partition.topic, {})[partition.partition] = Partition(everybody, isr, leader)
        return found

    def reassignments(self) -> dict[TopicPartition, Reassignment]:
        self._call()
        return {
            partition: Reassignment(
                (*target, *(each for each in self.replicas[partition] if each not in target)),
                frozenset(target) - frozenset(self.replicas[partition]),
                frozenset(self.replicas[partition]) - frozenset(target),
            )
            for partition, target in self.targets.items()
        }

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, may_change_replication_factor: bool = True
    ) -> dict[TopicPartition, str]:
        self._call()
        refused = {}
        for partition, target in targets.items():
            if partition in self.refuses:
                refused[partition] = self.refuses[partition]
            elif target is None:
                cancelled = self.targets.pop(partition, None)
                if cancelled is None:
                    refused[partition] = "NO_REASSIGNMENT_IN_PROGRESS"
                else:  # Kafka keeps the order of all replicas, the target's first
                    self.replicas[partition] = tuple(
                        sorted(self.replicas[partition], key=(*cancelled, *self.replicas[partition]).index)
                    )
            elif any(broker not in self.registered for broker in target):
                refused[partition] = "no such broker is registered"
            elif set(target) == set(self.replicas[partition]):
                self.replicas[partition] = tuple(target)
            else:
                self._begin(partition, tuple(target))
        self.most_at_once = max(self.most_at_once, len(self.targets))
        self._call()
        return refused

    def _begin(self, partition: TopicPartition, target: tuple[int, ...]) -> None:
        adding = set(target) - set(self.replicas[partition])
        throttled = self.configs.get(ConfigTarget(topic=partition.topic), {}).get(FOLLOWER_THROTTLED_REPLICAS, "")
        named = set(throttled.split(","))
        if self.rate == UNTHROTTLED or any(f"{partition.partition}:{broker}" not in named for broker in adding):
            self.began_unthrottled.append(partition)
        if self.targets.get(partition) != target:
            self.targets[partition] = target
            for broker in adding:
                self.copied.pop(Replica(partition, broker), None)

    def log_dirs(self, brokers: Iterable[int]) -> dict[int, list[LogDir]]:
        self._call()
        found = {}
        for broker in brokers:
            if self.registered[broker].fenced:
                continue
            sizes = {partition: self.size[partition] for partition, held in self.replicas.items() if broker in held}
            sizes |= {
                replica.partition: size
                for replica, size in self.copied.items()
                if replica.broker == broker and replica.partition not in sizes
            }
            found[broker] = [LogDir("/data", 1 << 40, 1 << 39, sizes, {})]
        return found

    def move_replicas(self, directories: Mapping[Replica, str]) -> dict[Replica, str]:
        return dict.fromkeys(directories, "LOG_DIR_NOT_FOUND")

    def min_in_sync_replicas(self, topics: Iterable[str]) -> dict[str, int]:
        return dict.fromkeys(topics, 1)

    def settings(self, targets: Iterable[ConfigTarget], names: Collection[str]) -> dict[ConfigTarget, dict[str, str]]:
        self._call()
        return {
            target: {name: value for name, value in self.configs.get(target, {}).items() if name in names}
            for target in targets
        }

    def change_settings(self, changes: Mapping[ConfigTarget, Mapping[str, str | None]]) -> dict[ConfigTarget, str]:
        self._call()
        refused = {}
        for target, wanted in changes.items():
            if target.broker and self.registered[int(target.broker)].fenced:
                raise OperatorError(f"broker {target.broker} does not answer", "Start it.")
            there = self.configs.setdefault(target, {})
            if target.topic is not None and all(each.topic != target.topic for each in self.replicas):
                refused[target] = "no such topic"
                continue
            for name, value in wanted.items():
                if value is None:
                    there.pop(name, None)
                else:
                    there[name] = value
        self._call()
        return refused

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> None:
        self._call()
        for partition in partitions:
            self.leaders[partition] = self.replicas[partition][0]

    def metrics_addresses(self, brokers: Iterable[int]) -> dict[int, str]:
        return {}

    def fence(self, broker: int) -> None:
        """The broker dies."""
        self.registered[broker] = self.registered[broker]._replace(fenced=True)

    def unfence(self, broker: int) -> None:
        """The broker comes back."""
        self.registered[broker] = self.registered[broker]._replace(fenced=False)

    @property
    def throttles(self) -> dict[ConfigTarget, dict[str, str]]:
        """What is throttled still."""
        return {target: settings for target, settings in self.configs.items() if settings}
