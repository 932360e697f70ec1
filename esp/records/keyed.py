"""Keys of the records in a batch, and a batch with fewer records than it had: the part of compaction that opens records.

Two loops walk all records of a compacted log, one to learn the latest offset of each key, one to find superseded records. No other code
of the process gets far while they run: integers of one byte, which most are, are read in place, and fields that do not matter are passed
over. Records that stay keep their bytes, and are not encoded anew.

A batch is malformed if its records do not match its header. Its checksum may be right all the same: brokers do not open the batches that
producers send. Nothing is believed of such a batch.
"""

from bisect import bisect_left
from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from crc32c import crc32c

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError
from esp.records.batch_header import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    CRC_OFFSET,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    NO_TIMESTAMP,
    SIZE_BEFORE_LENGTH_ENDS,
    BatchHeader,
    pack_header,
)
from esp.records.compression import compress
from esp.records.even_records import EvenRun, find_even_runs, read_even_keys
from esp.records.varint import append_varint, read_on, read_varint, read_varlong

_ABSENT: Final = 1
"""-1, the length of a key or value that is not there, as it stands in the bytes."""

_CRC_SIZE: Final = 4

_TIMES: Final = range(-(1 << 63), 1 << 63)
"""The timestamps, and the distances between two, for which a batch has room. A producer's base and deltas may add up to others."""


class Kept(NamedTuple):
    """The records of a batch that stay.

    ``ranges`` are the places of their bytes, neighbours joined; None if all records stay.
    """

    records: int
    ranges: list[tuple[int, int]] | None
    has_tombstones: bool
    latest_delta: int | None = None
    """The largest of their timestamp deltas in milliseconds; None if it is not known."""


def index_keys(data: bytes, position: int, end: int, header: BatchHeader) -> dict[bytes, int]:
    """Return the keys of a batch's records, each with *twice* the offset of its last record. Records without a key are passed over.

    Twice, because that is how offset deltas stand in the bytes.

    Args:
        data: holds the records, decompressed.
        position: the position of the first record.
        end: the position behind the last record.
        header: the batch's.

    Raises:
        CorruptionError: the batch is malformed.
    """
    base, count = 2 * header.base_offset, header.record_count
    if count == header.last_offset_delta + 1 and (runs := find_even_runs(data, position, end, count)) is not None:
        return dict(zip(read_even_keys(data, runs), range(base, base + 2 * count, 2), strict=True))
    found: dict[bytes, int] = {}
    previous = -1
    try:
        for _ in range(count):
            raw, position = data[position], position + 1
            if raw > 0x7F:
                if (more := data[position]) < 0x80:
                    raw, position = raw & 0x7F | more << 7, position + 1
                else:
                    raw, position = read_on(data, position, raw)
            stop = position + (raw >> 1)
            position += 1  # the attributes
            while data[position] > 0x7F:  # the timestamp
                position += 1
            delta, position = data[position + 1], position + 2
            if delta > 0x7F:
                if (more := data[position]) < 0x80:
                    delta, position = delta & 0x7F | more << 7, position + 1
                else:
                    delta, position = read_on(data, position, delta)
            key, position = data[position], position + 1
            if key > 0x7F:
                key, position = read_on(data, position, key)
            key_end = position if key & 1 else position + (key >> 1)
            if delta <= previous or delta & 1 or raw & 1 or key_end >= stop:
                raise CorruptionError(f"a record up to {stop} holds a key up to {key_end} and offset delta {delta / 2}")
            previous = delta
            if not key & 1:
                found[data[position:key_end]] = base + delta
            elif key != _ABSENT:
                raise CorruptionError(f"a key of -{(key >> 1) + 1} bytes")
            position = stop
    except IndexError as error:
        raise CorruptionError(f"a record is cut at {len(data)}") from error
    _check_end(position, end, previous, header)
    return found


