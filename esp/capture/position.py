"""The position of a capture in a partition, as it is committed: the end of the last file, and beside it the file's name. Pure."""

import json
from typing import Final, NamedTuple

from esp.consumer.group_messages import Committed

GROUP_PREFIX: Final = "esp-capture."
"""The beginning of the names of the groups of captures, and of their transactional ids."""


def group_of(name: str) -> str:
    """The group in which a capture commits, and its transactional id: the newest runner fences all others."""
    return GROUP_PREFIX + name


class Position(NamedTuple):
    """A position.

    Attributes:
        offset: the end of the last file; the next one begins here.
        begin: the first offset of the first file.
        file: the path of the last file; empty if there is none yet.
        work: the path at which this file stood before it got its name.
        runner: the runner that committed.
        topic_id: the topic's id, in hexadecimal digits.
    """

    offset: int
    begin: int
    file: str
    work: str
    runner: str
    topic_id: str

    def to_committed(self) -> Committed:
        """The offset that is committed, and the rest beside it."""
        told = {
            "begin": self.begin,
            "file": self.file,
            "work": self.work,
            "runner": self.runner,
            "topicId": self.topic_id,
        }
        return Committed(self.offset, json.dumps(told, separators=(",", ":")))


def read_position(committed: Committed) -> Position | None:
    """Return the position that was committed; None if another program committed."""
    try:
        told = json.loads(committed.metadata)
        position = Position(
            committed.offset, told["begin"], told["file"], told["work"], told["runner"], told["topicId"]
        )
    except (ValueError, TypeError, KeyError):
        return None
    is_whole = type(position.begin) is int and all(isinstance(text, str) for text in position[2:])
    return position if is_whole and 0 <= position.begin <= position.offset else None
