"""A controller's decision: records that are to be committed, and the answer once they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from esp.schemas.metadata_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)

BATCH_RECORDS_MAX: Final = 10_000
"""Records of one batch, as in Kafka; also the most that one user's request may cause."""

Reply_co = TypeVar("Reply_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[Reply_co]):
    """Records that are applied together or not at all; ``reply`` holds from the moment they are committed."""

    records: tuple[MetadataRecord, ...]
    reply: Reply_co


def divide_into_batches(records: Sequence[MetadataRecord], name: str) -> list[Sequence[MetadataRecord]]:
    """The batches that carry the records of one decision; several are held together by a metadata transaction (BRK-6).

    Args:
        records: may be none; then there is no batch.
        name: the transaction's name in the log.
    """
    if len(records) <= BATCH_RECORDS_MAX:
        return [records] if records else []
    wrapped = (BeginTransactionRecord(name=name), *records, EndTransactionRecord())
    batches: list[Sequence[MetadataRecord]] = [
        wrapped[start : start + BATCH_RECORDS_MAX] for start in range(0, len(wrapped), BATCH_RECORDS_MAX)
    ]
    assert sum(map(len, batches)) == len(wrapped), "the records of a decision are applied all or none (BRK-6)"
    return batches
