"""The log of a Delta table in which captured files of a topic stand, by the package ``deltalake``: no JVM has a part in it.

The table is the topic's directory, and its log ``TOPIC/_delta_log``. A commit is made at the version behind the one that was looked at, or
not at all, so that no other commit stands between what was looked at and what is written.
"""

import datetime as dt
import json
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError
from deltalake.schema import Schema
from deltalake.transaction import AddAction, create_table_with_add_actions

from esp.capture.decision import RefusedError
from esp.capture.directory import TABLE_LOG, Directory
from esp.capture.file_names import FileName, date_of, parse_path
from esp.capture.table_plan import DAY_COLUMN, application_of
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition

_MEASURED: Final = ("offset", "timestamp")
"""Columns whose bounds stand in the log, so that readers pass over files."""


class TableFiles(NamedTuple):
    """The files of a table.

    Attributes:
        files: the captured ones, with their numbers of records; None: the log does not say it.
        others: the number of those that no capture has made: another program has rewritten some.
    """

    files: Mapping[FileName, int | None]
    others: int


class DeltaLog:
    """The log of a topic's table, as it was last looked at. One thread uses it at a time.

    Args:
        directory: of the capture.
        topic: the topic.

    Raises:
        ConsumerError: here and from the methods: the log cannot be read or written.
    """

    def __init__(self, directory: Directory, topic: str) -> None:
        self._directory = directory
        self._topic = topic
        self._uri = directory.uri(topic)
        self._table: DeltaTable | None = None
        self.look()

    def look(self) -> None:
        """Look at the newest version."""
        try:
            if self._table is not None:
                self._table.update_incremental()
            elif self._directory.has_table(self._topic):
                self._table = DeltaTable(self._uri)
        except (DeltaError, OSError) as error:
            raise self._failed(error) from error

    def ends(self, capture: str, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return up to which offsets the table has files of partitions; nothing of those of which it has none."""
        if self._table is None:
            return {}
        try:
            found = {each: self._table.transaction_version(application_of(capture, each)) for each in partitions}
        except (DeltaError, OSError) as error:
            raise self._failed(error) from error
        return {partition: end for partition, end in found.items() if end is not None}

    def files(self) -> TableFiles:
        """Return the files of the table."""
        if self._table is None:
            return TableFiles({}, 0)
        try:
            actions = pa.table(self._table.get_add_actions(flatten=True))
        except (DeltaError, OSError) as error:
            raise self._failed(error) from error
        files: dict[FileName, int | None] = {}
        others = 0
        for path, rows in zip(actions["path"].to_pylist(), actions["num_records"].to_pylist(), strict=True):
            name = parse_path(f"{self._topic}/{path}")
            if name is None:
                others += 1
            else:
                files[name] = rows
        return TableFiles(files, others)

    def add(self, capture: str, files: Sequence[FileName], ends: Mapping[Partition, int]) -> bool:
        """Add files in one commit, with the transactions that say so; False if another commit was faster: look again.

        Args:
            capture: the capture.
            files: with names.
            ends: by partition of these, the end of its last.

        Raises:
            RefusedError: files have other columns than the table.
        """
        schema, actions = self._describe(files)
        properties = CommitProperties(
            max_commit_retries=0,
            app_transactions=[
                Transaction(application_of(capture, partition), end) for partition, end in sorted(ends.items())
            ],
        )
        before = None if self._table is None else self._table.version()
        try:
            if self._table is None:
                create_table_with_add_actions(
                    self._uri, schema, actions, "error", [DAY_COLUMN], commit_properties=properties
                )
                self._table = DeltaTable(self._uri)
            else:
                self._table.create_write_transaction(
                    [*actions], "append", schema, [DAY_COLUMN], commit_properties=properties
                )
        except (DeltaError, OSError) as error:
            self.look()
            if self._table is not None and self._table.version() != before:
                return False
            raise self._failed(error) from error
        for version in range(0 if before is None else before + 1, self._table.version() + 1):
            self._directory.make_durable(f"{self._topic}/{TABLE_LOG}/{version:020}.json")
        return True

    def _describe(self, files: Sequence[FileName]) -> tuple[Schema, list[AddAction]]:
        """The table's schema by the files, and what its log says of them."""
        schema = None if self._table is None else self._table.schema()
        actions: list[AddAction] = []
        for name in files:
            with self._directory.open_parquet(name.path) as file:
                found = Schema.from_arrow(_with_day(file.schema_arrow))
                schema = found if schema is None else schema
                if not {(each.name, str(each.type)) for each in found.fields} <= {
                    (each.name, str(each.type)) for each in schema.fields
                }:
                    raise RefusedError(
                        f"{name.path} has other columns than the table of topic {self._topic}, which are those of its first file: capture "
                        "with these columns to a new directory, by another name"
                    )
                stats = json.dumps(_stats_of(file.metadata))
            actions.append(
                AddAction(
                    path=name.path.removeprefix(f"{self._topic}/"),
                    size=self._directory.size_of(name.path),
                    partition_values={DAY_COLUMN: date_of(name.day)},
                    modification_time=int(time.time() * 1000),
                    data_change=True,
                    stats=stats,
                )
            )
        assert schema is not None, "there is a file"
        return schema, actions

    def _failed(self, error: Exception) -> ConsumerError:
        text = str(error).partition("\n")[0]  # below it the library's stack may stand
        return ConsumerError(f"the Delta table {self._uri}: {text}: look at its log, and start the capture again")


def _with_day(schema: pa.Schema) -> pa.Schema:
    return schema.remove_metadata().append(pa.field(DAY_COLUMN, pa.date32()))


def _stats_of(metadata: pq.FileMetaData) -> dict[str, Any]:
    """The numbers of records and the bounds that a file's footer has, in the form of the log."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for number in range(metadata.num_columns):
        name = metadata.schema.column(number).path
        if name not in _MEASURED:
            continue
        bounds = [group.column(number).statistics for group in groups]
        if all(each is not None and each.has_min_max for each in bounds):
            least[name] = _in_log(min(each.min for each in bounds))
            most[name] = _in_log(max(each.max for each in bounds))
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": most}


def _in_log(value: Any) -> Any:
    """A bound as the log writes it. Times of records are whole milliseconds, which is what the log can say."""
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
    return value
