"""Functions that no simulated run enters, each with the reason and with what tests it instead.

``make sim-coverage`` fails where a function is neither entered nor named here, and where one is named here and entered all the same.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_REASONS: Final[Mapping[str, tuple[str, ...]]] = {}
"""The functions by their reason."""

UNREACHED: Final[Mapping[str, str]] = MappingProxyType(
    {name: reason for reason, names in _REASONS.items() for name in names}
)
"""The reason of each."""