def choose_records(
    data: bytes,
    position: int,
    end: int,
    header: BatchHeader,
    superseded: Set[bytes],
    surviving: Sequence[int] | None,
    *,
    drops_tombstones: bool,
) -> Kept:
    """Find the records that stay: those with a key that stand at one of the offsets ``surviving``, if these are known, or else those with a
    key that is not among ``superseded``.

    Args:
        data: holds the records, decompressed.
        position: the position of the first record.
        end: the position behind the last record.
        header: the batch's.
        superseded: keys that have later records.
        surviving: twice the offsets of the records that nothing supersedes, few; None if they are not known.
        drops_tombstones: whether records without a value go.

    Raises:
        CorruptionError: the batch is malformed.
    """
    base = 2 * header.base_offset
    count = header.record_count
    has_tombstones = False
    ranges: list[tuple[int, int]] = []
    run_start = start = position
    previous = -1
    try:
        for _ in range(header.record_count):
            start = position
            raw, position = data[position], position + 1
            if raw > 0x7F:
                if (more := data[position]) < 0x80:
                    raw, position = raw & 0x7F | more << 7, position + 1
                else:
                    raw, position = read_on(data, position, raw)
            stop = position + (raw >> 1)
            position += 1  # the attributes
            while data[position] > 0x7F:  # the timestamp
                position += 1
            delta, position = data[position + 1], position + 2
            if delta > 0x7F:
                if (more := data[position]) < 0x80:
                    delta, position = delta & 0x7F | more << 7, position + 1
                else:
                    delta, position = read_on(data, position, delta)
            key, position = data[position], position + 1
            if key > 0x7F:
                key, position = read_on(data, position, key)
            key_end = position if key & 1 else position + (key >> 1)
            if delta <= previous or delta & 1 or raw & 1 or key_end >= stop or (key & 1 and key != _ABSENT):
                raise CorruptionError(f"a record up to {stop} holds a key up to {key_end} and offset delta {delta / 2}")
            previous = delta
            if (
                not key & 1
                and (data[position:key_end] not in superseded if surviving is None else base + delta in surviving)
                and (data[key_end] != _ABSENT or not drops_tombstones)
            ):
                has_tombstones |= data[key_end] == _ABSENT
                position = stop
                continue
            count -= 1
            if run_start < start:
                ranges.append((run_start, start))
            run_start = position = stop
    except IndexError as error:
        raise CorruptionError(f"a record is cut at {len(data)}") from error
    _check_end(position, end, previous, header)
    if count == header.record_count:
        return Kept(count, None, has_tombstones)
    return Kept(count, [*ranges, (run_start, end)] if run_start < end else ranges, has_tombstones)


def pick_records(data: bytes, position: int, end: int, header: BatchHeader, numbers: Sequence[int]) -> Kept:
    """The records with the given numbers stay, of a batch that was found to be sound, and of which no record is missing.

    Records of one size are found by their numbers. Of others those between are passed over at a fifth of the cost of
    :func:`choose_records`, and those behind the last one are not looked at.

    Args:
        data: holds the records, decompressed.
        position: the position of the first record.
        end: the position behind the last record.
        header: the batch's.
        numbers: from 0 on, in their order.

    Raises:
        CorruptionError: the batch is not sound.
    """
    if (runs := find_even_runs(data, position, end, header.record_count)) is not None:
        return _pick_even_records(data, runs, header, numbers)
    ranges: list[tuple[int, int]] = []
    has_tombstones = False
    run_start = run_end = -1
    number = 0
    try:
        for wanted in numbers:
            for _ in range(wanted - number):
                raw, position = data[position], position + 1
                if raw > 0x7F:
                    if (more := data[position]) < 0x80:
                        raw, position = raw & 0x7F | more << 7, position + 1
                    else:
                        raw, position = read_on(data, position, raw)
                position += raw >> 1
            number = wanted + 1
            if position != run_end:
                if run_start < run_end:
                    ranges.append((run_start, run_end))
                run_start = position
            raw, position = data[position], position + 1
            if raw > 0x7F:
                raw, position = read_on(data, position, raw)
            run_end = position + (raw >> 1)
            position += 1  # the attributes
            while data[position] > 0x7F:  # the timestamp
                position += 1
            position += 1
            while data[position] > 0x7F:  # the offset delta
                position += 1
            key, position = data[position + 1], position + 2
            if key > 0x7F:
                key, position = read_on(data, position, key)
            has_tombstones |= data[position + (key >> 1)] == _ABSENT
            position = run_end
    except IndexError as error:
        raise CorruptionError(f"a record is cut at {len(data)}") from error
    if len(numbers) == header.record_count:
        return Kept(len(numbers), None, has_tombstones)
    return Kept(len(numbers), [*ranges, (run_start, run_end)] if run_start < run_end else ranges, has_tombstones)


