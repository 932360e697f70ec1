"""Durations in options: as Spark writes them in settings (``15m``) and in watermarks (``10 minutes``)."""

import re
from typing import Final

from esp.options.errors import OptionError

_DURATION: Final = re.compile(r"\s*([0-9]{1,15})\s*([a-z]*)\s*", re.ASCII | re.IGNORECASE)
_UNITS_MS: Final = {
    "": 1,  # as in settings of Spark's that are in milliseconds
    "ms": 1,
    "millisecond": 1,
    "s": 1000,
    "second": 1000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
}
_SHORT: Final = 3
"""Words that are longer may stand in the plural."""


def parse_duration_ms(name: str, text: str) -> int:
    """Return a duration in milliseconds, 1 at least.

    Args:
        name: the option, for messages.
        text: its value.

    Raises:
        OptionError: the text is no duration, or none that lasts.
    """
    found = _DURATION.fullmatch(text)
    unit = None if found is None else _unit_ms(found[2].lower())
    if found is None or unit is None:
        raise OptionError(name, text, "it is no duration: write a whole number with ms, s, m, h or d, as 15m")
    if int(found[1]) == 0:
        raise OptionError(name, text, "it does not last: write 1ms or more, or remove it")
    return int(found[1]) * unit


def _unit_ms(word: str) -> int | None:
    return _UNITS_MS.get(word.removesuffix("s") if len(word) > _SHORT else word)
