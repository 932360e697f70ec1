"""Setting a query back: other offsets in the file of the last batch that is done, from which the next batch goes on.

Batch numbers go on. If batches were deleted instead, Spark would use their numbers again, and a sink that knows these numbers skips what
comes under them without a word. Pure, but for :func:`set_back`.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from esp.checkpoints.batch_files import Place, write_batch, write_offsets
from esp.checkpoints.checkpoint import OFFSETS, Checkpoint
from esp.checkpoints.checkpoint_files import CheckpointFiles
from esp.model.errors import OperatorError

QUIET_S: Final = 10.0
"""A query whose checkpoint was changed within that time is taken for one that runs."""

COPIES_OF_ONE_SUFFIX: Final = 100
"""So many copies of a checkpoint can be made within one second, the unit of their names."""


class Change(NamedTuple):
    """A partition that is set back from one offset to a lower one."""

    place: Place
    before: int
    after: int


def check_can_be_set_back(checkpoint: Checkpoint, now_s: float) -> None:
    """Refuse a checkpoint that cannot be set back now.

    Raises:
        OperatorError: no batch is done; its sources are not Kafka's; a batch is under way; the query runs.
    """
    place = checkpoint.place
    if checkpoint.under_way is not None:
        raise OperatorError(
            f"{place}: batch {checkpoint.planned} is planned and not done",
            "Start the query, let it finish that batch, stop it, and try again.",
        )
    if checkpoint.done is None:
        raise OperatorError(
            f"{place}: no batch is done yet", "Use the query's option startingOffsets, and a new checkpoint."
        )
    if not checkpoint.offsets:
        raise OperatorError(
            f"{place}: none of its sources has offsets of partitions",
            "Only sources of the formats kafka and esp can be set back.",
        )
    if checkpoint.changed_s is not None and now_s - checkpoint.changed_s < QUIET_S:
        raise OperatorError(
            f"{place}: it was changed {max(0.0, now_s - checkpoint.changed_s):.0f} s ago: its query seems to run",
            f"Stop the query, wait {QUIET_S:.0f} s, and try again.",
        )


def check_has_no_state(checkpoint: Checkpoint, wanted: Mapping[Place, int]) -> None:
    """Refuse a query with state: records that come again would count twice in it.

    Raises:
        OperatorError: it has some; the remedy names the offsets for a new checkpoint.
    """
    if checkpoint.has_state:
        offsets = write_offsets({**checkpoint.offsets, **wanted})
        raise OperatorError(
            f"{checkpoint.place}: its query has state, in which records that come again would count twice",
            f"Give the query a new checkpoint, with the option startingOffsets={offsets}",
        )


def plan_to_offsets(
    current: Mapping[Place, int], wanted: Mapping[Place, int], earliest: Mapping[Place, int]
) -> list[Change]:
    """Decide the changes to offsets that an operator names.

    Args:
        current: where the query goes on.
        wanted: where it shall go on; partitions that are not named stay.
        earliest: the first offset of each partition that is there; a partition that is missing here is not there any more.

    Raises:
        OperatorError: a partition is not the query's, or its records are not there any more, or would be left out.
    """
    for place, offset in sorted(wanted.items()):
        if place not in current:
            raise OperatorError(
                f"{place} is not read by the query", f"It reads {', '.join(map(str, sorted(current)))}."
            )
        if offset > current[place]:
            raise OperatorError(
                f"{place}: {offset} is ahead of {current[place]}, where the query goes on: what lies between would be left out",
                "Name an offset that is not higher.",
            )
        if place in earliest and offset < earliest[place]:
            raise OperatorError(
                f"{place}: the records from {offset} on are gone; the first one that is there is {earliest[place]}",
                f"Name {earliest[place]} or more, or use --to earliest.",
            )
    return [
        Change(place, current[place], offset) for place, offset in sorted(wanted.items()) if offset < current[place]
    ]


def plan_back_to(current: Mapping[Place, int], found: Mapping[Place, int]) -> list[Change]:
    """Decide the changes to offsets that a time or a word stands for: a partition that is not that far yet stays.

    Args:
        current: where the query goes on.
        found: the offset of each partition that is there; -1 where no record is as late.
    """
    return [
        Change(place, offset, found[place])
        for place, offset in sorted(current.items())
        if place in found and 0 <= found[place] < offset
    ]


def set_back(files: CheckpointFiles, checkpoint: Checkpoint, changes: list[Change], suffix: str) -> str:
    """Copy a checkpoint, then change the offsets in it; returns the place of the copy.

    Args:
        files: the checkpoint's.
        checkpoint: as it was read; :func:`check_can_be_set_back` has passed it.
        changes: the partitions.
        suffix: what the copy's name is longer by; a number follows it where an earlier copy has that name.

    Raises:
        OperatorError: it cannot be copied or written.
    """
    assert checkpoint.done is not None
    batch = checkpoint.done.with_offsets({change.place: change.after for change in changes})
    try:
        copied = _copy(files, suffix)
        files.replace(f"{OFFSETS}/{checkpoint.committed}", write_batch(batch))
    except OSError as error:
        raise OperatorError(f"{files.place} cannot be changed: {error}", "See whether you may write there.") from error
    return copied


def _copy(files: CheckpointFiles, suffix: str) -> str:
    for name in (suffix, *(f"{suffix}-{number}" for number in range(2, COPIES_OF_ONE_SUFFIX))):
        with suppress(FileExistsError):
            return files.copy(name)
    return files.copy(f"{suffix}-{COPIES_OF_ONE_SUFFIX}")
