"""The capture of one partition: its records are read, cut into files, and these are committed."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from esp.arrow.decoding import COLUMNS as DECODED
from esp.arrow.decoding import decode_batches
from esp.arrow.errors import Place
from esp.capture.cutting import Limits, OpenFile, days_of, rows_that_fit
from esp.capture.directory import Directory
from esp.capture.file_names import FileName, work_name
from esp.capture.file_writer import FileWriter
from esp.consumer.cluster import Address
from esp.consumer.connection import Terms
from esp.consumer.errors import LostRecordsError
from esp.consumer.messages import Partition
from esp.consumer.partition_reader import FetchTerms, PartitionReader
from esp.options.rows import make_rows, schema_of_rows
from esp.options.value_columns import ValueColumns

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
FETCH_TERMS: Final = FetchTerms(
    is_read_committed=True,
    loss_remedy="start the capture again with --skip-lost to go on without them",
    recreated_remedy="choose another name and another directory for the capture of the new one",
)


class Commit(Protocol):
    """Commits a file and gives it its name: :meth:`esp.capture.claim.Claim.commit`."""

    def __call__(self, partition: Partition, end: int, work: str, path: str) -> None:
        """Commit the file at ``work``."""


@dataclass(frozen=True, slots=True)
class FileTerms:
    """The terms that files of all partitions share.

    Attributes:
        directory: where they are.
        limits: of each.
        values: what makes the columns of the value; None: it is one.
        runner: the runner that writes them.
        capture: the capture.
        skips_lost: whether records that were deleted before they were captured are passed over.
    """

    directory: Directory
    limits: Limits
    values: ValueColumns | None
    runner: str
    capture: str
    skips_lost: bool = False


class PartitionCapture:
    """Captures a partition. One thread uses it at a time.

    Args:
        partition: the partition.
        topic_id: the topic's id, in hexadecimal digits: no record of another topic of the name is captured.
        first: the first offset that is in no file, where the next file begins.
        offset: the first offset to read; records from ``first`` up to there were read, and there are none.
        terms: of files.
        commit: called with each file that is whole.
        servers: the bootstrap servers.
        connections: the terms of connections.
        warn: called with a line about what is no error.
    """

    def __init__(
        self,
        partition: Partition,
        topic_id: str,
        first: int,
        offset: int,
        terms: FileTerms,
        commit: Commit,
        servers: Sequence[Address],
        connections: Terms,
        warn: Callable[[str], None],
    ) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.offset = offset
        self._terms = terms
        self._commit = commit
        self._schema = schema_of_rows(COLUMNS, terms.values)
        self._warn = warn
        self._reader = PartitionReader(
            partition, servers, None, connections, FETCH_TERMS, warn, bytes.fromhex(topic_id)
        )
        self.first = first
        """The first offset that is in no file."""
        self._end = offset
        self._file: OpenFile | None = None
        self._writer: FileWriter | None = None

    def read(self, end: int, until_s: float, stop: threading.Event) -> None:
        """Read up to an offset, or until a time of the monotonic clock, or until ``stop`` is set.

        Raises:
            ConsumerError: records cannot be read, or a file cannot be committed.
            BrokenBatchError: a batch is not the one that was written.
        """
        while self.offset < end:
            try:
                self._read(end, until_s, stop)
            except LostRecordsError as error:
                if not self._terms.skips_lost or error.earliest <= self.offset:
                    raise
                self._skip_to(error.earliest)
            else:
                return

    def _skip_to(self, offset: int) -> None:
        """Pass over records that are gone: the next file begins behind them, so that names show the gap."""
        self._warn(f"{self.partition}: offsets {self.offset} to {offset - 1} were deleted before they were captured")
        self.close()
        self.first = self.offset = self._end = offset

    def _read(self, end: int, until_s: float, stop: threading.Event) -> None:
        place = Place(*self.partition)
        with closing(self._reader):
            for fetched in self._reader.read(self.offset, end):
                decoded = decode_batches(
                    fetched.batches, place, fetched.first_offset, fetched.end_offset, fetched.aborted, DECODED
                )
                for batch in decoded:
                    self._add(batch)
                assert fetched.batches.next_offset is not None, "there are batches"
                self.offset = self._end = min(fetched.batches.next_offset, end)
                self.close_due()
                if stop.is_set() or time.monotonic() >= until_s:
                    return

    def close_due(self) -> None:
        """Close the file if its time is over.

        Raises:
            ConsumerError: it cannot be committed.
        """
        if self._file is not None and self._file.is_due(self._terms.limits, time.monotonic()):
            self.close()

    def close(self) -> None:
        """Commit the records that were read.

        Raises:
            ConsumerError: that is not possible.
        """
        if self._file is None:
            return
        assert self._writer is not None, "a file has a writer"
        file, writer = self._file, self._writer
        writer.close()
        # from here on it may be committed even if that fails: a newer runner finishes it, or removes it
        self._file = self._writer = None
        name = FileName(self.partition, self.first, self._end, file.day)
        self._commit(self.partition, self._end, writer.work, name.path)
        self.first = self._end

    def discard(self) -> None:
        """Forget the records of the file that takes more."""
        if self._writer is not None:
            self._writer.discard()
        self._file = self._writer = None

    def _add(self, batch: pa.RecordBatch) -> None:
        days = days_of(batch.column("timestamp").view(pa.int64()).to_numpy())
        rows = make_rows(batch, self.partition, COLUMNS, self._terms.values)
        row_bytes = rows.nbytes / rows.num_rows
        taken = 0
        while taken < rows.num_rows:
            file, writer = self._opened(int(days[taken]))
            fit = rows_that_fit(file, self._terms.limits, days[taken:], row_bytes)
            if fit:
                part = rows.slice(taken, fit)
                writer.write(part)
                file.rows += fit
                file.size_bytes = writer.size_bytes
                taken += fit
                self._end = int(np.asarray(batch.column("offset"))[taken - 1]) + 1
            if taken < rows.num_rows or file.is_full(self._terms.limits):
                self.close()

    def _opened(self, day: int) -> tuple[OpenFile, FileWriter]:
        """The file that takes the next record; a new one has its day."""
        if self._file is None or self._writer is None:
            facts = {"capture": self._terms.capture, "topic": self.partition.topic, "topicId": self.topic_id}
            work = work_name(self.partition, self.first, self._terms.runner)
            self._writer = FileWriter(self._terms.directory, work, self._schema, facts)
            self._file = OpenFile(day, time.monotonic())
        return self._file, self._writer
