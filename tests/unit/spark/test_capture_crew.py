"""The work that a crew of tasks gives out, by what tasks before have read and written. On a session of Spark that is none."""

import threading
from collections.abc import Sequence
from typing import Any

from esp.capture.crew import Task
from esp.capture.cutting import Limits
from esp.capture.directory import Directory
from esp.capture.partition_capture import FileTerms
from esp.capture.plan import CapturePlan
from esp.capture.position import Position
from esp.capture.task_work import Done, WholeFile, Work
from esp.consumer.messages import Partition
from esp.spark.capture_crew import SparkCrew

HERE = Partition("t", 0)


class Session:
    """A session whose tasks answer as they are told."""

    def __init__(self, answers: Sequence[Done]) -> None:
        self.sparkContext: Any = self
        self.works: list[Work] = []
        self._answers = iter(answers)

    def parallelize(self, works: Sequence[Work], _slices: int) -> "Session":
        self.works += works
        return self

    def map(self, _function: object) -> "Session":
        return self

    def collect(self) -> list[Done]:
        return [next(self._answers)]


def test_a_task_begins_its_file_where_the_last_file_ended_however_far_tasks_have_read() -> None:
    file = WholeFile(12, "_work/a", "t/dt=2026-11-26/0-5-12.parquet")
    session = Session(
        [
            Done(HERE, 5, 8, (), ()),  # aborted records alone
            Done(HERE, 12, 13, (file,), ()),  # a file that its size has closed just before a marker
            Done(HERE, 12, 20, (), ()),
        ]
    )
    committed: list[int] = []

    def commit(_partition: Partition, end: int, _work: str, _path: str) -> None:
        committed.append(end)

    plan = CapturePlan("c", ("t",), "/nowhere", (), is_once=True)
    files = FileTerms(Directory("/nowhere"), Limits(), None, "r", "c")
    crew = SparkCrew(Task(plan, files, commit, print, threading.Event()), session)
    crew.begin(HERE, Position(5, 0, "", "", "r", "0a"))
    assert crew.capture({HERE: 20})
    assert [(work.first, work.offset, work.end) for work in session.works] == [(5, 5, 20), (5, 8, 20), (12, 13, 20)]
    assert committed == [12]
