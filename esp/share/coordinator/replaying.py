"""The records of the log, before the coordinator serves.

The log begins anywhere: what was cut off it is not needed by anything that lives (SHARE-22), but parts of what nothing needs may be left,
such as updates whose snapshot is gone. Updates of another snapshot than the newest before them do not count.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from esp.schemas.share_state_record_codec import decode_share_state_record
from esp.schemas.share_state_records import ShareSnapshotRecord, ShareSnapshotValue, ShareStateKey, ShareUpdateValue
from esp.share.coordinator.draft import Snapshot
from esp.share.coordinator.entries import Entry
from esp.share.coordinator.state import replayed


@dataclass(slots=True)
class _Found:
    offset: int
    snapshot: ShareSnapshotValue
    updates: list[ShareUpdateValue] = field(default_factory=list)


class Replay:
    """Takes the records in, in the order of the log."""

    def __init__(self) -> None:
        self.end_offset = 0
        """The offset after the last record."""
        self.orphans: set[ShareStateKey] = set()
        """Share partitions that have updates at the end of the log and no snapshot: their state is lost."""
        self._found: dict[ShareStateKey, _Found] = {}

    def add(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take in a record. Those of types that are not known are skipped.

        Raises:
            CorruptionError: the record is malformed, or its version is not known.
        """
        self.end_offset = offset + 1
        record = None if key is None else decode_share_state_record(key, value)
        if record is None:
            return
        if not isinstance(record, ShareSnapshotRecord):
            found = self._found.get(record.key)
            if found is None:
                self.orphans.add(record.key)
            elif record.value.snapshot_epoch == found.snapshot.snapshot_epoch:
                found.updates.append(record.value)
            return
        self.orphans.discard(record.key)
        if record.value is None:
            self._found.pop(record.key, None)
        else:
            self._found[record.key] = _Found(offset, record.value)

    def entries(self, now_us: int) -> Iterator[Entry]:
        """What the records make up."""
        for key, found in self._found.items():
            snapshot = found.snapshot
            yield Entry(
                key,
                replayed(snapshot, found.updates),
                Snapshot(snapshot.snapshot_epoch, snapshot.create_timestamp_ms),
                found.offset,
                now_us,
                len(found.updates),
                # Of the first snapshot alone nothing tells whether it was read. Its leader reads it again if its first write is refused.
                is_read=snapshot.snapshot_epoch > 0 or bool(found.updates),
            )
