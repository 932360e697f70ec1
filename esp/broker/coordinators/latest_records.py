"""What a log of keyed records comes to: the last value of each key.

A coordinator's state follows from these alone, as that of a compacted topic does; so the many values that were overwritten are never
decoded. Records of a transaction count from its commit marker on; those of one that was aborted, or never ended, do not count.
"""

from collections.abc import Iterable
from typing import Final

from esp.model.errors import CorruptionError
from esp.ports.network import Buffer
from esp.records.batch import iterate_records, read_whole_header
from esp.records.batch_header import HEADER_SIZE, BatchHeader
from esp.records.compression import decompress
from esp.records.varint import read_varint

_COMMIT: Final = b"\0\0\0\1"
"""Key of the control record that ends a transaction for good: version 0, type 1."""

_RECORDS_LIMIT: Final = 128 * 1024 * 1024
"""Bytes that the records of a batch may take: far above what a coordinator writes."""

_ABSENT: Final = -1
"""The length of a key or value that is not there."""

_GOES_ON: Final = 0x80
"""From this value on a byte of a varint is not its last one."""

_KeyedValue = tuple[bytes, bytes | None]


class LatestRecords:
    """Collects the values of a log; :attr:`by_key` holds them in the order in which they were written last."""

    def __init__(self) -> None:
        self.by_key: dict[bytes, bytes] = {}
        self._open: dict[int, list[_KeyedValue]] = {}
        """Records of open transactions by producer id."""

    def add(self, batches: Buffer) -> int:
        """Take in whole batches, in the order of the log; return the offset after the last one.

        Raises:
            CorruptionError: the bytes are no batches.
        """
        view = memoryview(batches)
        position = next_offset = 0
        while position < len(view):
            header = read_whole_header(view[position:])
            self._add_batch(header, view[position : position + header.size])
            position += header.size
            next_offset = header.next_offset
        return next_offset

    def _add_batch(self, header: BatchHeader, batch: memoryview) -> None:
        if header.is_control:
            records = self._open.pop(header.producer_id, [])
            if any(marker.key == _COMMIT for marker in iterate_records(batch)):
                self._add_records(records)
        elif header.is_transactional:
            self._open.setdefault(header.producer_id, []).extend(_keyed_values(header, batch))
        else:
            self._add_records(_keyed_values(header, batch))

    def _add_records(self, records: Iterable[_KeyedValue]) -> None:
        by_key = self.by_key
        for key, value in records:
            by_key.pop(key, None)
            if value is not None:
                by_key[key] = value


def _keyed_values(header: BatchHeader, batch: memoryview) -> list[_KeyedValue]:
    """Keys and values of a batch's records, without those that have no key.

    A log of up to months is read before anybody is served; this takes a quarter of the time of ``iterate_records``, which reads every
    field.
    """
    data = decompress(header.codec, batch[HEADER_SIZE:], _RECORDS_LIMIT)
    found: list[_KeyedValue] = []
    position = 0
    try:
        for _ in range(header.record_count):
            length, position = read_varint(data, position)
            end = position + length
            position += 1
            while data[position] >= _GOES_ON:  # the timestamp
                position += 1
            position += 1
            while data[position] >= _GOES_ON:  # the offset
                position += 1
            key_size, start = read_varint(data, position + 1)
            value_size, position = read_varint(data, start + max(0, key_size))
            if min(key_size, value_size) < _ABSENT or not position + max(0, value_size) <= end <= len(data):
                raise CorruptionError(
                    f"a record of {length} bytes holds a key of {key_size} and a value of {value_size}"
                )
            if key_size >= 0:
                value = data[position : position + value_size] if value_size >= 0 else None
                found.append((data[start : start + key_size], value))
            position = end
    except IndexError as error:
        raise CorruptionError(f"a record is cut at {len(data)}") from error
    return found
