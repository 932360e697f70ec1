"""Producer snapshots beside a log's segments: written at rolls and clean shutdowns, loaded at start and after truncations (PROD-7..9).

Once a log was loaded, a snapshot stands at the base of each segment behind the newest whole snapshot, but for the first one's: retention
may make any of these segments the first, and nothing else would know the producers of the segments before it.
"""

import logging
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from esp.model.errors import CorruptionError
from esp.ports.disk import Disk
from esp.records.batch_header import BatchHeader
from esp.records.transaction_marker import find_marker
from esp.settings.setting import LONG_MAX
from esp.storage.layout import SNAPSHOT_SUFFIX, offset_file_name, parse_offset_file_name
from esp.storage.producer_state import CompletedTransaction, ProducerStates
from esp.storage.segment import Segment
from esp.storage.segment_recovery import NoteRot, iterate_known_headers_blocking
from esp.storage.segments import Segments
from esp.storage.steps import read_blocking

_logger = logging.getLogger(__name__)

OLDER_BATCHES_WINDOW_BYTES: Final = 64 * 1024 * 1024
"""The size of the log's end that is searched for batches missing in a snapshot: far more than a producer's five requests in flight."""


def snapshot_path(directory: str, offset: int) -> str:
    """The path of the snapshot of the state up to ``offset``."""
    return f"{directory}/{offset_file_name(offset, SNAPSHOT_SUFFIX)}"


def snapshot_offsets(disk: Disk, directory: str) -> list[int]:
    """The offsets of the snapshots that are there, rising."""
    parsed = map(parse_offset_file_name, disk.listdir(directory))
    return [entry[0] for entry in parsed if entry is not None and entry[1] == SNAPSHOT_SUFFIX]


def remove_snapshots(disk: Disk, directory: str, *, above: int, below: int) -> bool:
    """Remove snapshots that say nothing of the segments that hold ``[below, above]``: of offsets beyond them; return if there were any.

    The one at the base of the first segment stays, also where the log starts there or behind it, beyond Kafka: nothing else knows the
    producers of which retention has left no batch, and to a log that forgot them they may send any sequence (PROD-2).
    """
    return _remove(
        disk, directory, [offset for offset in snapshot_offsets(disk, directory) if offset > above or offset < below]
    )


def remove_unproven_snapshots(disk: Disk, directory: str, recovery_point: int, first_base: int) -> bool:
    """After an unclean stop, remove snapshots beyond the recovery point; return if there were any.

    Nothing says that they are of the batches that stand there now.

    A power loss undoes the removal of a snapshot where the device has not kept what was synced; by then other batches may stand below the
    snapshot's offset (PROD-9). The recovery point is lowered before snapshots are removed, and rises after a sync of the directory.

    Args:
        disk: where the log lives.
        directory: the replica's.
        recovery_point: as it was checkpointed.
        first_base: the base of the first segment; the snapshot there stays, as with :func:`remove_snapshots`.
    """
    unproven = [
        offset for offset in snapshot_offsets(disk, directory) if offset > recovery_point and offset != first_base
    ]
    return _remove(disk, directory, unproven)


def remove_stray_snapshots(disk: Disk, directory: str, bases: Collection[int]) -> bool:
    """Remove all snapshots but the newest and those at the base of a segment; return if there were any."""
    return _remove(
        disk, directory, [offset for offset in snapshot_offsets(disk, directory)[:-1] if offset not in bases]
    )


def _remove(disk: Disk, directory: str, offsets: list[int]) -> bool:
    for offset in offsets:
        disk.remove(snapshot_path(directory, offset))
    return bool(offsets)


class LogEnd(NamedTuple):
    """The end of a log: the number of its last segment, the bytes of it that count, and the offset that comes next."""

    number: int
    size: int
    offset: int


class LoadedProducers(NamedTuple):
    """The producers of a log, read anew."""

    states: ProducerStates
    """The state at the log end."""
    ended: list[CompletedTransaction]
    """The transactions that ended at or after the offset from which on they were asked for."""
    written: list[str]
    """The paths of the snapshots that were missing and stand there now, not synced yet."""


