"""The work of one task of a cluster: it reads a partition on, and writes files that its driver commits."""

import os
import secrets
import threading
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

from esp.arrow.errors import BrokenBatchError
from esp.capture.directory import Directory
from esp.capture.partition_capture import FileTerms, PartitionCapture
from esp.capture.plan import CapturePlan
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.options.registry import RegistryError
from esp.options.value_columns import open_values


class WholeFile(NamedTuple):
    """A file that is whole and durable, and has no name yet: the offset behind its last, where it is, and where it shall be."""

    end: int
    work: str
    path: str


class Work(NamedTuple):
    """The work of a task.

    Attributes:
        partition: the partition.
        topic_id: the topic's id.
        first: the first offset that is in no file: names of files leave no gap, also behind offsets that were read and have no records.
        offset: the first offset to read.
        end: the offset behind the last.
        turn_s: the time after which the task closes its file, and leaves the rest to another one.
    """

    partition: Partition
    topic_id: str
    first: int
    offset: int
    end: int
    turn_s: float


class Done(NamedTuple):
    """The work that a task has done.

    Attributes:
        partition: the partition.
        first: the first offset that is in no file, behind the last file and records that are passed over.
        offset: the offset up to which it has read.
        files: in order.
        warnings: lines about what is no error.
        error: the fault and the remedy, if it cannot go on.
    """

    partition: Partition
    first: int
    offset: int
    files: tuple[WholeFile, ...]
    warnings: tuple[str, ...]
    error: str = ""


def with_absolute_place(plan: CapturePlan) -> CapturePlan:
    """A plan that means the same directory in each process."""
    return plan if "://" in plan.place else replace(plan, place=os.path.abspath(plan.place))


@dataclass(frozen=True, slots=True)
class TaskWork:
    """Does the work of tasks: a function that travels.

    Attributes:
        plan: the capture.
    """

    plan: CapturePlan

    def __call__(self, work: Work) -> Done:
        """Do a task's work.

        Each attempt writes under a name of its own: attempts at one task may run at once.
        """
        files: list[WholeFile] = []
        warnings: list[str] = []

        def note(partition: Partition, end: int, work: str, path: str) -> None:  # noqa: ARG001 - as a commit is called
            files.append(WholeFile(end, work, path))

        plan = self.plan
        terms = FileTerms(
            Directory(plan.place),
            plan.limits,
            open_values(plan.values),
            secrets.token_hex(8),
            plan.name,
            plan.skips_lost,
        )
        part = PartitionCapture(
            work.partition,
            work.topic_id,
            work.first,
            work.offset,
            terms,
            note,
            plan.servers,
            plan.terms,
            warnings.append,
        )
        error = ""
        try:
            part.read(work.end, time.monotonic() + work.turn_s, threading.Event())
            part.close()
        except (ConsumerError, BrokenBatchError, RegistryError) as problem:
            part.discard()
            error = str(problem)
        return Done(work.partition, part.first, part.offset, tuple(files), tuple(warnings), error)
