"""A checkpoint as it stands: the batches that are planned and done, and the offsets that its query goes on from."""

from typing import Final, NamedTuple

from esp.checkpoints.batch_files import BatchOffsets, Place, check_commit, parse_batch, parse_query_id
from esp.checkpoints.checkpoint_files import CheckpointFiles
from esp.model.errors import OperatorError

METADATA: Final = "metadata"
OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
STATE: Final = "state"


class Checkpoint(NamedTuple):
    """The content of a checkpoint.

    Attributes:
        place: the directory or URL.
        query_id: of the query.
        planned: the number of the last batch whose end was written down; None before the first.
        committed: the number of the last batch that is done; None before the first.
        done: where that batch ends: the query goes on from here. None if none is done.
        under_way: where the batch ends that is planned and not done; None if there is none.
        has_state: True if the query has operators with state.
        changed_s: the time of the latest change in seconds since 1970; None where the file system does not tell.
    """

    place: str
    query_id: str
    planned: int | None
    committed: int | None
    done: BatchOffsets | None
    under_way: BatchOffsets | None
    has_state: bool
    changed_s: float | None

    @property
    def offsets(self) -> dict[Place, int]:
        """Where the query goes on, by partition. Where two sources read one partition, the lower offset."""
        found: dict[Place, int] = {}
        for _, offsets in self.done.kafka_sources() if self.done is not None else ():
            for place, offset in offsets.items():
                found[place] = min(offset, found.get(place, offset))
        return found


def check_sources(checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint of a query that has only sources of other kinds.

    Raises:
        OperatorError: it is one.
    """
    if checkpoint.done is not None and not any(True for _ in checkpoint.done.kafka_sources()):
        raise OperatorError(
            f"{checkpoint.place}: none of its sources has offsets of partitions",
            "Name the checkpoint of a query that reads by the format kafka or esp.",
        )


def read_checkpoint(files: CheckpointFiles) -> Checkpoint:
    """Return a checkpoint as its files have it.

    Raises:
        OperatorError: it is none, is not whole, or is of a form that is not known.
    """
    try:
        return _read(files)
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"{files.place} cannot be read: {error}", "Name the checkpoint of a query.") from error


def _read(files: CheckpointFiles) -> Checkpoint:
    here = {entry.name for entry in files.list("")}
    if METADATA not in here or OFFSETS not in here:
        raise OperatorError(
            f"{files.place} is no checkpoint of a streaming query: it has no {METADATA if METADATA not in here else OFFSETS}",
            "Name the directory of the query's option checkpointLocation.",
        )
    query_id = parse_query_id(f"{files.place}/{METADATA}", files.read(METADATA))
    entries = {directory: files.list(directory) for directory in (OFFSETS, COMMITS)}
    planned, committed = (
        max((int(entry.name) for entry in entries[directory] if entry.name.isdecimal()), default=None)
        for directory in (OFFSETS, COMMITS)
    )
    done = under_way = None
    if committed is not None:
        check_commit(f"{files.place}/{COMMITS}/{committed}", files.read(f"{COMMITS}/{committed}"))
        done = _read_batch(files, committed)
    if planned is not None and (committed is None or planned > committed):
        under_way = _read_batch(files, planned)
    times = [entry.changed_s for some in entries.values() for entry in some if entry.changed_s is not None]
    return Checkpoint(
        files.place, query_id, planned, committed, done, under_way, bool(files.list(STATE)), max(times, default=None)
    )


def _read_batch(files: CheckpointFiles, number: int) -> BatchOffsets:
    path = f"{OFFSETS}/{number}"
    return parse_batch(f"{files.place}/{path}", files.read(path))
