"""Sizes as people write and read them: ``50M``, ``1.2 GiB``."""

import re
from typing import Final

from esp.model.errors import OperatorError

_UNITS: Final = ("", "K", "M", "G", "T", "P")
_FORM: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:i?B)?", re.IGNORECASE)
_STEP: Final = 1024


def parse_size(option: str, text: str) -> int:
    """Read a number of bytes, with K, M, G, T or P for powers of 1024.

    Raises:
        OperatorError: it is none.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise OperatorError(f"{option} {text}: not a number of bytes", "Write for example 1000000, 50M or 1.5G.")
    return int(float(found[1]) * _STEP ** _UNITS.index(found[2].upper()))


def format_size(size_bytes: float) -> str:
    """Return a size in the largest unit in which it is at least 1."""
    exponent = 0
    while abs(size_bytes) >= _STEP and exponent < len(_UNITS) - 1:
        size_bytes /= _STEP
        exponent += 1
    return f"{size_bytes:.0f} B" if exponent == 0 else f"{size_bytes:.1f} {_UNITS[exponent]}iB"


def format_duration(seconds: float) -> str:
    """Return a duration in the two units that matter."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
