"""A crew of a capture whose work is done by tasks of a Spark cluster; see :mod:`esp.capture.crew`.

A task reads a partition on, and writes files that are whole when it ends; the driver commits them and gives them their names. No file is
open between two rounds. So a round waits until the first record that is in no file is as old as a file may become.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from esp.capture.crew import Crew, Task
from esp.capture.position import Position
from esp.capture.task_work import Done, TaskWork, Work, with_absolute_place
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition

_TURN_S: Final = 60.0
"""The time for which a task reads: what it has written is lost if its executor dies."""


def open_crew(name: str, master: str, settings: Mapping[str, str]) -> Callable[[Task], Crew]:
    """Return what makes a crew of tasks of a cluster. Its session begins here.

    Args:
        name: of the capture.
        master: of Spark.
        settings: of Spark.

    Raises:
        ConsumerError: there is no session on this cluster.
    """
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else tasks are of the first python3 in PATH
    builder = SparkSession.builder.appName(f"esp-capture-{name}").master(master)
    for key, value in {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", **settings}.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:  # of Py4J, or of PySpark
        raise ConsumerError(f"--master {master}: {_first_line(error)}: see what Spark has logged") from error
    return lambda task: SparkCrew(task, session)


class SparkCrew:
    """Tasks of a cluster.

    Args:
        task: the work.
        session: of Spark, which ends with the crew.
    """

    def __init__(self, task: Task, session: SparkSession) -> None:
        self._task = task
        self._plan = with_absolute_place(task.plan)
        self._session = session
        self._topic_ids: dict[Partition, str] = {}
        self._firsts: dict[Partition, int] = {}
        """The ends of committed files, and of records that are passed over."""
        self._offsets: dict[Partition, int] = {}
        """The ends of what was read: behind the files where aborted records or markers alone follow."""
        self._due_s: dict[Partition, float] = {}
        """The time at which a partition is captured, in seconds, for each partition with records that are in no file."""
        self._is_first = True

    def begin(self, partition: Partition, position: Position) -> None:
        """See :class:`~esp.capture.crew.Crew`."""
        self._topic_ids[partition] = position.topic_id
        self._firsts[partition] = self._offsets[partition] = position.offset

    def capture(self, ends: Mapping[Partition, int]) -> bool:
        """See :class:`~esp.capture.crew.Crew`."""
        behind = {partition for partition, offset in self._offsets.items() if offset < ends[partition]}
        now_s = time.monotonic()
        wait_s = 0.0 if self._is_first or self._plan.is_once else self._plan.limits.every_s
        for partition in behind:
            self._due_s.setdefault(partition, now_s + wait_s)
        self._is_first = False
        if not any(self._due_s[partition] <= now_s for partition in behind):
            return False
        while behind and not self._task.stop.is_set():
            self._run({partition: ends[partition] for partition in behind})
            behind = {partition for partition in behind if self._offsets[partition] < ends[partition]}
        self._due_s = {}
        return True

    def finish(self) -> None:
        """See :class:`~esp.capture.crew.Crew`. All that was read is committed."""

    def discard(self) -> None:
        """See :class:`~esp.capture.crew.Crew`. Files of tasks that were not committed are removed by the next start."""

    def close(self) -> None:
        """See :class:`~esp.capture.crew.Crew`."""
        self._session.stop()

    def _run(self, ends: Mapping[Partition, int]) -> None:
        """Have a task for each partition read on, those with the most records first, and commit what they wrote."""
        works = [
            Work(
                partition,
                self._topic_ids[partition],
                self._firsts[partition],
                self._offsets[partition],
                end,
                _TURN_S,
            )
            for partition, end in ends.items()
        ]
        works.sort(key=lambda work: work.offset - work.end)
        try:
            jobs: Any = self._session.sparkContext.parallelize(works, len(works)).map(TaskWork(self._plan))
            done: list[Done] = jobs.collect()
        except Exception as error:
            raise ConsumerError(f"a job of Spark failed: {_first_line(error)}: see what Spark has logged") from error
        for each in done:
            for line in each.warnings:
                self._task.warn(line)
            for file in each.files:
                self._task.commit(each.partition, file.end, file.work, file.path)
            self._firsts[each.partition] = each.first
            self._offsets[each.partition] = each.offset
        for each in done:
            if each.error:
                raise ConsumerError(each.error)


def _first_line(error: Exception) -> str:
    java = getattr(error, "java_exception", None)  # of Py4J's errors, whose own text begins with the call
    text = str(java.getMessage()) if java is not None else str(error)
    return (text.strip() or repr(error)).splitlines()[0]