def _pick_even_records(data: bytes, runs: Sequence[EvenRun], header: BatchHeader, numbers: Sequence[int]) -> Kept:
    """:func:`pick_records` of a batch that consists of even runs."""
    ranges: list[tuple[int, int]] = []
    has_tombstones = False
    latest = -1
    kept_start = kept_end = -1
    place = 0
    for run in runs:
        stop = bisect_left(numbers, run.number + run.records, place)
        size, time_place, value_place = run.size, run.time_place, run.value_place
        zero = run.start - run.number * size
        for number in numbers[place:stop]:
            start = zero + number * size
            if start != kept_end:
                if kept_start < kept_end:
                    ranges.append((kept_start, kept_end))
                kept_start = start
            kept_end = start + size
            has_tombstones |= data[start + value_place] == _ABSENT
            delta = data[start + time_place]
            if delta > latest and not delta & 1:  # odd ones are negative
                latest = delta
        place = stop
    if len(numbers) == header.record_count:
        return Kept(len(numbers), None, has_tombstones)
    if kept_start < kept_end:
        ranges.append((kept_start, kept_end))
    return Kept(len(numbers), ranges, has_tombstones, None if latest < 0 else latest >> 1)


def find_keyless(data: bytes, header: BatchHeader) -> list[int]:
    """The numbers of the records without a key, in a batch whose offsets are consecutive, as producers send it.

    Args:
        data: the records, decompressed.
        header: the batch's.

    Raises:
        CorruptionError: the batch is malformed.
    """
    found: list[int] = []
    position = 0
    size = len(data)
    try:
        for number in range(header.record_count):
            raw, position = data[position], position + 1
            if raw > 0x7F:
                if (more := data[position]) < 0x80:
                    raw, position = raw & 0x7F | more << 7, position + 1
                else:
                    raw, position = read_on(data, position, raw)
            stop = position + (raw >> 1)
            position += 1  # the attributes
            while data[position] > 0x7F:  # the timestamp
                position += 1
            delta, position = data[position + 1], position + 2
            if delta > 0x7F:
                if (more := data[position]) < 0x80:
                    delta, position = delta & 0x7F | more << 7, position + 1
                else:
                    delta, position = read_on(data, position, delta)
            key, position = data[position], position + 1
            if key > 0x7F:
                key, position = read_on(data, position, key)
            key_end = position if key & 1 else position + (key >> 1)
            if delta != number << 1 or raw & 1 or key_end >= stop or (key & 1 and key != _ABSENT):
                raise CorruptionError(
                    f"record {number} holds offset delta {delta / 2}, and a key up to {key_end} of {stop}"
                )
            if key & 1:
                found.append(number)
            position = stop
    except IndexError as error:
        raise CorruptionError(f"a record is cut at {size}") from error
    if position != size:
        raise CorruptionError(f"{size - position} bytes follow the last of {header.record_count} records")
    return found


