"""A runner of a capture: it takes the capture over, and captures all partitions of its topics in rounds, by some threads."""

import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from math import inf
from typing import Final

from esp.capture.claim import Claim
from esp.capture.cutting import Limits
from esp.capture.decision import Log, RefusedError
from esp.capture.directory import Directory
from esp.capture.footer import read_footer
from esp.capture.ledger import OffsetLedger
from esp.capture.partition_capture import COLUMNS, FileTerms, PartitionCapture
from esp.consumer.cluster import Address, Cluster
from esp.consumer.connection import Terms
from esp.consumer.errors import ConsumerError, describe
from esp.consumer.messages import EARLIEST, LATEST, Partition
from esp.options.rows import check_names, schema_of_rows
from esp.options.value_columns import open_values, with_newest
from esp.options.value_options import ValueOptions

_TURN_S: Final = 1.0
"""The time for which a thread reads one partition before it takes another."""
_POLL_S: Final = 0.5
"""The pause before the ends of partitions are asked for again, if nothing was new."""
_TOPICS_S: Final = 5.0
"""The time between two looks for new partitions."""
_RENEWAL_S: Final = 86_400.0
"""The time after which offsets are committed again, so that they do not expire on Kafka."""


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """A capture, and the way in which a runner does it.

    Attributes:
        name: of the capture.
        topics: the topics.
        place: the directory, a path or a URL.
        servers: the bootstrap servers.
        terms: of connections.
        limits: of files.
        values: how values become columns.
        threads: as many partitions are captured at once.
        is_once: whether the capture ends where the topics end at its start.
        skips_lost: whether records that were deleted before they were captured are passed over.
    """

    name: str
    topics: tuple[str, ...]
    place: str
    servers: tuple[Address, ...]
    terms: Terms = field(default_factory=Terms)
    limits: Limits = field(default_factory=Limits)
    values: ValueOptions = field(default_factory=ValueOptions)
    threads: int = 2
    is_once: bool = False
    skips_lost: bool = False


