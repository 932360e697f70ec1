"""Spans of time for people."""

from typing import Final

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def format_span(span_ms: int) -> str:
    """A span in the largest unit that it fills, and the next smaller one: ``2 d 4 h``, ``3 min 20 s``, ``4 s``; below a second ``0 s``."""
    seconds = max(0, span_ms) // 1000
    for number, (size, unit) in enumerate(_UNITS):
        if seconds >= size:
            rest_size, rest_unit = _UNITS[number + 1] if number + 1 < len(_UNITS) else (1, "s")
            rest = seconds % size // rest_size
            return f"{seconds // size} {unit}" + (f" {rest} {rest_unit}" if rest else "")
    return f"{seconds} s"
