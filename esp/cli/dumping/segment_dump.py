"""The batches of a segment or of a metadata snapshot, and their records."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from esp.cli.dumping.findings import Finding
from esp.cli.dumping.record_payloads import Decoder, describe
from esp.model.errors import CorruptionError
from esp.records.batch import check_batch, iterate_records
from esp.records.batch_header import DELETE_HORIZON_BIT, HEADER_SIZE, MAGIC, BatchHeader, read_header
from esp.records.builder import Record
from esp.records.compression import Codec

_CODEC_NAMES: Final = {codec.value: codec.name.lower() for codec in Codec}


@dataclass(frozen=True, slots=True)
class Depth:
    """The level of detail.

    ``records`` shows the records below their batches, ``payloads`` their keys and values as ``decoder`` says, ``payloads_only`` nothing but
    keys and values.
    """

    records: bool = False
    payloads: bool = False
    payloads_only: bool = False
    decoder: Decoder = Decoder.TEXT


@dataclass(frozen=True, slots=True)
class Placed:
    """A batch, and where it stands in its file."""

    position: int
    header: BatchHeader
    data: memoryview


def walk(data: memoryview, bytes_max: int) -> Iterator[Placed]:
    """The batches of a file in order; ends before one that is not whole, and when ``bytes_max`` have been passed."""
    position = 0
    end = min(len(data), bytes_max)
    while position < end and len(data) - position >= HEADER_SIZE:
        header = read_header(data, position)
        if not HEADER_SIZE <= header.size <= len(data) - position:
            return
        yield Placed(position, header, data[position : position + header.size])
        position += header.size


def dump_batches(data: memoryview, depth: Depth, *, bytes_max: int, counts_from: int | None) -> Iterator[Finding]:
    """Yield the contents of a file of batches.

    Args:
        data: the file.
        depth: the level of detail.
        bytes_max: where to stop.
        counts_from: the offset that no batch may be below: the segment's base.
    """
    position = 0
    next_offset = counts_from
    for placed in walk(data, bytes_max):
        header = placed.header
        complaint = _check(placed, next_offset)
        if not depth.payloads_only or complaint is not None:
            yield _batch_finding(placed, complaint)
        if depth.records and complaint is None:
            yield from _dump_records(placed, depth)
        next_offset = header.next_offset
        position = placed.position + header.size
    left = len(data) - position
    if left and position < bytes_max:
        what = f"{left} invalid bytes at the end, from position {position} on"
        yield Finding(f"Found {what}", {"position": position, "invalidBytes": left}, what)


def _check(placed: Placed, next_offset: int | None) -> str | None:
    """The fault of a batch, with its position; None for a valid batch."""
    header = placed.header
    if header.magic != MAGIC:
        return f"the batch at position {placed.position} is of format {header.magic}; only {MAGIC} is known"
    try:
        check_batch(placed.data, header)
    except CorruptionError as error:
        return f"the batch at position {placed.position}: {error}"
    if next_offset is not None and header.base_offset < next_offset:
        return f"the batch at position {placed.position} begins at offset {header.base_offset}, below {next_offset}"
    return None


def _batch_finding(placed: Placed, complaint: str | None) -> Finding:
    header = placed.header
    horizon = (
        f"OptionalLong[{header.base_timestamp}]" if header.attributes & DELETE_HORIZON_BIT else "OptionalLong.empty"
    )
    last_sequence = header.last_sequence if header.producer_id >= 0 or header.base_sequence >= 0 else -1
    values: dict[str, Any] = {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": horizon,
        "position": placed.position,
        _time_name(header): header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": _CODEC_NAMES.get(header.codec, str(header.codec)),
        "crc": header.crc & 0xFFFF_FFFF,
        "isvalid": complaint is None,
    }
    return Finding(" ".join(f"{name}: {_plain(value)}" for name, value in values.items()), values, complaint)


def _dump_records(placed: Placed, depth: Depth) -> Iterator[Finding]:
    header = placed.header
    try:
        for number, record in enumerate(iterate_records(placed.data)):
            if depth.payloads_only and header.is_control:
                continue
            yield _record_finding(record, number, header, depth)
    except CorruptionError as error:
        what = f"records of the batch at position {placed.position}: {error}"
        yield Finding(f"Error: {what}", {"position": placed.position, "error": str(error)}, what)


def _record_finding(record: Record, number: int, header: BatchHeader, depth: Depth) -> Finding:
    sequence = -1 if header.base_sequence < 0 else (header.base_sequence + number) & 0x7FFF_FFFF
    values: dict[str, object] = {}
    text = "|"
    if not depth.payloads_only:
        values = {
            "offset": record.offset,
            _time_name(header): record.timestamp,
            "keySize": -1 if record.key is None else len(record.key),
            "valueSize": -1 if record.value is None else len(record.value),
            "sequence": sequence,
            "headerKeys": [name for name, _ in record.headers],
        }
        shown = {**values, "headerKeys": f"[{','.join(name for name, _ in record.headers)}]"}
        text += "".join(f" {name}: {value}" for name, value in shown.items())
    if not (depth.payloads or header.is_control):
        return Finding(text, values)
    try:
        payload, decoded = describe(record, depth.decoder, is_control=header.is_control)
    except CorruptionError as error:
        what = f"the record at offset {record.offset}: {error}"
        return Finding(f"Error at {record.offset}, skipping. {error}", {**values, "error": str(error)}, what)
    return Finding(f"{text} {payload}", {**values, **decoded})


def _time_name(header: BatchHeader) -> str:
    return "LogAppendTime" if header.has_log_append_time else "CreateTime"


def _plain(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
