"""Acknowledgements as members send them: ranges of offsets, with one type for all or one for each offset."""

from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import groupby, islice
from operator import attrgetter
from typing import Final, NamedTuple

from esp.model.errors import ApiError, ErrorCode
from esp.share.record_states import RecordEvent

SLICE_BATCHES: Final = 128
"""Batches that are looked at between two yields: some tens of microseconds."""

_SLICE_TYPES: Final = 2_048
"""The same for the types of one batch."""


class AcknowledgeType(IntEnum):
    """The member's word on a record, by Kafka's numbers."""

    GAP = 0
    """It is not in the log."""
    ACCEPT = 1
    RELEASE = 2
    """Another attempt is wanted."""
    REJECT = 3
    """No attempt can help."""
    RENEW = 4
    """The member needs more time; only where the request says that it renews (version 2)."""


class AcknowledgementBatch(NamedTuple):
    """The member's word on a range of offsets."""

    start_offset: int
    last_offset: int
    types: Sequence[int]
    """One for all offsets, or one for each."""


class Acknowledged(NamedTuple):
    """Neighbours with the same word."""

    start_offset: int
    end_offset: int
    type: AcknowledgeType


_EVENTS = {
    AcknowledgeType.GAP: RecordEvent.DISCARD,
    AcknowledgeType.ACCEPT: RecordEvent.ACCEPT,
    AcknowledgeType.RELEASE: RecordEvent.RELEASE,
    AcknowledgeType.REJECT: RecordEvent.REJECT,
    AcknowledgeType.RENEW: RecordEvent.RENEW,
}


def event_of(type_: AcknowledgeType) -> RecordEvent:
    """The event that a member's word is."""
    return _EVENTS[type_]


def require_valid_acknowledgements(
    batches: Sequence[AcknowledgementBatch], start_offset: int, acquired_end_offset: int, *, allows_renew: bool
) -> Generator[None, None, None]:
    """Refuse what no member may send for a partition; nothing of it counts then (SHARE-8). Yields after each slice.

    Args:
        batches: the words of a member.
        start_offset: the first offset that is not done with.
        acquired_end_offset: the end of what was ever acquired.
        allows_renew: whether the request says that it renews.

    Raises:
        ApiError: INVALID_REQUEST; INVALID_RECORD_STATE, two things are said of one offset.
    """
    last_offset = 0
    problem: ApiError | None = None  # the first one that Kafka sees once all batches have the right form
    for number, batch in enumerate(batches, 1):
        if not number % SLICE_BATCHES:
            yield
        if not last_offset <= batch.start_offset <= batch.last_offset:
            raise _invalid(
                f"The acknowledgement batch from offset {batch.start_offset} to {batch.last_offset} is reversed, or not behind the one "
                "before it."
            )
        size = batch.last_offset - batch.start_offset + 1
        if len(batch.types) not in (1, size):
            raise _invalid(
                f"The acknowledgement batch from offset {batch.start_offset} has {len(batch.types)} types for {size} records."
            )
        for place in range(0, len(batch.types), _SLICE_TYPES):
            if place:
                yield
            _require_known(batch.types[place : place + _SLICE_TYPES], allows_renew=allows_renew)
        if problem is None and batch.last_offset >= acquired_end_offset:
            problem = _invalid(
                f"Offset {batch.last_offset} is past acquired records, which end before {acquired_end_offset}."
            )
        elif problem is None and start_offset <= batch.start_offset == last_offset and number > 1:
            twice = f"The request says two things of offset {last_offset}."
            problem = ApiError(ErrorCode.invalid_record_state, twice)
        last_offset = batch.last_offset
    if problem is not None:
        raise problem


def _require_known(types: Sequence[int], *, allows_renew: bool) -> None:
    for type_ in (min(types), max(types)):
        if not AcknowledgeType.GAP <= type_ <= AcknowledgeType.RENEW:
            raise _invalid(f"Acknowledgement type {type_} is not known.")
    if AcknowledgeType.RENEW in types and not allows_renew:
        raise _invalid("The request renews records, and does not say so in IsRenewAck.")


def words_from(batches: Sequence[AcknowledgementBatch], start_offset: int) -> Iterator[tuple[Acknowledged | None, int]]:
    """The words of valid batches on offsets from this one on, no more of them than it takes.

    With each comes the number of pieces that it took. Where ``SLICE_BATCHES`` pieces have come to no end of a word, None comes in between.
    """
    first = bisect_left(batches, start_offset, key=attrgetter("last_offset"))
    return _joined(word for batch in islice(batches, first, None) for word in _in_pieces(batch, start_offset))


def _in_pieces(batch: AcknowledgementBatch, start_offset: int) -> Iterator[Acknowledged]:
    """A batch in pieces of one type, from this offset on."""
    first = max(batch.start_offset, start_offset)
    end = batch.last_offset + 1
    if first >= end:
        return
    if len(batch.types) == 1:
        yield Acknowledged(first, end, AcknowledgeType(batch.types[0]))
        return
    offset = first
    for number, run in groupby(batch.types[first - batch.start_offset :]):
        size = sum(1 for _ in run)
        yield Acknowledged(offset, offset + size, AcknowledgeType(number))
        offset += size


def _joined(words: Iterable[Acknowledged]) -> Iterator[tuple[Acknowledged | None, int]]:
    """The words with neighbours of one type joined, as members send one batch for each record; see :func:`words_from`."""
    last: Acknowledged | None = None
    pieces = 0
    for word in words:
        if pieces == SLICE_BATCHES:
            yield None, pieces
            pieces = 0
        if last is not None and last.end_offset == word.start_offset and last.type is word.type:
            last = Acknowledged(last.start_offset, word.end_offset, last.type)
            pieces += 1
            continue
        if last is not None:
            yield last, pieces
        last, pieces = word, 1
    if last is not None:
        yield last, pieces


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, message)
