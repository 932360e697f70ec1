"""Dates and timestamps in texts, as Spark casts them: more forms than ISO 8601 has, years beyond 9999, zones by name.

Not taken is a time without a date, which Spark takes for today's.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from esp.values.errors import SchemaError

MICROSECONDS: Final = 1_000_000
_DAY_US: Final = 86_400 * MICROSECONDS
_FIRST_US: Final = -719_162 * _DAY_US
"""The beginning of the year 1, the first that :class:`datetime.datetime` has."""
_END_US: Final = 2_932_897 * _DAY_US
"""The end of the year 9999, the last one."""
_CYCLE_US: Final = 146_097 * _DAY_US
"""400 years."""
_LONG_MOST: Final = 2**63 - 1
_INT_MOST: Final = 2**31 - 1

_TRIMMED: Final = "".join(map(chr, (*range(33), 127)))
_DATE: Final = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP: Final = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9.].*)?)?)?)?)?)?",
    re.DOTALL,
)
_OFFSET: Final = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{2}))?)?|([0-9]{2})([0-9]{2})([0-9]{2})?)"
)
_OFFSET_MOST_S: Final = 18 * 3600
_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def find_zone(name: str) -> tzinfo | None:
    """Return a time zone by Java's names: ``Z``, ``+01:00``, ``UTC+1``, ``Europe/Paris``; None if it is none."""
    return _find_zone(name.strip(_TRIMMED))


@lru_cache(maxsize=256)
def _find_zone(name: str) -> tzinfo | None:
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    found = _OFFSET.fullmatch(name)
    if found is not None:
        hours, minutes, seconds = (
            int(part or 0) for part in (found[2] or found[5], found[3] or found[6], found[4] or found[7])
        )
        offset_s = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or offset_s > _OFFSET_MOST_S:
            return None
        return timezone(timedelta(seconds=-offset_s if found[1] == "-" else offset_s))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no such zone, or no name of one
        return None


def require_zone(name: str) -> tzinfo:
    """Return a time zone.

    Raises:
        SchemaError: no zone has the name.
    """
    zone = find_zone(name)
    if zone is None:
        raise SchemaError("it is no time zone: write a name as Europe/Paris, or an offset as +01:00")
    return zone


def parse_date(text: str) -> int | None:
    """Return the days since 1970, or None: ``yyyy``, ``yyyy-m``, ``yyyy-m-d``, the last with any text behind a space or a ``T``."""
    found = _DATE.fullmatch(text.strip(_TRIMMED))
    if found is None:
        return None
    days = _days(-int(found[2]) if found[1] == "-" else int(found[2]), int(found[3] or 1), int(found[4] or 1))
    return days if days is not None and abs(days) <= _INT_MOST else None


def parse_timestamp(text: str, zone: tzinfo) -> int | None:
    """Return the microseconds since 1970, or None.

    Args:
        text: the parts of ``yyyy-m-d h:m:s.SSSSSS`` from the front, a zone behind the seconds; ``T`` may stand for the space.
        zone: of texts without one.
    """
    parsed = _read_timestamp(text)
    if parsed is None:
        return None
    local_us, name = parsed
    own = zone if name is None else find_zone(name)
    if own is None:
        return None
    offset_us = _offset_us(local_us, own)
    return None if offset_us is None else _in_range(local_us - offset_us)


def parse_local_timestamp(text: str) -> int | None:
    """Return the microseconds since the beginning of 1970 where the clock showed that time; None also for a text with a zone."""
    parsed = _read_timestamp(text)
    return None if parsed is None or parsed[1] is not None else _in_range(parsed[0])


def _in_range(microseconds: int) -> int | None:
    return microseconds if -_LONG_MOST - 1 <= microseconds <= _LONG_MOST else None


def _read_timestamp(text: str) -> tuple[int, str | None] | None:
    """The time as the clock shows it, and the zone's name if there is one."""
    found = _TIMESTAMP.fullmatch(text.strip(_TRIMMED))
    if found is None:
        return None
    days = _days(-int(found[2]) if found[1] == "-" else int(found[2]), int(found[3] or 1), int(found[4] or 1))
    hour, minute, second = (int(part or 0) for part in found.group(5, 6, 7))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    fraction = (found[8] or "")[:6].ljust(6, "0")
    return days * _DAY_US + (hour * 3600 + minute * 60 + second) * MICROSECONDS + int(fraction), found[9]


def _days(year: int, month: int, day: int) -> int | None:
    """Days since 1970 in the Gregorian calendar, also of before it was there; None if there is no such date."""
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _MONTH_DAYS[month - 1] + (month == 2 and is_leap):
        return None
    before = sum(_MONTH_DAYS[: month - 1]) + (month > 2 and is_leap)
    last = year - 1
    return last * 365 + last // 4 - last // 100 + last // 400 - 719_162 + before + day - 1


def _offset_us(local_us: int, zone: tzinfo) -> int | None:
    """The offset of a zone at a time that its clock showed: the earlier of two such times, and of none the one before the gap."""
    if isinstance(zone, timezone):
        fixed = zone.utcoffset(None)
        return fixed // timedelta(microseconds=1)
    shown_us = max(local_us, _FIRST_US)  # before any clock: the offset is that of the place's own noon
    if shown_us >= _END_US:  # the calendar repeats, and with it the rules of the last years
        shown_us = _END_US - _CYCLE_US + (shown_us - _END_US) % _CYCLE_US
    offset = (datetime(1970, 1, 1) + timedelta(microseconds=shown_us)).replace(tzinfo=zone).utcoffset()
    return None if offset is None else offset // timedelta(microseconds=1)
