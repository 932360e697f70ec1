"""What a leader may delete of its log because somebody asks (DeleteRecords, KIP-107)."""

from typing import Final

from esp.model.errors import ApiError, ErrorCode
from esp.replication.replica_log import ReplicaLog

ALL_COMMITTED: Final = -1
"""In place of an offset: up to the high watermark."""


def delete_records(log: ReplicaLog, offset: int) -> int:
    """Hide everything below ``offset`` in the log of a partition's leader; return the offset that is meant.

    Raises:
        ApiError: POLICY_VIOLATION if the topic is compacted only, OFFSET_OUT_OF_RANGE if not all of that is committed; nothing was hidden.
    """
    if "delete" not in log.settings.cleanup_policy:
        raise ApiError(ErrorCode.policy_violation)
    start_offset = log.high_watermark if offset == ALL_COMMITTED else offset
    if not 0 <= start_offset <= log.high_watermark:
        raise ApiError(ErrorCode.offset_out_of_range)
    log.raise_log_start(start_offset)
    assert start_offset <= log.log_start_offset <= log.high_watermark, "what was asked for is hidden (LOG-12)"
    return start_offset
