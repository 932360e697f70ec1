"""Transactions in the directories of stopped nodes: those that partitions have open, and those that coordinators have stored (KIP-664).

The files are read and not changed, be they of this software or of Apache Kafka. Of several replicas of a partition the one with the latest
leader epoch and the longest log counts. Records that were not committed count too: nothing in the files tells them from others.
"""

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from esp.cli.dumping.segment_dump import Placed, walk
from esp.doctor.open_transactions import KnownTransaction, OpenTransaction
from esp.model.errors import CorruptionError, OperatorError
from esp.model.ids import METADATA_PARTITION, TRANSACTIONS_TOPIC, TopicPartition
from esp.records.batch import check_batch, iterate_records
from esp.records.transaction_marker import Marker, read_marker
from esp.schemas.metadata_frames import UnknownRecordError, decode_record
from esp.schemas.metadata_records import PartitionRecord, TopicRecord
from esp.schemas.transaction_record_codec import decode_transaction_record
from esp.schemas.transaction_records import TransactionValue
from esp.storage.layout import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    DirectoryKind,
    parse_directory_name,
    parse_offset_file_name,
)
from esp.storage.producer_state import ProducerStates

_CHECKPOINT_FILES: Final = "*-*.checkpoint"
_WHOLE_FILE: Final = 2**62
_NO_COORDINATOR: Final = -1


class StoppedNodes(NamedTuple):
    """The findings in the directories."""

    opened: list[OpenTransaction]
    known: dict[int, KnownTransaction]
    """The transactions by producer id; without a coordinator."""
    problems: list[str]
    """Reasons for which a transaction may have an owner that is not known here."""


def read_stopped_nodes(directories: Sequence[Path]) -> StoppedNodes:
    """Return the transactions in the log directories of one or several nodes of a cluster.

    Raises:
        OperatorError: a directory cannot be read, or has no partition; or a file in it is damaged.
    """
    replicas: dict[TopicPartition, Path] = {}
    for directory in directories:
        found = dict(_replicas_in(directory))
        if not found:
            raise OperatorError(
                f"{directory} has no directory of a partition", "Name a log directory of a node: one of its log.dirs."
            )
        for name, path in found.items():
            if name not in replicas or _end_of(path) > _end_of(replicas[name]):
                replicas[name] = path
    try:
        opened = [
            each
            for name, path in sorted(replicas.items())
            if name.topic != METADATA_PARTITION.topic
            for each in _open_in(name, path)
        ]
        states = {name.partition: path for name, path in replicas.items() if name.topic == TRANSACTIONS_TOPIC}
        known = {one.producer_id: one for _, path in sorted(states.items()) for one in _known_in(path)}
        problems = _missing_states(replicas.get(METADATA_PARTITION), set(states))
    except OSError as error:
        raise OperatorError(f"{error.filename}: {error.strerror}", "Check path and permissions.") from error
    return StoppedNodes(opened, known, problems)


def _replicas_in(directory: Path) -> Iterator[tuple[TopicPartition, Path]]:
    try:
        entries = sorted(directory.iterdir())
    except OSError as error:
        raise OperatorError(f"{directory}: {error.strerror}", "Check path and permissions.") from error
    for entry in entries:
        parsed = parse_directory_name(entry.name)
        if parsed is not None and parsed.kind is DirectoryKind.REPLICA and entry.is_dir():
            yield parsed.partition, entry


def _files(path: Path, suffix: str) -> list[tuple[int, Path]]:
    """The files of a log with a suffix, by their offsets."""
    found = []
    for entry in path.iterdir():
        parsed = parse_offset_file_name(entry.name)
        if parsed is not None and parsed[1] == suffix:
            found.append((parsed[0], entry))
    return sorted(found)


