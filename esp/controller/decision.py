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


def divide_into_batches(
    records: Sequence[MetadataRecord], name: str, batch_records_max: int = BATCH_RECORDS_MAX
) -> list[Sequence[MetadataRecord]]:
    """The batches that carry the records of one decision; several are held together by a metadata transaction (BRK-6).

    Args:
        records: may be none; then there is no batch. They may be a transaction already, as the first ones of a cluster are.
        name: the transaction's name in the log.
        batch_records_max: the most records of one batch.
    """
    if len(records) <= batch_records_max:
        return [records] if records else []
    wrapped = tuple(records)
    if not isinstance(records[0], BeginTransactionRecord):
        wrapped = (BeginTransactionRecord(name=name), *records, EndTransactionRecord())
    batches: list[Sequence[MetadataRecord]] = [
        wrapped[start : start + batch_records_max] for start in range(0, len(wrapped), batch_records_max)
    ]
    assert sum(map(len, batches)) == len(wrapped), "the records of a decision are applied all or none (BRK-6)"
    return batches
