"""Streams by the data source ``esp`` in this process: the calls that Spark 4.0 makes, in its order and over its JSON, without a JVM."""

import json
import pickle
from dataclasses import dataclass, field
from typing import Any

from esp.spark.source import DefaultSource
from esp.spark.stream import StreamReader
from tests.integration.source_rows import Row, rows_of


@dataclass
class Checkpoint:
    """Spark's: the offset log, and the number of the batches that are committed."""

    starts: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    committed: int = 0

    @property
    def position(self) -> dict[str, Any]:
        """The offsets of the last batch that was planned."""
        return json.loads(self.ends[-1])


class Run:
    """A run of a query.

    Args:
        bootstrap: the servers.
        checkpoint: of the query; what it holds is gone on with.
        options: of the source, with two underscores for a dot.
    """

    def __init__(self, bootstrap: str, checkpoint: Checkpoint, **options: object) -> None:
        given = {name.replace("__", "."): str(value) for name, value in options.items()}
        self._source = DefaultSource({"kafka.bootstrap.servers": bootstrap, **given})
        self.reader = self._new_reader()
        self.checkpoint = checkpoint
        if checkpoint.ends:
            assert self.reader.partitions(checkpoint.position, checkpoint.position) == []

    def _new_reader(self) -> StreamReader:
        reader = self._source.streamReader(self._source.schema())
        assert isinstance(reader, StreamReader)
        reader._learns_ends = False  # as before Spark 4.2, whichever is installed
        return reader

    def end_here(self) -> None:
        """Let the run end where the topics end now, as Spark does from 4.2 on."""
        self.reader._learns_ends = True
        self.reader._planner().end_here()

    def plan(self) -> bool:
        """Plan the next batch if there is anything new; say whether there is."""
        log = self.checkpoint
        latest = json.dumps(self.reader.latestOffset())
        if not log.ends:
            log.starts.append(json.dumps(self.reader.initialOffset()))
        elif latest != log.ends[-1]:
            log.starts.append(log.ends[-1])
        else:
            return False
        log.ends.append(latest)
        if len(log.ends) > 1:
            self.reader.commit(json.loads(log.ends[-2]))
        return True

    def read(self) -> list[Row]:
        """The rows of the batch that was planned last, in order."""
        start, end = self.checkpoint.starts[-1], self.checkpoint.ends[-1]
        executor = pickle.loads(pickle.dumps(self._new_reader()))
        tasks = pickle.loads(pickle.dumps(self.reader.partitions(json.loads(start), json.loads(end))))
        rows = sorted(rows_of(batch for task in tasks or [None] for batch in executor.read(task)))
        self.checkpoint.committed = len(self.checkpoint.ends)
        return rows

    def batch(self) -> list[Row] | None:
        """The rows of the next batch; None if nothing is new. A batch that was planned and not committed comes again first."""
        is_planned = self.checkpoint.committed < len(self.checkpoint.ends)
        return self.read() if is_planned or self.plan() else None

    def batches(self) -> list[list[Row]]:
        """All batches until nothing is new; the run ends."""
        found = []
        while (rows := self.batch()) is not None:
            found.append(rows)
        self.reader.stop()
        return found

    def rows(self) -> list[Row]:
        """The rows of all batches until nothing is new; none may come twice."""
        rows = [row for batch in self.batches() for row in batch]
        assert len(rows) == len({row[:2] for row in rows}), "a record was read twice"
        return sorted(rows)
