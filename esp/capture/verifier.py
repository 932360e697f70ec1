"""Looks at a capture for its proof: lists and reads files, asks for committed offsets, and reads the log again."""

import importlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from esp.arrow.decoding import decode_batches
from esp.arrow.errors import Place
from esp.capture.directory import Directory
from esp.capture.file_names import FileName
from esp.capture.footer import read_footer
from esp.capture.position import Position, group_of, read_position
from esp.capture.verification import (
    Bounds,
    InTable,
    Offsets,
    bounds_of,
    check_against_log,
    check_file,
    check_names,
    check_table,
)
from esp.consumer.cluster import Address, Cluster
from esp.consumer.connection import Terms
from esp.consumer.errors import ConsumerError
from esp.consumer.group_offsets import GroupOffsets
from esp.consumer.messages import EARLIEST, LATEST, Partition
from esp.consumer.partition_reader import FetchTerms, PartitionReader

if TYPE_CHECKING:
    from esp.capture.delta_log import DeltaLog

_TIMEOUT_S: Final = 60.0
_FETCH_TERMS: Final = FetchTerms(
    is_read_committed=True,
    loss_remedy="verify again, which compares the files with the records that the topic has then",
    recreated_remedy="verify again, which does not compare the files with the new one",
)


class Verified(NamedTuple):
    """The files of a partition.

    Attributes:
        partition: the partition.
        files: their number.
        first: the first offset that they hold.
        end: the offset behind the last.
        records: their records.
        compared: those that were held against the log, which is all that it still has.
        problems: what is wrong, with the exact places.
        table: the offset up to which the topic's table has the files; None: there is no table.
        is_rewritten: whether another program has rewritten files of the table, whose records are not looked at then.
    """

    partition: Partition
    files: int
    first: int
    end: int
    records: int
    compared: int
    problems: Sequence[str]
    table: int | None = None
    is_rewritten: bool = False

    @property
    def without_records(self) -> int:
        """The offsets that have no record in the files."""
        return self.end - self.first - self.records


class _Log(NamedTuple):
    """A partition's log: the topic's id, the first offset that is there, and the end of what is decided."""

    topic_id: str
    earliest: int
    end: int


class _Table(NamedTuple):
    """A table: its log, its captured files with their numbers of records, and the number of others."""

    log: "DeltaLog"
    files: Mapping[FileName, int | None]
    others: int


