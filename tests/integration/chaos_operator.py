"""An operator of a cluster under chaos, who deletes records and changes settings, and remembers what it asked for."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from esp.cli.kafka.configs import ConfigsAdmin
from esp.cli.kafka.configs import ResourceType as AdminResourceType
from esp.model.errors import OperatorError
from esp.simulation.checkers.client_history import Outcome, Read, check
from tests.integration.chaos_clients import PARTITIONS, Client, Writer

MIB: Final = 1024 * 1024
PAUSE_S: Final = 2.0
"""Between two actions of the operator."""

REQUEST_TIMEOUT_S: Final = 10.0

ALL_BROKERS: Final = ""
"""The name of the resource with the defaults of all brokers."""

MIN_ISR: Final = "min.insync.replicas"
LEAST_MIN_ISR: Final = "2"
"""The minimum that holds in the end; the operator raises it, never lowers it further: with 1 a lost copy may be the only one."""

MIN_ISR_VALUES: Final = (LEAST_MIN_ISR, "3")

VALUES: Final[Mapping[str, Sequence[str | None]]] = {
    MIN_ISR: (*MIN_ISR_VALUES, None, None),
    "segment.bytes": (str(MIB // 4), str(MIB)),
    "flush.messages": ("1", "9223372036854775807"),
}
"""The settings of topics that change, and their values; None: the topic has none of its own, and the default counts."""

MOST_DELETED: Final = 300
"""The most records that one request deletes, so that few requests do not empty a log."""


class Operator(Client):
    """Deletes records of one topic, changes settings of several, and the default minimum of all, by seed, every two seconds.

    Args:
        bootstrap: of the cluster.
        topic: the topic whose records are deleted.
        topics: the topics whose settings change.
        seed: of the actions.
    """

    family = "operator"

    def __init__(self, bootstrap: str, topic: str, topics: Sequence[str], seed: int) -> None:
        super().__init__(bootstrap, topic)
        self._topics = topics
        self._rng = random.Random(seed)
        self._admin = AdminClient(
            {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200, "socket.timeout.ms": 5000, "log_level": 0}
        )
        self.asked = dict.fromkeys(range(PARTITIONS), 0)
        """The largest offset of each partition below which records were asked to be deleted: no log may start beyond it."""
        self.deleted = dict.fromkeys(range(PARTITIONS), 0)
        """The largest log start of each partition that was acknowledged."""
        self.deletions = 0
        self.changes = 0
        """The acknowledged changes of settings of topics."""
        self.default_changes = 0
        """The acknowledged changes of the minimum of in-sync replicas that counts for topics without one of their own."""

    def run(self) -> None:
        """As said above."""
        actions: tuple[Callable[[], None], ...] = (self._delete, self._change, self._change_default)
        while not self.stopping.wait(PAUSE_S):
            try:
                self._rng.choice(actions)()
            except (KafkaException, OperatorError):
                continue  # a fault was in the way: what became of the request is not known
        self._set_default(MIN_ISR, LEAST_MIN_ISR)
        for topic in self._topics:
            self._set(topic, MIN_ISR, None)

    def _delete(self) -> None:
        partition = self._rng.randrange(PARTITIONS)
        offset = self.deleted[partition] + self._rng.randint(1, MOST_DELETED)
        self.asked[partition] = max(self.asked[partition], offset)
        request = self._admin.delete_records(
            [TopicPartition(self.topic, partition, offset)], request_timeout=REQUEST_TIMEOUT_S
        )
        [answer] = request.values()
        self.deleted[partition] = max(self.deleted[partition], answer.result(2 * REQUEST_TIMEOUT_S).low_watermark)
        self.deletions += 1

    def _change(self) -> None:
        name = self._rng.choice(list(VALUES))
        topic = self._rng.choice(self._topics)
        self._set(topic, name, self._rng.choice(VALUES[name]))
        self.changes += 1

    def _change_default(self) -> None:
        self._set_default(MIN_ISR, self._rng.choice(MIN_ISR_VALUES))
        self.default_changes += 1

    def _set(self, topic: str, name: str, value: str | None) -> None:
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        [answer] = self._admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S).values()
        answer.result(2 * REQUEST_TIMEOUT_S)

    def _set_default(self, name: str, value: str) -> None:
        """By the product's own client: librdkafka knows no resource of all brokers."""
        with ConfigsAdmin(self.bootstrap) as admin:
            admin.alter(AdminResourceType.BROKER, ALL_BROKERS, {name: value}, ())

    def judge(self, writer: Writer, final: Sequence[Read]) -> Iterator[str]:
        """Return all that cannot be in the log of the topic whose records are deleted.

        A log may begin below what was deleted: a killed follower falls back to the log start that it wrote down, and may lead (LOG-12).

        Args:
            writer: the one writer of the topic.
            final: all that can be read of the topic in the end, from the log starts on.
        """
        if self.failure is not None:
            yield f"operator: ended with {self.failure!r}"
        if not (self.deletions and self.changes and self.default_changes):
            yield (
                f"operator: {self.deletions} deletions, {self.changes} changes of topics' settings and {self.default_changes} of the "
                "default minimum were acknowledged"
            )
        first: dict[int, int] = {}
        for one in final:
            first[one.partition] = min(first.get(one.partition, one.offset), one.offset)
        for partition, offset in first.items():
            if offset > self.asked[partition]:
                yield f"operator: partition {partition} begins at {offset}; nothing at or above {self.asked[partition]} was to go"
        starts = {partition: min(asked, first.get(partition, asked)) for partition, asked in self.asked.items()}
        sent = [
            one._replace(outcome=Outcome.UNKNOWN)
            if one.partition is not None and one.offset is not None and one.offset < starts[one.partition]
            else one
            for one in writer.sent
        ]
        for anomaly in check(sent, final):
            yield f"{self.topic}: {anomaly}"