def load_producers_blocking(
    disk: Disk,
    directory: str,
    segments: Segments,
    end: LogEnd,
    high_watermark: int,
    now_ms: int | None,
    expiration_ms: int,
    note_rot: NoteRot,
    unindexed_from: int = LONG_MAX,
) -> LoadedProducers:
    """The state at ``end``: the newest snapshot up to there that is whole, and the batches since (PROD-9).

    Each batch is compared with its checksum, as what a header says of producers outlasts it (REC-4); all of its bytes are read anyway.

    Args:
        disk: where the log lives.
        directory: the replica's.
        segments: all of the log.
        end: the log's end, or the place at which it is about to be cut.
        high_watermark: a transaction whose marker is at or above it is still unstable (LSO-1).
        now_ms: producers that are expired by then are left out; None: none are.
        expiration_ms: see :meth:`ProducerStates.expire`.
        note_rot: told of batches that have rotted, of which nothing is believed.
        unindexed_from: the base of the first segment whose transaction index is to be made anew.
    """
    start, states = _load_newest(disk, directory, segments[0].base_offset, end.offset)
    if now_ms is not None:
        states.expire(now_ms, expiration_ms)
    before = min(high_watermark, unindexed_from)
    ended = _ended_between_blocking(disk, directory, segments, before, start, note_rot)
    for completed in ended:
        states.note_uncommitted(completed.first_offset, completed.last_offset)
    written: list[str] = []
    folded_to = start
    for segment in list(segments)[1 : end.number + 1]:
        path = segment.path(SNAPSHOT_SUFFIX)
        if segment.base_offset > folded_to and not disk.exists(path):
            ended += _fold_blocking(states, segments, folded_to, note_rot, segment.base_offset)
            folded_to = segment.base_offset
            written += _write_blocking(disk, path, states)
    ended += _fold_blocking(states, segments, folded_to, note_rot, end.offset)
    states.first_unstable_offset(high_watermark)  # forgets the transactions whose markers are committed
    if len(states):
        states.add_older(
            header
            for _segment, _position, header in _batches_from_blocking(
                segments, _window_start(segments, end), note_rot, end_offset=start
            )
            if header.producer_id >= 0
        )
    return LoadedProducers(states, [each for each in ended if each.last_offset >= unindexed_from], written)


def _write_blocking(disk: Disk, path: str, states: ProducerStates) -> list[str]:
    """Write a snapshot; returns its path, and nothing if the device does not take it: the log can do without."""
    try:
        disk.write_file(path, states.encode())
    except OSError as error:
        _logger.warning("%s cannot be written: %s", path, error)
        with suppress(OSError):
            disk.remove(path)
        return []
    return [path]


def _fold_blocking(
    states: ProducerStates, segments: Segments, start: int, note_rot: NoteRot, end_offset: int | None = None
) -> Iterator[CompletedTransaction]:
    """Take in the batches that begin in ``[start, end_offset)``; yield each transaction that one of them ends."""
    for segment, position, header in _batches_from_blocking(segments, start, note_rot, end_offset):
        if header.producer_id >= 0 and header.base_offset >= start:
            marker = None
            if header.is_control:
                marker = find_marker(segment.file.read_blocking(position, header.size))
            completed = states.update(header, marker)
            if completed is not None:
                yield completed


def _ended_between_blocking(
    disk: Disk, directory: str, segments: Segments, start: int, end_offset: int, note_rot: NoteRot
) -> list[CompletedTransaction]:
    """The transactions with a marker in ``[start, end_offset)``, which the snapshot at ``end_offset`` does not show.

    Markers there are rare: only then the batches before them are read, from the newest snapshot at or below ``start`` on.
    """
    if start >= end_offset or not any(
        header.is_control and header.producer_id >= 0 and header.base_offset >= start
        for _segment, _position, header in _batches_from_blocking(segments, start, note_rot, end_offset)
    ):
        return []
    snapshot_offset, states = _load_newest(disk, directory, segments[0].base_offset, start)
    return [
        completed
        for completed in _fold_blocking(states, segments, snapshot_offset, note_rot, end_offset)
        if completed.last_offset >= start
    ]


def _load_newest(disk: Disk, directory: str, at_least: int, at_most: int) -> tuple[int, ProducerStates]:
    for offset in reversed(snapshot_offsets(disk, directory)):
        if not at_least <= offset <= at_most:
            continue
        path = snapshot_path(directory, offset)
        try:
            return offset, ProducerStates.decode(disk.read_file(path))
        except CorruptionError as error:
            _logger.warning("%s is removed and an older snapshot used: %s", path, error)
            disk.remove(path)
    return 0, ProducerStates()


def _window_start(segments: Segments, end: LogEnd) -> int:
    """An offset from which on the log holds about the window's bytes, or the segment's base before it."""
    left = OLDER_BATCHES_WINDOW_BYTES
    for number in range(end.number, -1, -1):
        segment = segments[number]
        size = end.size if number == end.number else segment.size
        if size > left:
            indexes = read_blocking(segments.load_indexes(segment))
            place = indexes.offsets.count_within(segment.last_offset_max, size - left)
            return indexes.offsets.entry(place - 1)[0] if place else segment.base_offset
        left -= size
    return segments[0].base_offset


def _batches_from_blocking(
    segments: Segments, start: int, note_rot: NoteRot, end_offset: int | None = None
) -> Iterator[tuple[Segment, int, BatchHeader]]:
    """The places and headers of all sound batches that end at or after ``start`` and begin below ``end_offset``."""
    for number in range(segments.floor(start), len(segments)):
        segment = segments[number]
        if end_offset is not None and segment.base_offset >= end_offset:
            return
        position = 0
        if start > segment.base_offset and segment.size:
            indexes = read_blocking(segments.load_indexes(segment))
            position = read_blocking(segment.find_place(indexes, start))
        for place, header in iterate_known_headers_blocking(segment.file, position, segment.size, note_rot):
            if end_offset is not None and header.base_offset >= end_offset:
                return
            if header.last_offset >= start:
                yield segment, place, header
