"""Records that are written into the log of a stopped node: states that its coordinator would leave if it ended at a certain moment."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch


class LogEnd(NamedTuple):
    """The end of a partition's log."""

    path: Path
    """The path of the newest segment."""
    offset: int
    leader_epoch: int


def find_log_end(directory: Path) -> LogEnd:
    """The end of the log in a partition's directory, from the batches of its newest segment."""
    path = max(directory.glob("*.log"))
    data, offset, leader_epoch = memoryview(path.read_bytes()), int(path.stem), 0
    while data:
        header = read_header(data)
        offset, leader_epoch = header.next_offset, header.leader_epoch
        data = data[header.size :]
    return LogEnd(path, offset, leader_epoch)


def append_offline(directory: Path, records: Sequence[NewRecord], timestamp_ms: int) -> None:
    """Append a batch of a leader's own to the log in a partition's directory; no node may run on it."""
    end = find_log_end(directory)
    with end.path.open("ab") as log:
        log.write(
            build_batch(records, base_offset=end.offset, leader_epoch=end.leader_epoch, timestamp_ms=timestamp_ms)
        )
