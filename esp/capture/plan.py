"""The plan of a capture: what a runner captures, and how."""

from dataclasses import dataclass, field

from esp.capture.cutting import Limits
from esp.consumer.cluster import Address
from esp.consumer.connection import Terms
from esp.options.value_options import ValueOptions


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """A capture, and the way in which a runner does it.

    Attributes:
        name: of the capture.
        topics: the topics.
        place: the directory, a path or a URL.
        servers: the bootstrap servers.
        terms: of connections.
        limits: of files.
        values: how values become columns.
        threads: as many partitions are captured at once.
        is_once: whether the capture ends where the topics end at its start.
        skips_lost: whether records that were deleted before they were captured are passed over.
        has_tables: whether the files of each topic are a Delta table.
    """

    name: str
    topics: tuple[str, ...]
    place: str
    servers: tuple[Address, ...]
    terms: Terms = field(default_factory=Terms)
    limits: Limits = field(default_factory=Limits)
    values: ValueOptions = field(default_factory=ValueOptions)
    threads: int = 2
    is_once: bool = False
    skips_lost: bool = False
    has_tables: bool = False
