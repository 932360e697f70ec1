"""The final content of a log of keyed records: the last value of each key.

A coordinator's state follows from these values alone, as that of a compacted topic does; so the many values that were overwritten are never
decoded. Records of a transaction count from its commit marker on, at their own place: a later record of the same key outside the
transaction stays, as it does in a compacted log. Records of an aborted transaction do not count; those of an open one are kept apart.
"""

from collections.abc import Iterable
from typing import Final

from crc32c import crc32c

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError
from esp.records.batch import check_batch, iterate_records, read_whole_header
from esp.records.batch_header import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    MAGIC,
    SIZE_BEFORE_LENGTH_ENDS,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_fields_at,
)
from esp.records.compression import decompress
from esp.records.varint import GOES_ON, read_on

_COMMIT: Final = b"\0\0\0\1"
"""Key of the control record that ends a transaction for good: version 0, type 1."""

_RECORDS_LIMIT: Final = 128 * 1024 * 1024
"""Bytes that the records of a batch may take: far above what a coordinator writes."""

_OF_TRANSACTIONS: Final = CONTROL_BIT | TRANSACTIONAL_BIT
"""Attributes of batches that belong to transactions."""

_NOT_PLAIN: Final = _OF_TRANSACTIONS | CODEC_MASK
"""Attributes of batches whose records do not count as they stand there."""

_ABSENT: Final = 1
"""-1, the length of a key or value that is not there, as it stands in the bytes."""

_KeyedValue = tuple[bytes, bytes | None]


class LatestRecords:
    """Collects the values of a log; :attr:`by_key` holds them in the order in which they were written last.

    Args:
        ended_prefix: the first bytes of the keys of which :attr:`ended` keeps the last values; None for no keys.
    """

    def __init__(self, ended_prefix: bytes | None = None) -> None:
        self.by_key: dict[bytes, bytes] = {}
        self.ended: dict[bytes, bytes] = {}
        """The last values of keys that have none any more, for the keys that begin with ``ended_prefix``."""
        self._ended_prefix = ended_prefix
        self._open: dict[int, dict[int, dict[bytes, bytes | None]]] = {}
        """Records of open transactions by producer id and base offset, without the records of keys that were written again since."""

    def add(self, batches: Buffer) -> int:
        """Take in whole batches, in the order of the log; return the offset after the last one.

        A log of up to months is read before any request is served, mostly batches of one record: those that are neither compressed nor of a
        transaction are checked and read in place.

        Raises:
            CorruptionError: the bytes are no batches, or not those that were written.
        """
        data = batches if isinstance(batches, bytes) else bytes(batches)
        view = memoryview(data)
        size = len(data)
        position = next_offset = 0
        while position < size:
            if position + HEADER_SIZE <= size:
                base_offset, length, _, magic, crc, attributes, last_delta, *_, count = read_fields_at(data, position)
                end = position + length + SIZE_BEFORE_LENGTH_ENDS
                if (
                    not attributes & _NOT_PLAIN
                    and magic == MAGIC
                    and position + HEADER_SIZE <= end <= size
                    and 0 <= count <= last_delta + 1
                    and crc32c(view[position + ATTRIBUTES_OFFSET : end]) == crc & 0xFFFF_FFFF
                ):
                    self._add_records(_keyed_values(data, position + HEADER_SIZE, end, count), base_offset)
                    position = end
                    next_offset = base_offset + last_delta + 1
                    continue
            header = read_whole_header(view[position:])
            batch = view[position : position + header.size]
            check_batch(batch, header)
            self._add_batch(header, batch)
            position += header.size
            next_offset = header.next_offset
        return next_offset

    def _add_batch(self, header: BatchHeader, batch: memoryview) -> None:
        if not header.attributes & _OF_TRANSACTIONS:
            self._add_records(_values_of(header, batch), header.base_offset)
        elif header.is_control:
            batches = self._open.pop(header.producer_id, {})
            if any(marker.key == _COMMIT for marker in iterate_records(batch)):
                for base_offset, records in batches.items():
                    self._add_records(records.items(), base_offset)
        else:
            self._open.setdefault(header.producer_id, {})[header.base_offset] = dict(_values_of(header, batch))

    def pending(self) -> list[tuple[int, list[_KeyedValue]]]:
        """The records of transactions that are open at the end of the log, by producer id and batch, in the order of the log."""
        batches = sorted(
            (base_offset, producer_id)
            for producer_id, open_batches in self._open.items()
            for base_offset in open_batches
        )
        return [
            (producer_id, list(self._open[producer_id][base_offset].items())) for base_offset, producer_id in batches
        ]

    def _add_records(self, records: Iterable[_KeyedValue], base_offset: int) -> None:
        by_key = self.by_key
        for key, value in records:
            if self._open:
                self._supersede(key, base_offset)
            before = by_key.pop(key, None)
            if value is not None:
                by_key[key] = value
            elif before is not None and self._ended_prefix is not None and key.startswith(self._ended_prefix):
                self.ended[key] = before

    def _supersede(self, key: bytes, base_offset: int) -> None:
        """Drop the records of open transactions that a record of the same key follows."""
        for open_batches in self._open.values():
            for written, records in open_batches.items():
                if written < base_offset:
                    records.pop(key, None)


def _values_of(header: BatchHeader, batch: memoryview) -> list[_KeyedValue]:
    """Keys and values of a batch's records, without those that have no key."""
    data = decompress(header.codec, batch[HEADER_SIZE:], _RECORDS_LIMIT)
    return _keyed_values(data, 0, len(data), header.record_count)


def _keyed_values(data: bytes, position: int, size: int, count: int) -> list[_KeyedValue]:
    """Keys and values of records, without those that have no key.

    Integers of one byte, which most are, are read here, and fields that do not matter are passed over.

    Args:
        data: the records are in it.
        position: where they begin.
        size: where they end.
        count: of records.

    Raises:
        CorruptionError: the records are not where they should be.
    """
    found: list[_KeyedValue] = []
    try:
        for _ in range(count):
            raw, position = data[position], position + 1
            if raw >= GOES_ON:
                raw, position = read_on(data, position, raw)
            end = position + (raw >> 1)
            position += 1  # the attributes
            while data[position] >= GOES_ON:  # the timestamp
                position += 1
            position += 1
            while data[position] >= GOES_ON:  # the offset
                position += 1
            key, start = data[position + 1], position + 2
            if key >= GOES_ON:
                key, start = read_on(data, start, key)
            key_end = start if key & 1 else start + (key >> 1)
            value, position = data[key_end], key_end + 1
            if value >= GOES_ON:
                value, position = read_on(data, position, value)
            value_end = position if value & 1 else position + (value >> 1)
            if (
                raw & 1
                or not value_end <= end <= size
                or (key & 1 and key != _ABSENT)
                or (value & 1 and value != _ABSENT)
            ):
                raise CorruptionError(
                    f"a record up to {end} of {size} holds a key up to {key_end} and a value up to {value_end}"
                )
            if not key & 1:
                found.append((data[start:key_end], None if value & 1 else data[position:value_end]))
            position = end
    except IndexError as error:
        raise CorruptionError(f"a record is cut at {len(data)}") from error
    return found
