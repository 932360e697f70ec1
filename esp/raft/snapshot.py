"""Snapshot files of the metadata log: ``%020d-%010d.checkpoint``, and the bootstrap file of the same form (KIP-630).

A snapshot is a sequence of batches, offsets counted from 0: a control batch that begins with SNAPSHOT_HEADER, batches of records, a control
batch with SNAPSHOT_FOOTER.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.voters_record.v0.data import VotersRecord

from esp.model.errors import CorruptionError
from esp.raft.voters import KRAFT_VERSION, VoterSet
from esp.records.batch import check_batch, iterate_records, read_whole_header
from esp.records.builder import NewRecord, build_batch
from esp.schemas.control_records import (
    ControlEntity,
    decode_control_record,
    encode_control_record,
    kraft_version,
    snapshot_footer,
    snapshot_header,
)

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
SUFFIX: Final = ".checkpoint"

BATCH_RECORDS_MAX: Final = 1024
"""Records of one batch of a snapshot: Kafka's limit."""


class SnapshotId(NamedTuple):
    """The name of a snapshot: it holds everything below ``end_offset``; the last record of it has ``epoch`` (RAFT-30)."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The snapshot's file in the directory of the metadata log."""
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


FIRST: Final = SnapshotId(0, 0)
"""The snapshot that formatting writes: nothing but the voters."""


def build_snapshot(
    snapshot_id: SnapshotId,
    control: Sequence[ControlEntity],
    values: Sequence[bytes],
    *,
    last_contained_timestamp_ms: int,
    now_ms: int,
) -> bytes:
    """The bytes of a snapshot.

    Args:
        snapshot_id: its end offset and epoch.
        control: control records that follow the header in its batch.
        values: the records' values.
        last_contained_timestamp_ms: the timestamp of the log's last batch that is in it.
        now_ms: the time of the snapshot's own batches.
    """
    header = [snapshot_header(last_contained_timestamp_ms), *control]
    parts: list[tuple[list[NewRecord], bool]] = [(_control_records(header), True)]
    parts.extend(
        ([NewRecord(value) for value in values[start : start + BATCH_RECORDS_MAX]], False)
        for start in range(0, len(values), BATCH_RECORDS_MAX)
    )
    parts.append((_control_records([snapshot_footer()]), True))
    data = bytearray()
    offset = 0
    for records, is_control in parts:
        data += build_batch(
            records,
            base_offset=offset,
            leader_epoch=snapshot_id.epoch,
            timestamp_ms=now_ms,
            control=is_control,
        )
        offset += len(records)
    return bytes(data)


def build_first_snapshot(voters: VoterSet, now_ms: int) -> bytes:
    """The snapshot of an empty log with these voters, as ``kafka-storage format --standalone`` writes it."""
    return build_snapshot(
        FIRST,
        [kraft_version(KRAFT_VERSION), voters.to_record()],
        (),
        last_contained_timestamp_ms=now_ms,
        now_ms=now_ms,
    )


class SnapshotContents(NamedTuple):
    """The content of a snapshot."""

    voters: VoterSet | None
    """None where the voters are static and stand in no record."""
    kraft_version: int
    batches: list[memoryview]
    """The batches of records, in order."""


def read_snapshot(data: bytes) -> SnapshotContents:
    """Check a snapshot, and take it apart.

    Raises:
        CorruptionError: it is not whole, or not what was written.
    """
    voters: VoterSet | None = None
    kraft_version = 0
    batches: list[memoryview] = []
    entities: list[ControlEntity] = []
    view = memoryview(data)
    while view:
        header = read_whole_header(view)
        batch = view[: header.size]
        check_batch(batch, header)
        if header.is_control:
            entities.extend(_control_entities(batch))
        else:
            batches.append(batch)
        view = view[header.size :]
    if not entities or not isinstance(entities[0], SnapshotHeaderRecord):
        raise CorruptionError("snapshot does not begin with its header")
    if not isinstance(entities[-1], SnapshotFooterRecord):
        raise CorruptionError("snapshot does not end with its footer")
    for entity in entities:
        if isinstance(entity, VotersRecord):
            voters = VoterSet.from_record(entity)
        elif isinstance(entity, KRaftVersionRecord):
            kraft_version = entity.k_raft_version
    return SnapshotContents(voters, kraft_version, batches)


def read_voters(data: bytes) -> VoterSet:
    """The voters that a snapshot names.

    Raises:
        CorruptionError: the snapshot is not whole, or names no voters.
    """
    voters = read_snapshot(data).voters
    if voters is None:
        raise CorruptionError("snapshot names no voters")
    return voters


def _control_entities(batch: memoryview) -> Iterator[ControlEntity]:
    for record in iterate_records(batch):
        entity = decode_control_record(record.key, record.value)
        if entity is not None:
            yield entity


def _control_records(entities: Sequence[ControlEntity]) -> list[NewRecord]:
    return [NewRecord(record.value, record.key) for record in map(encode_control_record, entities)]
