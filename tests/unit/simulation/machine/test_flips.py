from random import Random

import pytest
from crc32c import crc32c

from esp.records.batch_header import ATTRIBUTES_OFFSET, CRC_OFFSET, read_header
from esp.records.builder import NewRecord, build_batch
from esp.simulation.machine.flips import WireFlips, find_batches


def a_batch(value=b"value"):
    return bytes(build_batch([NewRecord(value)], timestamp_ms=1))


def test_batches_are_found_wherever_they_stand():
    first, second = a_batch(), a_batch(b"\x02" * 100)
    data = b"\x02" * 30 + first + b"between" + second + b"\x02" * 70
    start = data.index(b"between") + 7
    assert list(find_batches(data)) == [(30, 30 + len(first)), (start, start + len(second))]


def test_what_is_no_whole_batch_is_left_alone():
    batch = a_batch()
    broken = batch[:-1] + b"\xff"
    for data in (b"", b"\x02" * 200, batch[:-1], broken):
        assert list(find_batches(data)) == []
        assert WireFlips(Random(1)).maybe_spoil([data], "host", 1.0) == [data]


@pytest.mark.parametrize("seed", range(30))
def test_only_what_the_checksum_covers_flips_and_it_tells(seed):
    flips = WireFlips(Random(seed))
    batch = a_batch()
    written = [b"before", batch, b"after"]
    arrived = b"".join(flips.maybe_spoil(written, "host", 1.0))
    spoilt = arrived[6 : 6 + len(batch)]
    assert arrived.startswith(b"before")
    assert arrived.endswith(b"after")
    assert b"".join(written) == b"before" + batch + b"after", "the sender's own bytes stay"
    assert spoilt[:CRC_OFFSET] == batch[:CRC_OFFSET]
    assert crc32c(spoilt[ATTRIBUTES_OFFSET:]) != read_header(spoilt).crc


def test_a_reader_is_excused_for_what_was_spoilt_on_its_own_way_only():
    flips = WireFlips(Random(1))
    batch = a_batch()
    (spoilt,) = flips.maybe_spoil([batch], "host", 1.0)
    assert flips.excuses("host", spoilt)
    assert not flips.excuses("another", spoilt)
    assert not flips.excuses("host", batch)
    assert (flips.count, flips.excused) == (1, 1)


def test_nothing_flips_without_a_fault():
    flips = WireFlips(Random(1))
    written = [a_batch()]
    assert flips.maybe_spoil(written, "host", 0.0) is written
