"""The estimated memory of a round, compared with what the interpreter allocates (CLEAN-8)."""

import gc
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from esp.broker.replication.cleaner import limits_of
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.records.keyed import index_keys
from esp.runtime.os_disk import OsDisk
from esp.settings.broker import BrokerSettings
from esp.storage.compaction.cleaning import clean_blocking
from esp.storage.compaction.fates import open_batch
from esp.storage.compaction.key_set import KeySet
from esp.storage.compaction.survivors import Survivors
from esp.storage.log_directory import LogDirectory
from tests.unit.storage.compaction.cleaned import COMPACTED, settle
from tests.unit.storage.helpers import PARTITION, TOPIC_ID

MB = 1_000_000


@pytest.fixture
def allocated() -> Iterator[None]:
    """Count what is allocated from here on."""
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


def keys_from(number: int, count: int, size: int) -> list[bytes]:
    return [each.to_bytes(size) for each in range(number, number + count)]


@pytest.mark.usefixtures("allocated")
@pytest.mark.parametrize("key_size", [4, 20, 200])
def test_a_full_set_takes_what_it_says_and_no_more_than_it_may(key_size: int) -> None:
    """Its keys, the table, and the places of their offsets among the survivors."""
    limit = 20 * MB
    found, survivors = KeySet(limit), Survivors(0)
    before = tracemalloc.get_traced_memory()[0]
    number = 0
    while True:
        data = build_batch([NewRecord(None, key) for key in keys_from(number, 500, key_size)], base_offset=number)
        header = read_header(data)
        opened = open_batch(header, data, 0)
        if not found.has_room(500, opened.end - opened.position):
            break
        survivors.add(found.add(index_keys(*opened, header)))
        number += 500
    del data, opened
    taken = tracemalloc.get_traced_memory()[0] - before
    assert found.utilization > 0.6  # a table twice as large would not fit beside the one that it replaces
    assert 0.75 * found.size < taken <= found.size <= limit


@pytest.mark.parametrize("records_per_batch", [1, 100])
def test_a_round_whose_memory_is_full_stays_within_its_buffers(tmp_path: Path, records_per_batch: int) -> None:
    """Also with batches of one record, where the headers of a chunk take more room than its bytes."""
    settings = BrokerSettings(log_cleaner_dedupe_buffer_size=10 * MB)
    directory = LogDirectory.open_blocking(OsDisk(), str(tmp_path / "data"))
    log = directory.create_log_blocking(PARTITION, TOPIC_ID, replace(COMPACTED, segment_bytes=4 * MB))
    count, few = 124_000, 94_000
    for first in (*range(0, few, 100), *range(few, count, records_per_batch)):
        numbers = range(first, first + (100 if first < few else records_per_batch))
        # One in four supersedes the one before.
        keys = [(number - (number % 4 == 3)).to_bytes(20) for number in numbers]
        data = build_batch([NewRecord(b"v", key, timestamp=1000) for key in keys], base_offset=first)
        log.append(data, read_header(data), 1000)
    settle(log)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        counts = clean_blocking(log, 2000, limits_of(settings))
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert counts is not None
    assert counts.map_utilization == 1.0
    assert few < log.cleaned_to < count
    most = settings.log_cleaner_dedupe_buffer_size + settings.log_cleaner_io_buffer_size
    assert counts.memory_bytes <= most
    assert peak <= most
