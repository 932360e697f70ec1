"""The offsets that ``esp groups --reset-offsets`` gives a group, by the rules of ``kafka-consumer-groups``. Pure."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from esp.cli.kafka.answers import PartitionId
from esp.model.errors import OperatorError

_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?=.)(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)


class Target(StrEnum):
    """The kind of offset to reset to; the names of Kafka's flags."""

    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    CURRENT = "to-current"
    OFFSET = "to-offset"
    SHIFT = "shift-by"
    TIME = "to-datetime"
    FILE = "from-file"


class Bounds(NamedTuple):
    """The first offset of a partition, the offset that its next record gets, and the group's committed offset, if there is one."""

    earliest: int
    latest: int
    committed: int | None


def new_offset(target: Target, value: int, bounds: Bounds) -> int:
    """Return the offset that a partition is put to, which its log holds or is about to hold.

    Args:
        target: where it goes.
        value: for OFFSET and FILE the offset; for SHIFT how far; for TIME the offset of the first record not older, -1 if there is none.
        bounds: of the partition.

    Raises:
        ValueError: there is nothing to shift.
    """
    if target is Target.EARLIEST:
        return bounds.earliest
    if target is Target.LATEST or (target is Target.TIME and value < 0):
        return bounds.latest
    if target is Target.CURRENT:
        return bounds.latest if bounds.committed is None else bounds.committed
    if target is Target.SHIFT:
        if bounds.committed is None:
            raise ValueError("there is no committed offset to shift")
        value += bounds.committed
    return min(max(value, bounds.earliest), bounds.latest)


def parse_topics(texts: Sequence[str]) -> dict[str, frozenset[int] | None]:
    """Read ``--topic`` options, ``name`` or ``name:0,1``; return the partitions by topic, None for all of them.

    Raises:
        OperatorError: a partition is no number.
    """
    scope: dict[str, frozenset[int] | None] = {}
    for text in texts:
        name, colon, numbers = text.partition(":")
        if not colon:
            scope[name] = None
            continue
        words = [word.strip() for word in numbers.split(",")]
        if not name or not all(word.isdecimal() for word in words):
            raise OperatorError(
                f"--topic {text}: not of the form NAME or NAME:PARTITION,PARTITION", "For example --topic flights:0,1"
            )
        scope[name] = frozenset(map(int, words)) | (scope.get(name) or frozenset())
    return scope


def parse_datetime(text: str, name: str = "--to-datetime") -> int:
    """Read ``YYYY-MM-DDThh:mm:ss.sss`` with or without a zone, UTC without one; return milliseconds since the Unix epoch.

    Args:
        text: the time.
        name: of the option, for messages.

    Raises:
        OperatorError: it is not of that form.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise OperatorError(
            f"{name} {text}: {error}", "Write it like 2025-11-21T15:30:00.000, with Z or +01:00 for a zone."
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def parse_duration(text: str) -> int:
    """Read an ISO 8601 duration of days and less; return milliseconds.

    Raises:
        OperatorError: it is not of that form.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise OperatorError(
            f"--by-duration {text}: not a duration", "Write PnDTnHnMnS, for example P1D, PT30M or P1DT12H."
        )
    parts = {name: float(number) for name, number in found.groupdict(default="0").items() if name != "sign"}
    milliseconds = round(timedelta(**parts).total_seconds() * 1000)
    return -milliseconds if found["sign"] == "-" else milliseconds


Offsets = dict[str, dict[PartitionId, int]]
"""Offsets by group and partition."""


def parse_offsets_csv(text: str, groups: Sequence[str]) -> Offsets:
    """Read what :func:`format_offsets_csv` wrote.

    Args:
        text: the file.
        groups: those that were asked for, none: all; lines without a group are the only one's.

    Raises:
        OperatorError: a line is of neither form.
    """
    offsets: Offsets = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if not row:
            continue
        cells = [cell.strip() for cell in row]
        if len(cells) == 3 and len(groups) == 1:
            cells = [groups[0], *cells]
        if len(cells) != 4 or not cells[2].isdecimal() or not cells[3].isdecimal():
            raise OperatorError(
                f"--from-file: line {number} is not an offset: {','.join(row)}",
                "Write topic,partition,offset for one group, or group,topic,partition,offset for several.",
            )
        group, topic, partition, offset = cells
        if not groups or group in groups:
            offsets.setdefault(group, {})[PartitionId(topic, int(partition))] = int(offset)
    return offsets


def format_offsets_csv(offsets: Mapping[str, Mapping[PartitionId, int]]) -> Iterable[str]:
    """Yield a line for each offset, in the form that Kafka's tool exports; with the group if there are several."""
    for group, by_partition in offsets.items():
        for each, offset in sorted(by_partition.items()):
            line = f"{each.topic},{each.partition},{offset}"
            yield f"{group},{line}" if len(offsets) > 1 else line