class Runner:
    """A runner.

    Args:
        plan: what it does.
        warn: called with a line about what is no error.
        stop: set from outside: the runner commits what it has read, and ends.
    """

    def __init__(self, plan: CapturePlan, warn: Callable[[str], None], stop: threading.Event) -> None:
        self._plan = plan
        self._warn = warn
        self._stop = stop
        self._directory = Directory(plan.place)
        self._runner = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._parts: dict[Partition, PartitionCapture] = {}
        self._topic_ids: Mapping[Partition, str] = {}

    def run(self) -> None:
        """Capture until ``stop`` is set, or up to the ends.

        Raises:
            OvertakenError: another runner has taken the capture over.
            ConsumerError: the capture cannot go on; what is committed stays, and another start goes on behind it.
            OptionError: the options of values cannot be used.
        """
        plan = self._plan
        values = open_values(with_newest(plan.values))
        check_names(schema_of_rows(COLUMNS, values), "rename the field by a schema of your own")
        self._files = FileTerms(self._directory, plan.limits, values, self._runner, plan.name)
        with ExitStack() as stack:
            self._cluster = stack.enter_context(Cluster(plan.servers, plan.terms))
            ledger = OffsetLedger(stack.enter_context(Cluster(plan.servers, plan.terms)), plan.name)
            self._claim = Claim(
                plan.name,
                self._runner,
                ledger,
                self._directory,
                self._observe,
                self._warn,
                skips_lost=plan.skips_lost,
            )
            self._topic_ids = self._describe()
            self._claim.take([*self._topic_ids])
            self._begin(self._topic_ids)
            pool = stack.enter_context(ThreadPoolExecutor(plan.threads, "capture"))
            try:
                self._capture(pool)
                self._in_threads(pool, [part.close for part in self._parts.values()])
            except BaseException:
                self._stop.set()
                pool.shutdown()
                for part in self._parts.values():
                    with suppress(OSError):  # the next start removes it
                        part.discard()
                raise

    def _capture(self, pool: ThreadPoolExecutor) -> None:
        """Go round after round."""
        ends = self._ends()
        renewed_s = described_s = time.monotonic()
        while not self._stop.is_set():
            behind = [part for partition, part in self._parts.items() if part.offset < ends[partition]]
            until_s = inf if self._plan.is_once else time.monotonic() + _TURN_S
            self._in_threads(pool, [_turn(part, ends[part.partition], until_s, self._stop) for part in behind])
            if self._plan.is_once:
                return
            self._in_threads(pool, [part.close_due for part in self._parts.values()])
            if not behind:
                self._stop.wait(_POLL_S)
            now_s = time.monotonic()
            if now_s - described_s >= _TOPICS_S:
                described_s = now_s
                self._look_for_partitions()
            if now_s - renewed_s >= _RENEWAL_S:
                renewed_s = now_s
                self._claim.renew()
            ends = self._ends()

    def _in_threads(self, pool: ThreadPoolExecutor, works: Sequence[Callable[[], None]]) -> None:
        """Do some works, and raise the error of the first that has one when all are done."""
        for future in [pool.submit(work) for work in works]:
            future.result()

    def _commit(self, partition: Partition, end: int, work: str, path: str) -> None:
        with self._lock:
            self._claim.commit(partition, end, work, path)

    def _begin(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            position = self._claim.positions[partition]
            self._parts[partition] = PartitionCapture(
                partition,
                position.topic_id,
                position.offset,
                self._files,
                self._commit,
                self._plan.servers,
                self._plan.terms,
                self._warn,
            )

    def _look_for_partitions(self) -> None:
        """Begin with new partitions.

        Raises:
            RefusedError: a topic was created again.
        """
        found = self._describe()
        for partition, topic_id in self._topic_ids.items():
            if found.get(partition) != topic_id:
                raise RefusedError(
                    f"{partition} is another one now: the topic was created again: choose another name and another directory for the "
                    "capture of the new one"
                )
        new = [partition for partition in found if partition not in self._topic_ids]
        if new:
            self._topic_ids = found
            self._claim.add(new)
            self._begin(new)

    def _describe(self) -> dict[Partition, str]:
        """The partitions of all topics, with the topics' ids.

        Raises:
            ConsumerError: a topic cannot be read.
        """
        found: dict[Partition, str] = {}
        described = self._cluster.describe(self._plan.topics)
        for topic in self._plan.topics:
            info = described[topic]
            if info.error:
                raise ConsumerError(f"--topic {topic}: {describe(info.error)}: name topics that exist")
            found |= {Partition(topic, number): info.topic_id.hex() for number in sorted(info.leaders)}
        return found

    def _ends(self) -> dict[Partition, int]:
        """The ends of what is decided."""
        found = self._cluster.find_offsets(dict.fromkeys(self._parts, LATEST), is_read_committed=True)
        return {partition: each.offset for partition, each in found.items()}

    def _observe(self, partitions: Sequence[Partition], known: Collection[Partition]) -> dict[Partition, Log]:
        earliest = self._cluster.find_offsets(dict.fromkeys(partitions, EARLIEST))
        ends = self._cluster.find_offsets(dict.fromkeys(partitions, LATEST), is_read_committed=True)
        logs = {
            partition: Log(self._topic_ids[partition], earliest[partition].offset, ends[partition].offset)
            for partition in partitions
        }
        for topic in sorted({partition.topic for partition in partitions if partition not in known}):
            last = {name.partition: name for name in self._directory.names_of(topic)}
            for partition in logs.keys() & last.keys():
                footer = read_footer(self._directory, last[partition].path)
                logs[partition] = logs[partition]._replace(
                    last_file_end=last[partition].end, last_file_topic_id=footer.topic_id
                )
        return logs


def _turn(part: PartitionCapture, end: int, until_s: float, stop: threading.Event) -> Callable[[], None]:
    return lambda: part.read(end, until_s, stop)
