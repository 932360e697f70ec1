"""A finding in a dumped file: an entry as a line for people and as values for programs, and what is wrong with it."""

from collections.abc import Mapping
from typing import NamedTuple


class Finding(NamedTuple):
    """A line of what a file holds.

    Attributes:
        text: in the words of Kafka's tool.
        values: the same for programs.
        complaint: what is wrong with it, None if nothing is.
    """

    text: str
    values: Mapping[str, object]
    complaint: str | None = None