def _batches(path: Path) -> Iterator[Placed]:
    """The batches of a file; those of a torn end are left out, as a start of the node would cut them off."""
    with path.open("rb") as file:
        is_empty = path.stat().st_size == 0  # which cannot be mapped
        data = memoryview(b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return walk(data, _WHOLE_FILE)


def _end_of(path: Path) -> tuple[int, int]:
    """The leader epoch of a log's last batch, and the offset after it; -1 and -1 for an empty log."""
    for base, segment in reversed(_files(path, LOG_SUFFIX)):
        end = (-1, base)
        for placed in _batches(segment):
            end = (placed.header.leader_epoch, placed.header.next_offset)
        if end[0] >= 0:
            return end
    return -1, -1


def _open_in(name: TopicPartition, path: Path) -> Iterator[OpenTransaction]:
    for producer_id, state in _producers_of(path).items():
        if state.transaction_first_offset >= 0:
            yield OpenTransaction(
                name,
                producer_id,
                state.epoch,
                state.coordinator_epoch,
                state.transaction_first_offset,
                state.last_timestamp,
            )


def _producers_of(path: Path) -> ProducerStates:
    """The producers of a log: of its newest snapshot that can be read, and of the batches after it."""
    _, end_offset = _end_of(path)
    states, start = ProducerStates(), 0
    for offset, snapshot in reversed(_files(path, SNAPSHOT_SUFFIX)):
        if offset > end_offset:
            continue
        try:
            states, start = ProducerStates.decode(snapshot.read_bytes()), offset
        except CorruptionError:
            continue
        break
    segments = _files(path, LOG_SUFFIX)
    for (_, segment), (next_base, _) in zip(segments, [*segments[1:], (_WHOLE_FILE, path)], strict=True):
        if next_base <= start:
            continue
        for placed in _batches(segment):
            header = placed.header
            if header.base_offset >= start and header.producer_id >= 0:
                states.update(header, _marker_of(placed) if header.is_control else None)
    return states


def _marker_of(placed: Placed) -> Marker | None:
    try:
        return read_marker(placed.data)
    except CorruptionError:
        return None


def _known_in(path: Path) -> Iterator[KnownTransaction]:
    """The last state of each transactional id in a coordinator's log."""
    values: dict[str, TransactionValue] = {}
    for _, segment in _files(path, LOG_SUFFIX):
        for placed in _batches(segment):
            if placed.header.is_control:
                continue
            try:
                check_batch(placed.data, placed.header)
                for record in iterate_records(placed.data):
                    stored = decode_transaction_record(record.key, record.value)
                    if stored is None:
                        continue
                    values.pop(stored.transactional_id, None)
                    if stored.value is not None:
                        values[stored.transactional_id] = stored.value
            except CorruptionError as error:
                raise OperatorError(
                    f"{segment}, offset {placed.header.base_offset}: {error}",
                    "Name the directory of another replica; esp dump-log shows the damage.",
                ) from error
    for transactional_id, value in values.items():
        yield KnownTransaction(
            transactional_id,
            _NO_COORDINATOR,
            value.producer_id,
            value.producer_epoch,
            value.status.kafka_name,
            value.timeout_ms,
            value.start_ms,
            frozenset(TopicPartition(topic, number) for topic, numbers in value.partitions or () for number in numbers),
        )


def _missing_states(metadata: Path | None, present: set[int]) -> list[str]:
    """A line if coordinators have logs that are not here, or if that cannot be told."""
    if metadata is None:
        return [
            f"no directory holds {METADATA_PARTITION}, which tells the number of partitions of {TRANSACTIONS_TOPIC}"
        ]
    missing = sorted(_states_of(metadata) - present)
    if not missing:
        return []
    return [f"no directory holds partitions {', '.join(map(str, missing))} of {TRANSACTIONS_TOPIC}"]


def _states_of(metadata: Path) -> set[int]:
    """The partitions of the coordinators' topic, by the metadata log and its newest snapshot."""
    snapshots = sorted(metadata.glob(_CHECKPOINT_FILES))
    topics: set[object] = set()
    found: set[int] = set()
    for file in (*snapshots[-1:], *(segment for _, segment in _files(metadata, LOG_SUFFIX))):
        for placed in _batches(file):
            if placed.header.is_control:
                continue
            for record in iterate_records(placed.data):
                try:
                    decoded = decode_record(record.value or b"")
                except (UnknownRecordError, CorruptionError):
                    continue
                if isinstance(decoded, TopicRecord) and decoded.name == TRANSACTIONS_TOPIC:
                    topics.add(decoded.topic_id)
                elif isinstance(decoded, PartitionRecord) and decoded.topic_id in topics:
                    found.add(decoded.partition_id)
    return found
