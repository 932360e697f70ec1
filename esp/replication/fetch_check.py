"""The check of a fetch's position before a replica answers it: TRUNC-3, steps 2 and 5 to 8, for followers and consumers alike."""

from typing import Final, NamedTuple

from esp.model.errors import ApiError, ErrorCode
from esp.replication.replica_log import ReplicaLog

UNDEFINED: Final = -1
"""An epoch or an offset that is not known."""


class FetchOffsets(NamedTuple):
    """The offsets of a partition in the answer to a fetch: all of one moment, taken before the read (TRUNC-3.8; KAFKA-7104).

    With a ``diverging_epoch`` the answer holds these two fields and no records: from ``diverging_end_offset`` on, at the latest, the
    reader's log differs.
    """

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int
    diverging_epoch: int = UNDEFINED
    diverging_end_offset: int = UNDEFINED

    @property
    def diverges(self) -> bool:
        """True if the reader has to truncate before it gets records."""
        return self.diverging_epoch != UNDEFINED


def check_leader_epoch(asked: int, current: int) -> None:
    """Compare the leader epoch that the asker knows with this replica's, before the role is looked at (TRUNC-3.2, KAFKA-14078).

    Raises:
        ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
    """
    if asked < current:
        raise ApiError(ErrorCode.fenced_leader_epoch, f"Leader epoch {asked} is over; the current one is {current}")
    if asked > current:
        raise ApiError(
            ErrorCode.unknown_leader_epoch, f"Leader epoch {asked} is newer than {current}, the one known here"
        )


def check_position(log: ReplicaLog, fetch_offset: int, last_fetched_epoch: int) -> FetchOffsets:
    """Steps 5 to 8 of TRUNC-3.

    Args:
        log: that is to be read.
        fetch_offset: the asker's log end or position.
        last_fetched_epoch: the epoch of the record before it, -1 if the asker does not know any: then nothing can diverge.

    Raises:
        ApiError: OFFSET_OUT_OF_RANGE.
    """
    start_offset = log.log_start_offset
    end_offset = log.log_end_offset
    committed = log.high_watermark
    stable = log.last_stable_offset if log.producers.has_transactions else committed
    if fetch_offset < start_offset:
        raise _out_of_range(log, fetch_offset)
    if last_fetched_epoch != UNDEFINED:
        epoch, epoch_end = log.leader_epochs.end_offset_for(last_fetched_epoch, end_offset)
        if epoch == UNDEFINED:
            raise _out_of_range(log, fetch_offset)
        if epoch < last_fetched_epoch or epoch_end < fetch_offset:
            return FetchOffsets(committed, stable, start_offset, end_offset, epoch, epoch_end)
    if fetch_offset > end_offset:
        raise _out_of_range(log, fetch_offset)
    # Without the constructor's call: this is done for every partition of every fetch.
    return tuple.__new__(FetchOffsets, (committed, stable, start_offset, end_offset, UNDEFINED, UNDEFINED))


def _out_of_range(log: ReplicaLog, fetch_offset: int) -> ApiError:
    return ApiError(
        ErrorCode.offset_out_of_range,
        f"Offset {fetch_offset} is not within {log.log_start_offset} and {log.log_end_offset}",
    )
