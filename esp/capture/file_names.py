"""The names of captured files: ``TOPIC/dt=2026-11-26/P-FIRST-END.parquet``. Pure.

A name says which offsets a file holds: those of partition P from FIRST on, up to END, which is not included. So names alone show a gap.
"""

import datetime as dt
import re
from typing import Final, NamedTuple

from esp.consumer.messages import Partition

WORK_DIRECTORY: Final = "_work"
"""Files stand here until they get their names. Readers pass over directories whose names begin with an underscore."""

NO_DAY: Final = -1
"""The day of records whose time is before 1970, or after the year 9999."""

DAY_MS: Final = 86_400_000
_EPOCH: Final = dt.date(1970, 1, 1)
_DAYS_MOST: Final = (dt.date.max - _EPOCH).days
_NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The text that readers of such directories take for null."""
_FORM: Final = re.compile(
    rf"([^/]+)/dt=(\d{{4}}-\d\d-\d\d|{_NO_DATE})/(0|[1-9]\d*)-(0|[1-9]\d*)-([1-9]\d*)\.parquet", re.ASCII
)

_WORK_FORM: Final = re.compile(rf"{WORK_DIRECTORY}/([^/]+)-(0|[1-9]\d*)-(?:0|[1-9]\d*)-[^-/]+\.parquet", re.ASCII)


class FileName(NamedTuple):
    """The name of a file.

    Attributes:
        partition: the partition.
        first: the first offset.
        end: the offset behind the last.
        day: the day of the first record, in days since 1970 in UTC, or :data:`NO_DAY`.
    """

    partition: Partition
    first: int
    end: int
    day: int

    @property
    def path(self) -> str:
        """The path below the directory of the capture."""
        date = date_of(self.day) or _NO_DATE
        return f"{self.partition.topic}/dt={date}/{self.partition.number}-{self.first}-{self.end}.parquet"


def date_of(day: int) -> str | None:
    """The date of a day, as directories have it; None for :data:`NO_DAY`."""
    return (_EPOCH + dt.timedelta(day)).isoformat() if 0 <= day <= _DAYS_MOST else None


def parse_path(path: str) -> FileName | None:
    """Return the name that a path is; None if it is none of a captured file."""
    found = _FORM.fullmatch(path)
    if found is None:
        return None
    topic, date, number, first, end = found.groups()
    try:
        day = NO_DAY if date == _NO_DATE else (dt.date.fromisoformat(date) - _EPOCH).days
    except ValueError:
        return None
    return FileName(Partition(topic, int(number)), int(first), int(end), day) if int(first) < int(end) else None


def partition_of_work(path: str) -> Partition | None:
    """Return the partition of a file that has no name yet; None if a path is none of such a file."""
    found = _WORK_FORM.fullmatch(path)
    return None if found is None else Partition(found[1], int(found[2]))


def work_name(partition: Partition, first: int, runner: str) -> str:
    """The path of a file that has no name yet, below the directory of the capture."""
    return f"{WORK_DIRECTORY}/{partition.topic}-{partition.number}-{first}-{runner}.parquet"
