import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.records.batch import check_batch
from esp.records.batch_header import pack_header, read_header
from esp.records.builder import NewRecord, build_batch
from esp.records.compression import Codec
from tests.unit.records.strategies import record_lists

CODECS = list(Codec)
BATCH = build_batch([NewRecord(b"one"), NewRecord(b"two")], timestamp_ms=1)


def changed(**changes) -> bytes:
    """BATCH with other header fields and a checksum that fits them."""
    batch = bytearray(BATCH)
    batch[:61] = pack_header(read_header(BATCH)._replace(**changes))
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


@pytest.mark.parametrize("codec", CODECS)
@given(records=record_lists)
def test_a_built_batch_passes(codec, records):
    batch = build_batch(records, codec=codec)
    check_batch(batch, read_header(batch))
    check_batch(memoryview(batch), read_header(batch))


@given(records=record_lists, data=st.data())
def test_every_flipped_bit_behind_the_checksum_is_detected(records, data):
    batch = bytearray(build_batch(records))
    position = data.draw(st.integers(17, len(batch) - 1))
    batch[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptionError):
        check_batch(batch, read_header(batch))


@pytest.mark.parametrize("bit", range(8, 17 * 8))
def test_a_flipped_bit_in_length_or_magic_is_detected(bit):
    position, shift = divmod(bit, 8)
    batch = bytearray(BATCH)
    batch[position] ^= 1 << shift
    if position < 8 or 12 <= position < 16:  # offset and leader epoch are the broker's to write
        check_batch(batch, read_header(batch))
    else:
        with pytest.raises(CorruptionError):
            check_batch(batch, read_header(batch))


@given(st.integers(61, len(BATCH) - 1))
def test_a_cut_batch_is_detected(size):
    with pytest.raises(CorruptionError, match="bytes"):
        check_batch(BATCH[:size], read_header(BATCH))


def test_a_length_below_the_header_s_own_is_detected():
    header = read_header(BATCH)._replace(batch_length=20)
    with pytest.raises(CorruptionError, match="32 bytes"):
        check_batch(BATCH[:32], header)


def test_bytes_behind_the_batch_are_detected():
    with pytest.raises(CorruptionError, match="bytes"):
        check_batch(BATCH + b"?", read_header(BATCH))


@pytest.mark.parametrize(
    "changes",
    [{"record_count": 3}, {"record_count": -1}, {"last_offset_delta": 0}, {"last_offset_delta": -1}],
)
def test_counts_that_no_batch_can_have_are_detected(changes):
    batch = changed(**changes)
    with pytest.raises(CorruptionError, match="records"):
        check_batch(batch, read_header(batch))


@pytest.mark.parametrize("changes", [{"record_count": 0}, {"record_count": 1}, {"last_offset_delta": 5}])
def test_a_compacted_batch_with_holes_or_without_records_passes(changes):
    batch = changed(**changes)
    check_batch(batch, read_header(batch))
