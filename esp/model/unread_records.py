"""The records of a partition that a reader has not read: their number, their age, and how long they will be there. Pure."""

from typing import NamedTuple


class Retention(NamedTuple):
    """The bounds of a partition's retention, or of a hold; None: there is none of the kind."""

    age_ms: int | None = None
    size_bytes: int | None = None


class HeldRecords(NamedTuple):
    """A partition as a cluster holds it.

    Attributes:
        earliest: its first offset.
        end: the offset that its next record gets.
        retention: its bounds.
        size_bytes: the size of its log; None: not known.
        hold: the bounds up to which unread records are held for the reader (HOLD-3); None: they are not held.
    """

    earliest: int
    end: int
    retention: Retention = Retention()
    size_bytes: int | None = None
    hold: Retention | None = None

    def first_unread(self, offset: int) -> int | None:
        """The offset of the first record that is here and that a reader at an offset has not read; None: there is none."""
        first = max(offset, self.earliest)
        return first if first < self.end else None


class Unread(NamedTuple):
    """The records of a partition that a reader has not read; None for what is not known.

    Attributes:
        lag: the number of offsets.
        behind_ms: the age of the first record that is there.
        loss_ms: the time until retention may delete that record; negative: it may at any moment.
        note: what is wrong, in words; empty if nothing is.
    """

    lag: int | None
    behind_ms: int | None
    loss_ms: int | None
    note: str


def judge_unread(offset: int | None, held: HeldRecords | None, first_ms: int | None, now_ms: int) -> Unread:
    """Return what a reader has not read of a partition.

    Args:
        offset: the offset that it goes on from; None: it has none.
        held: the partition; None: it is not there.
        first_ms: the timestamp of the first unread record, in milliseconds since 1970; None: not known.
        now_ms: the time, likewise.
    """
    if held is None:
        return Unread(None, None, None, "the partition is not there any more")
    if offset is None:
        return Unread(None, None, None, "")
    lag = max(0, held.end - offset)
    behind_ms = None if first_ms is None else now_ms - first_ms
    loss_ms = None if behind_ms is None else _loss(held, held.retention, offset, behind_ms)
    if loss_ms is not None and behind_ms is not None and held.hold is not None:
        cap_ms = _loss(held, held.hold, offset, behind_ms)
        loss_ms = None if cap_ms is None else max(loss_ms, cap_ms)
    return Unread(lag, behind_ms, loss_ms, _note(offset, held))


def _loss(held: HeldRecords, bounds: Retention, offset: int, behind_ms: int) -> int | None:
    """The time until the first unread record is beyond one of the bounds."""
    by_age = None if bounds.age_ms is None else bounds.age_ms - behind_ms
    by_size = None if bounds.size_bytes is None else _loss_by_size(held, bounds.size_bytes, offset, behind_ms)
    return min((each for each in (by_age, by_size) if each is not None), default=None)


def _loss_by_size(held: HeldRecords, allowed: int, offset: int, behind_ms: int) -> int | None:
    """The time until as many bytes have followed the first unread record as are kept, if they come as they came since that record.

    The bytes behind a record are taken to be spread evenly over the offsets.
    """
    size, first = held.size_bytes, held.first_unread(offset)
    if not size or first is None:
        return None
    unread = max(1, size * (held.end - first) // (held.end - held.earliest))
    return (allowed - unread) * max(0, behind_ms) // unread


def _note(offset: int, held: HeldRecords) -> str:
    if offset > held.end:
        return "beyond the end: the topic was deleted and created again, or lost records"
    if offset < held.earliest:
        return f"{held.earliest - offset} unread records are gone"
    return ""
