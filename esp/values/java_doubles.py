"""Doubles as Java writes them: ``1.0``, ``1.0E10``, ``1.5E-5``, ``NaN``."""

import math
from typing import Final

_PLAIN_LEAST: Final = 1e-3
_PLAIN_END: Final = 1e7
_DIGITS_MOST: Final = 17


def double_text(value: float) -> str:
    """The text of ``Double.toString``, with the fewest digits that tell the value from its neighbours."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_LEAST <= abs(value) < _PLAIN_END:
        return repr(value)
    for digits in range(1, _DIGITS_MOST):
        text = format(value, f".{digits}e")
        if float(text) == value:
            break
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa.rstrip('0')}{'0' * mantissa.rstrip('0').endswith('.')}E{int(exponent)}"