def rebuild_batch(header: BatchHeader, data: bytes, kept: Kept, horizon_ms: int | None) -> bytes:
    """Return the batch with the records that stay, at least one, in its codec at the codec's default level.

    Offsets, producer and leader epoch stay, and so does the base timestamp unless a horizon is set.

    Args:
        header: the batch's.
        data: its records, decompressed, at the places of ``kept``.
        kept: what stays.
        horizon_ms: the time, in milliseconds since the Unix epoch, from which on tombstones of this batch go; None leaves the batch as it
            is. The base timestamp says it (KIP-534), so that the records' timestamps are counted from it.

    Raises:
        CorruptionError: its producer wrote timestamps for which a batch has no room.
    """
    ranges = kept.ranges
    assert ranges, "a batch of which records stay"
    payload = data[ranges[0][0] : ranges[0][1]] if len(ranges) == 1 else b"".join([data[a:b] for a, b in ranges])
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if horizon_ms is not None:
        payload = _count_times_from(payload, kept.records, base_timestamp - horizon_ms)
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = horizon_ms
    if header.has_log_append_time:
        latest = header.max_timestamp
    elif kept.latest_delta is not None:
        latest = max(NO_TIMESTAMP, header.base_timestamp + kept.latest_delta)
    else:
        latest = _latest_time(payload, kept.records, base_timestamp)
    if latest not in _TIMES:
        raise CorruptionError(f"a record has the timestamp {latest}")
    return _seal(
        header._replace(
            attributes=attributes, base_timestamp=base_timestamp, max_timestamp=latest, record_count=kept.records
        ),
        compress(header.codec, payload),
    )


def empty_batch(header: BatchHeader) -> bytes:
    """Return the batch without a record: it still says its offsets, leader epoch, producer, sequence and largest timestamp."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
    return _seal(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")


def _seal(header: BatchHeader, payload: Buffer) -> bytes:
    batch = bytearray(pack_header(header._replace(batch_length=HEADER_SIZE - SIZE_BEFORE_LENGTH_ENDS + len(payload))))
    batch += payload
    checksum = crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:])
    batch[CRC_OFFSET : CRC_OFFSET + _CRC_SIZE] = checksum.to_bytes(_CRC_SIZE, "big")
    return bytes(batch)


def _check_end(position: int, end: int, last_delta: int, header: BatchHeader) -> None:
    if position != end or last_delta >> 1 > header.last_offset_delta:
        raise CorruptionError(
            f"{header.record_count} records end at {position} of {end}, with offset delta {last_delta >> 1} of "
            f"{header.last_offset_delta}"
        )


def _latest_time(payload: bytes, count: int, base_timestamp: int) -> int:
    """The largest timestamp of ``count`` records, whose lengths were found to be sound. Raises CorruptionError."""
    latest = NO_TIMESTAMP
    position = 0
    for _ in range(count):
        raw, position = payload[position], position + 1
        if raw > 0x7F:
            raw, position = read_on(payload, position, raw)
        delta = payload[position + 1]
        if delta > 0x7F:
            delta, _ = read_varlong(payload, position + 1)
        else:
            delta = (delta >> 1) ^ -(delta & 1)
        if base_timestamp + delta > latest:
            latest = base_timestamp + delta
        position += raw >> 1
    return latest


def _count_times_from(payload: bytes, count: int, shift: int) -> bytes:
    """Add ``shift`` milliseconds to the timestamp delta of each of ``count`` records, whose lengths were found to be sound.

    Raises CorruptionError.
    """
    output = bytearray()
    position = 0
    for _ in range(count):
        length, position = read_varint(payload, position)
        end = position + length
        delta, rest = read_varlong(payload, position + 1)
        if delta + shift not in _TIMES:
            raise CorruptionError(f"a record has a timestamp {delta + shift} ms from the batch's")
        content = bytearray(payload[position : position + 1])
        append_varint(content, delta + shift)
        append_varint(output, len(content) + end - rest)
        output += content
        output += payload[rest:end]
        position = end
    return bytes(output)
