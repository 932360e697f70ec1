"""The last time that dates can tell."""

from typing import Final

LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, in milliseconds since the Unix epoch: messages and tools tell times as dates."""
