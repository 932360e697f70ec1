"""The text beside an offset that a query of Spark's has committed: the id of the topic, so that another topic of its name is recognised.

A batch that sets a partition to another offset without reading up to it is committed before Spark's checkpoint has it: its note has the
topic's new id, and the id of before beside it. It counts only if the checkpoint stands at that offset too. Pure.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

NO_ID: Final = bytes(16)
"""The id of a topic of which offsets were committed by another program."""

_Place = TypeVar("_Place", bound=tuple[str, int])


class PositionNote(NamedTuple):
    """The text beside a committed offset, as it was read.

    Attributes:
        topic_id: of its topic; None: the text is another program's.
        before: the topic's id before the batch that sets the partition to this offset, empty if it was not known; None: no such batch did.
        batch: the number of the batch that ended there; None: not told.
        query: the id of the query; empty: not told.
    """

    topic_id: bytes | None = None
    before: bytes | None = None
    batch: int | None = None
    query: str = ""


class Remembered(NamedTuple):
    """The ids of the topics of a checkpoint, as committed offsets tell them.

    Attributes:
        ids: of the topics, as they were at the position of the checkpoint. An id is empty if there are offsets of another of the topics and
            none of this: brokers delete them with a topic. No ids if there are no offsets at all.
        jumps: by partition, in order, the offset to which the last batch set it without reading up to it.
    """

    ids: Mapping[str, bytes]
    jumps: Mapping[Any, int]


def write_note(note: PositionNote) -> str:
    """The text that is committed, with the topic's id as Kafka's tools write it."""
    assert note.topic_id is not None, "a note has the id of its topic"
    told: dict[str, object] = {"topicId": id_text(note.topic_id)}
    if note.before is not None:
        told["before"] = id_text(note.before)
    if note.batch is not None:
        told["batch"] = note.batch
    if note.query:
        told["query"] = note.query
    return json.dumps(told, separators=(",", ":"))


def read_note(text: str) -> PositionNote:
    """Return the note that a text holds; an empty one if the text is another program's."""
    try:
        told = json.loads(text)
    except ValueError:
        return PositionNote()
    if not isinstance(told, dict):
        return PositionNote()
    batch, query = told.get("batch"), told.get("query")
    return PositionNote(
        _id_in(told, "topicId"),
        (_id_in(told, "before") or b"") if "before" in told else None,
        batch if type(batch) is int else None,
        query if isinstance(query, str) else "",
    )


def remember(position: Mapping[_Place, int], noted: Mapping[_Place, tuple[int, PositionNote]]) -> Remembered:
    """Return what committed offsets tell of a checkpoint.

    Args:
        position: where the checkpoint stands, by topic and partition.
        noted: the committed offsets and their notes, likewise.
    """
    if not noted:
        return Remembered({}, {})
    ids = {place[0]: b"" for place in position}
    jumps: dict[_Place, int] = {}
    stale: dict[str, bytes] = {}
    for place, (offset, note) in sorted(noted.items()):
        ids[place[0]] = note.topic_id or NO_ID
        if note.before is None:
            continue
        if position.get(place) == offset:
            jumps[place] = offset
        else:
            stale[place[0]] = note.before
    jumps = {place: offset for place, offset in jumps.items() if place[0] not in stale}
    return Remembered({**ids, **stale}, jumps)


def newest_batch(notes: Iterable[PositionNote]) -> int | None:
    """Return the newest batch that notes tell of; None: none does."""
    return max((note.batch for note in notes if note.batch is not None), default=None)


def id_text(topic_id: bytes) -> str:
    """A topic's id as Kafka's tools write it."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _id_in(told: Mapping[str, Any], name: str) -> bytes | None:
    try:
        topic_id = base64.urlsafe_b64decode(told[name] + "==")
    except (ValueError, TypeError, KeyError, binascii.Error):
        return None
    return topic_id if len(topic_id) == len(NO_ID) else None
