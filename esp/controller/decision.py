"""A controller's decision: records that are to be committed, and the answer once they are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from esp.controller.image import ClusterImage
from esp.schemas.metadata_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)

BATCH_RECORDS_MAX: Final = 10_000
"""Records of one batch, as in Kafka; also the most that one user's request may cause."""

SLICE_CHANGES_MAX: Final = 500
"""Partitions that one slice of a decision changes: some milliseconds of work."""

Reply_co = TypeVar("Reply_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[Reply_co]):
    """Records that are applied together or not at all; ``reply`` holds from the moment they are committed.

    A decision that changes very many partitions is made in slices, each on the newest state, with other decisions in between. The reply
    then holds from the moment the last slice is committed; those of the slices before it mean nothing.
    """

    records: tuple[MetadataRecord, ...]
    reply: Reply_co
    rest: "Callable[[ClusterImage], Decision[Reply_co]] | None" = None
    """Decides the next slice; None if this is the last one."""


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
