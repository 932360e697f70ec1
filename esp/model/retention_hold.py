"""The part of a log that its readers keep against retention by time and size (HOLD-1), as leaders and logs speak of it."""

from typing import Final, NamedTuple

NO_CAP: Final = -1
"""The value of a cap that does not count."""

CAP_MS: Final = "retention.hold.max.ms"
CAP_BYTES: Final = "retention.hold.max.bytes"
DELETE_RECORDS: Final = "DeleteRecords"
DELETE_TOPICS: Final = "DeleteTopics"
BREAKERS: Final = (CAP_MS, CAP_BYTES, DELETE_RECORDS, DELETE_TOPICS)
"""The settings and the requests of administrators that end holds."""


class RetentionHold(NamedTuple):
    """Segments with an offset from ``from_offset`` on stay, though retention would take them, until a cap says otherwise."""

    from_offset: int
    max_ms: int = NO_CAP
    """The age above which nothing is held, measured as retention measures it."""
    max_bytes: int = NO_CAP
    """The size of the log above which its oldest segments are not held."""


WHOLE_LOG: Final = RetentionHold(0)
"""Nothing goes by time and size: the hold of a replica that may not judge."""


class BrokenHold(NamedTuple):
    """Offsets that were held, and went."""

    cap: str
    """The setting that let them go, or the request."""
    from_offset: int
    end_offset: int


class DroppedFront(NamedTuple):
    """The front of a log that retention has hidden, and that :meth:`esp.storage.log.Log.drop_segments` drops."""

    start_offset: int
    """Where the log starts now."""
    broken: tuple[BrokenHold, ...] = ()
