"""A runner of a capture: it takes the capture over, and captures all partitions of its topics in rounds, by a crew."""

import importlib
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from esp.capture.claim import Claim
from esp.capture.crew import Crew, LocalCrew, Task
from esp.capture.decision import Log, RefusedError, find_new
from esp.capture.directory import Directory
from esp.capture.footer import read_footer
from esp.capture.ledger import OffsetLedger
from esp.capture.partition_capture import COLUMNS, FileTerms
from esp.capture.plan import CapturePlan
from esp.consumer.cluster import MISSING_S, Cluster
from esp.consumer.connection import Deadline
from esp.consumer.errors import UNKNOWN_TOPIC_OR_PARTITION, ConsumerError, MissingPartitionError, describe
from esp.consumer.messages import EARLIEST, LATEST, Partition
from esp.options.rows import check_names, schema_of_rows
from esp.options.value_columns import open_values, with_newest

if TYPE_CHECKING:
    from esp.capture.tables import Tables

_POLL_S: Final = 0.5
"""The pause before the ends of partitions are asked for again, if nothing was new."""
_TOPICS_S: Final = 5.0
"""The time between two looks for new partitions."""
_MISSING_S: Final = MISSING_S
"""The time for which a captured partition is asked for that a broker does not know, since brokers may be behind."""
_RENEWAL_S: Final = 86_400.0
"""The time after which offsets are committed again, so that they do not expire on Kafka."""

_Found = TypeVar("_Found")


class Runner:
    """A runner.

    Args:
        plan: what it does.
        warn: called with a line about what is no error.
        stop: set from outside: the runner commits what it has read, and ends.
        make_crew: makes the crew that does the work; threads of this process, if nothing else is said.
    """

    def __init__(
        self,
        plan: CapturePlan,
        warn: Callable[[str], None],
        stop: threading.Event,
        make_crew: Callable[[Task], Crew] = LocalCrew,
    ) -> None:
        self._plan = plan
        self._warn = warn
        self._stop = stop
        self._directory = Directory(plan.place)
        self._runner = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._make_crew = make_crew
        self._topic_ids: Mapping[Partition, str] = {}

    def run(self) -> None:
        """Capture until ``stop`` is set, or up to the ends.

        Raises:
            OvertakenError: another runner has taken the capture over.
            ConsumerError: the capture cannot go on; what is committed stays, and another start goes on behind it.
            OptionError: the options of values cannot be used.
        """
        plan = replace(self._plan, values=with_newest(self._plan.values))
        values = open_values(plan.values)
        schema = schema_of_rows(COLUMNS, values)
        check_names(schema, "rename the field by a schema of your own")
        self._tables = self._open_tables(schema.names)
        files = FileTerms(self._directory, plan.limits, values, self._runner, plan.name, plan.skips_lost)
        with ExitStack() as stack:
            self._crew = self._make_crew(Task(plan, files, self._commit, self._warn, self._stop))
            stack.enter_context(closing(self._crew))
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
            if self._tables is not None:
                self._tables.take(plan.topics)
            try:
                self._begin(self._topic_ids)
                self._capture()
                self._crew.finish()
                self._publish()
            except BaseException:
                self._crew.discard()
                raise

    def _capture(self) -> None:
        """Go round after round."""
        ends = self._ends()
        renewed_s = described_s = time.monotonic()
        while not self._stop.is_set():
            has_work = self._crew.capture(ends)
            self._publish()
            if self._plan.is_once:
                return
            if not has_work:
                self._stop.wait(_POLL_S)
            now_s = time.monotonic()
            if now_s - described_s >= _TOPICS_S:
                described_s = now_s
                self._look_for_partitions()
            if now_s - renewed_s >= _RENEWAL_S:
                renewed_s = now_s
                self._claim.renew()
            ends = self._ends()

    def _commit(self, partition: Partition, end: int, work: str, path: str) -> None:
        with self._lock:
            self._claim.commit(partition, end, work, path)
            if self._tables is not None:
                self._tables.note(path)

    def _publish(self) -> None:
        """Add the files of a round to their tables."""
        if self._tables is not None:
            self._tables.publish()

    def _open_tables(self, columns: Sequence[str]) -> "Tables | None":
        """The capture's tables, if it has some.

        Raises:
            RefusedError: it has tables, and the plan has not.
        """
        if self._plan.has_tables:
            # the package deltalake is needed for tables only
            tables: Tables = importlib.import_module("esp.capture.tables").Tables(
                self._directory, self._plan.name, columns
            )
            return tables
        for topic in self._plan.topics:
            if self._directory.has_table(topic):
                raise RefusedError(
                    f"the files of topic {topic} are a Delta table, which would lack the next ones: give --table delta"
                )
        return None

    def _begin(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self._crew.begin(partition, self._claim.positions[partition])

    def _look_for_partitions(self) -> None:
        """Begin with new partitions.

        Raises:
            RefusedError: a topic was created again.
            ConsumerError: a partition is missing.
        """

        def look() -> dict[Partition, str]:
            found = self._describe()
            return {partition: found[partition] for partition in find_new(self._topic_ids, found)}

        found = self._ask(look)
        new = [*found]
        if new:
            self._topic_ids = {**self._topic_ids, **found}
            self._claim.add(new)
            if self._tables is not None:
                self._tables.take(sorted({partition.topic for partition in new}))
            self._begin(new)

    def _describe(self) -> dict[Partition, str]:
        """The partitions of all topics, with the topics' ids.

        Raises:
            MissingPartitionError: the broker that was asked does not know a topic that is being captured.
            ConsumerError: a topic cannot be read.
        """
        found: dict[Partition, str] = {}
        described = self._cluster.describe(self._plan.topics)
        for topic in self._plan.topics:
            info = described[topic]
            is_captured = any(partition.topic == topic for partition in self._topic_ids)
            if info.error == UNKNOWN_TOPIC_OR_PARTITION and is_captured:
                raise MissingPartitionError(f"topic {topic}: {describe(info.error)}")
            if info.error:
                raise ConsumerError(f"--topic {topic}: {describe(info.error)}: name topics that exist")
            found |= {Partition(topic, number): info.topic_id.hex() for number in sorted(info.leaders)}
        return found

    def _ends(self) -> dict[Partition, int]:
        """The ends of what is decided.

        Raises:
            ConsumerError: a partition is missing.
        """
        found = self._ask(
            lambda: self._cluster.find_offsets(dict.fromkeys(self._topic_ids, LATEST), is_read_committed=True)
        )
        return {partition: each.offset for partition, each in found.items()}

    def _ask(self, question: Callable[[], _Found]) -> _Found:
        """Return the answer to a question, which is asked again while a broker that is behind does not know a partition.

        Raises:
            ConsumerError: a partition is missing from the answers for too long.
        """
        deadline = Deadline(_MISSING_S)
        while True:
            try:
                return question()
            except MissingPartitionError as error:
                if deadline.is_over:
                    raise ConsumerError(
                        f"{error}, as brokers have said for {deadline.timeout_s:g} s, though it was captured: see esp topics --describe, "
                        "and start the capture again when the topic has all its partitions"
                    ) from error
            deadline.pause(_POLL_S)

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
