"""The requests of members to the leader, apart from the wire."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from esp.model.buffers import Buffer
from esp.model.errors import ErrorCode
from esp.share.acknowledgements import AcknowledgementBatch
from esp.share.acquiring import AcquiredRecords, AcquireMode
from esp.share.sessions import SessionKey, WantedPartition

Acknowledgements = Mapping[WantedPartition, Sequence[AcknowledgementBatch]]


class ShareAcknowledging(NamedTuple):
    """The words of a request on records that its member has."""

    key: SessionKey
    epoch: int
    words: Acknowledgements
    is_renewing: bool


class ShareFetch(NamedTuple):
    """A ShareFetch request."""

    acknowledging: ShareAcknowledging
    wanted: Sequence[WantedPartition]
    forgotten: Sequence[WantedPartition]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    mode: AcquireMode


@dataclass(slots=True)
class PartitionAnswer:
    """The answer about one partition."""

    error: ErrorCode = ErrorCode.none
    acknowledge_error: ErrorCode = ErrorCode.none
    acknowledge_message: str | None = None
    records: Buffer = b""
    acquired: Sequence[AcquiredRecords] = field(default=())


Answers = dict[WantedPartition, PartitionAnswer]