class Verifier:
    """Verifies a capture.

    Args:
        place: its directory, a path or a URL.
        servers: the bootstrap servers; none: only files are looked at.
        terms: of connections.
        find_topics: returns the topics for which a capture has committed offsets.
        find_compacted: returns those of some topics that are compacted.
    """

    def __init__(
        self,
        place: str,
        servers: Sequence[Address],
        terms: Terms,
        find_topics: Callable[[str], Collection[str]],
        find_compacted: Callable[[Collection[str]], Collection[str]],
    ) -> None:
        self._directory = Directory(place)
        self._servers = servers
        self._terms = terms
        self._find_topics = find_topics
        self._find_compacted = find_compacted

    def run(self) -> Iterator[Verified]:
        """Yield what is found of each partition.

        Raises:
            ConsumerError: there is no capture, or the cluster does not answer.
        """
        owner = self._directory.read_owner()
        if owner is None:
            raise ConsumerError(
                f"{self._directory.place}: no capture writes to it: name the directory of esp capture start --to"
            )
        topics = self._directory.topics()
        if not self._servers:
            tables = self._tables(topics)
            for partition, names in self._files(topics).items():
                table = _in_table(tables, owner, partition)
                yield self._verify(partition, names, Bounds(), None, None, table, is_compacted=True)
            return
        topics = sorted({*topics, *self._find_topics(owner)})
        with Cluster(self._servers, self._terms) as cluster:
            offsets = GroupOffsets(cluster, group_of(owner))
            ids = {
                Partition(name, number): info.topic_id.hex()
                for name, info in cluster.describe(topics).items()
                for number in info.leaders
            }
            there = sorted(ids)
            before = _positions(offsets, there)
            tables = self._tables(topics)  # before files are listed: a file has its name before a table has it
            files = self._files(topics)
            work = self._directory.list_work()
            after = _positions(offsets, there)
            earliest = cluster.find_offsets(dict.fromkeys(there, EARLIEST))
            ends = cluster.find_offsets(dict.fromkeys(there, LATEST), is_read_committed=True)
        compacted = self._find_compacted({partition.topic for partition in there})
        for partition in sorted({*files, *after}):
            position = after.get(partition)
            yield self._verify(
                partition,
                files.get(partition, []),
                bounds_of(before.get(partition), position, work),
                None if position is None else position.topic_id,
                _Log(ids[partition], earliest[partition].offset, ends[partition].offset) if partition in ids else None,
                _in_table(tables, owner, partition),
                is_compacted=partition.topic in compacted,
            )

    def _files(self, topics: Sequence[str]) -> dict[Partition, list[FileName]]:
        found: dict[Partition, list[FileName]] = {}
        for topic in topics:
            for name in self._directory.names_of(topic):
                found.setdefault(name.partition, []).append(name)
        return found

    def _verify(
        self,
        partition: Partition,
        names: list[FileName],
        bounds: Bounds,
        topic_id: str | None,
        log: _Log | None,
        table: InTable | None,
        *,
        is_compacted: bool,
    ) -> Verified:
        problems = check_names(partition, names, bounds)
        records = compared = 0
        rows: dict[FileName, int] = {}
        for name in names:
            try:
                footer = read_footer(self._directory, name.path)
                captured = self._captured(name)
            except ConsumerError as error:
                problems.append(f"damaged: {error}")
                continue
            problems += check_file(name, topic_id, footer.topic_id, footer.rows, captured)
            records += len(captured)
            rows[name] = footer.rows
            if log is not None and log.topic_id == footer.topic_id and name.end > log.earliest:
                first, end = max(name.first, log.earliest), min(name.end, log.end)
                within = captured[captured >= first]
                compared += len(within)
                problems += check_against_log(
                    name, within, self._logged(partition, log.topic_id, first, end), is_compacted=is_compacted
                )
        first = names[0].first if names else bounds.begin or 0
        end = names[-1].end if names else first
        found = Verified(partition, len(names), first, end, records, compared, problems)
        if table is None:
            return found
        problems += check_table(partition, names, rows, table, bounds.most_end)
        return found._replace(table=table.end, is_rewritten=table.is_rewritten)

    def _tables(self, topics: Sequence[str]) -> dict[str, "_Table"]:
        """The tables of those topics that have some.

        Raises:
            ConsumerError: a table cannot be read.
        """
        having = [topic for topic in topics if self._directory.has_table(topic)]
        if not having:
            return {}
        # the package deltalake is needed for tables only
        delta_log = importlib.import_module("esp.capture.delta_log")
        logs = {topic: delta_log.DeltaLog(self._directory, topic) for topic in having}
        return {topic: _Table(log, *log.files()) for topic, log in logs.items()}

    def _captured(self, name: FileName) -> Offsets:
        """The offsets of a file's records.

        Raises:
            ConsumerError: the file cannot be read.
        """
        try:
            with self._directory.open_parquet(name.path) as file:
                return np.asarray(file.read(["offset"]).column("offset").to_numpy(), np.int64)
        except (OSError, pa.ArrowException, KeyError) as error:
            raise ConsumerError(f"{name.path} cannot be read: {error}") from error

    def _logged(self, partition: Partition, topic_id: str, first: int, end: int) -> Offsets:
        """The offsets of the log's committed records in a range."""
        found = [np.empty(0, np.int64)]
        warnings: list[str] = []
        reader = PartitionReader(
            partition, self._servers, None, self._terms, _FETCH_TERMS, warnings.append, bytes.fromhex(topic_id)
        )
        with closing(reader):
            for fetched in reader.read(first, end):
                place = Place(*partition)
                some = decode_batches(
                    fetched.batches, place, fetched.first_offset, fetched.end_offset, fetched.aborted, ("offset",)
                )
                found += [batch.column("offset").to_numpy() for batch in some]
        return np.concatenate(found)


def _in_table(tables: Mapping[str, _Table], owner: str, partition: Partition) -> InTable | None:
    """A partition in the table of its topic, if that has one."""
    table = tables.get(partition.topic)
    if table is None:
        return None
    files = {name: rows for name, rows in table.files.items() if name.partition == partition}
    return InTable(table.log.ends(owner, [partition]).get(partition, 0), files, table.others > 0)


def _positions(offsets: GroupOffsets, partitions: Sequence[Partition]) -> Mapping[Partition, Position]:
    committed = offsets.fetch(partitions, _TIMEOUT_S) if partitions else {}
    found = {partition: read_position(each) for partition, each in committed.items()}
    return {partition: position for partition, position in found.items() if position is not None}
