"""The lag of the streaming queries over a run: sampled from the groups to which their positions are committed, kept in a file of text.

A query's group is ``spark.`` and its name; ``flight_delays --watch`` has its position committed there. Before the first commit a
group's lag is all that the topic holds.
"""

import csv
import math
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Final, TextIO

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

INTERVAL_S: Final = 0.5
LAST_WITHIN_S: Final = 10.0
"""For so long the last sample is tried when the run has ended."""

Lag = dict[str, list[tuple[float, int]]]
"""By group: seconds since the start, and the records that the group was behind then."""


class LagRecorder:
    """Samples lag on a thread of its own until its context ends, and writes a line for each sample.

    A cluster that does not answer leaves a hole in the samples, and does no other harm. The last sample is tried again, since it shows
    where the queries ended.

    Args:
        bootstrap_server: the cluster.
        topic: the topic that the queries read.
        groups: of the queries.
        path: the file.
        last_within_s: how long the last sample is tried.
    """

    def __init__(
        self,
        bootstrap_server: str,
        topic: str,
        groups: Sequence[str],
        path: str,
        last_within_s: float = LAST_WITHIN_S,
    ) -> None:
        self._bootstrap_server = bootstrap_server
        self._topic = topic
        self._groups = groups
        self._path = path
        self._last_within_s = last_within_s
        self._give_up_s = math.inf
        self._start_s = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag", daemon=True)

    def __enter__(self) -> "LagRecorder":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._give_up_s = time.monotonic() + self._last_within_s
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with open(self._path, "w", encoding="utf-8", newline="") as file:
            while time.monotonic() < self._give_up_s:
                try:
                    self._sample(file)
                    return
                except KafkaError:
                    time.sleep(INTERVAL_S)

    def _sample(self, file: TextIO) -> None:
        """Sample until the end; the last sample, behind the end of the run, shows where it ended."""
        lines = csv.writer(file)
        with ExitStack() as stack:
            servers = {"bootstrap_servers": self._bootstrap_server, "client_id": "pyspark-jobs"}
            consumer = stack.enter_context(closing(KafkaConsumer(**servers, allow_auto_create_topics=False)))
            admin = stack.enter_context(closing(KafkaAdminClient(**servers)))
            while True:
                is_last = self._stop.wait(INTERVAL_S)
                lag = read_lag(consumer, admin, self._topic, self._groups)
                seconds = round(time.monotonic() - self._start_s, 2)
                lines.writerows((seconds, group, records) for group, records in lag.items())
                if is_last:
                    return


def read_lag(consumer: KafkaConsumer, admin: KafkaAdminClient, topic: str, groups: Sequence[str]) -> dict[str, int]:
    """Return how many records of ``topic`` each group is behind now; nothing for a topic that does not exist.

    Raises:
        KafkaError: the cluster does not answer.
    """
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
    if not partitions:
        return {}
    first, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    committed = admin.list_group_offsets(dict.fromkeys(groups, partitions))
    return {
        group: sum(end[each] - _position(committed[group], each, first[each]) for each in partitions)
        for group in groups
    }


def load_lag(path: str) -> Lag:
    """Return the samples of a file that :class:`LagRecorder` wrote."""
    found: Lag = {}
    with open(path, encoding="utf-8", newline="") as file:
        for seconds, group, lag in csv.reader(file):
            found.setdefault(group, []).append((float(seconds), int(lag)))
    return found


def _position(committed: Mapping[TopicPartition, object], partition: TopicPartition, first: int) -> int:
    offset = getattr(committed.get(partition), "offset", -1)
    return first if offset < 0 else offset
