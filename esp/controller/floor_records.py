"""Offset floors as records: settings of a name, of the type topic, which stay when the topic goes (FLOOR-1).

Kafka keeps settings of topics by their name, and neither its controllers nor its tools ask for the topic; its brokers pass over names of
settings that they do not know.
"""

from collections.abc import Iterator
from typing import Final

from esp.controller.errors import InvalidMetadataError
from esp.model.ids import NodeId, TopicId, uuid_from_base64, uuid_to_base64
from esp.model.offset_floor import FloorPiece, NameFloors, PartitionFloor
from esp.schemas.metadata_records import TOPIC_RESOURCE, ConfigRecord

FLOOR_PREFIX: Final = "esp.offset.floors."


def is_floor(record: ConfigRecord) -> bool:
    """True if a record is about the floors of a name."""
    return record.resource_type == TOPIC_RESOURCE and record.name.startswith(FLOOR_PREFIX)


def floor_records(name: str, floors: NameFloors) -> Iterator[ConfigRecord]:
    """The records that give a name these floors."""
    for number, piece in floors.items():
        yield floor_record(name, number, format_piece(piece))


def piece_number(record: ConfigRecord) -> int:
    """The number of the piece that a record is about.

    Raises:
        InvalidMetadataError: it has none.
    """
    text = record.name.removeprefix(FLOOR_PREFIX)
    if not text.isdecimal() or not text.isascii():
        raise InvalidMetadataError(f"{record.name} of topic {record.resource_name} has no number")
    return int(text)


def format_piece(piece: FloorPiece) -> str:
    """The text of a piece: the topic's id, then ``OFFSET:EPOCH`` or ``OFFSET:EPOCH:ASKED:LEAST`` for each partition."""
    return " ".join((uuid_to_base64(piece.topic_id), *map(_format_floor, piece.floors)))


def parse_piece(text: str) -> FloorPiece:
    """The piece that :func:`format_piece` writes as ``text``.

    Raises:
        InvalidMetadataError: the text is no such form.
    """
    first, *rest = text.split(" ")
    try:
        return FloorPiece(TopicId(uuid_from_base64(first)), tuple(map(_parse_floor, rest)))
    except (ValueError, TypeError) as error:
        raise InvalidMetadataError(f"offset floors {text!r}: {error}") from error


def floor_record(name: str, number: int, value: str | None) -> ConfigRecord:
    """The record that gives one piece of a name's floors its content; None: nothing is known of it any more."""
    return ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=name, name=f"{FLOOR_PREFIX}{number}", value=value)


def _format_floor(floor: PartitionFloor) -> str:
    if floor.is_exact:
        return f"{floor.offset}:{floor.next_epoch}"
    return f"{floor.offset}:{floor.next_epoch}:{floor.asked}:{floor.least}"


def _parse_floor(text: str) -> PartitionFloor:
    offset, next_epoch, *rest = map(int, text.split(":"))
    if not rest:
        return PartitionFloor(offset, next_epoch)
    asked, least = rest
    return PartitionFloor(offset, next_epoch, NodeId(asked), least)
