import struct

import pytest
from crc32c import crc32c

from esp.cli.dumping.record_payloads import Decoder
from esp.cli.dumping.segment_dump import Depth, dump_batches, walk
from esp.records.builder import NewRecord, build_batch

ALL = 1 << 40
RECORDS = Depth(records=True, payloads=True)


def batch(base_offset, *values, codec=0, **fields):
    records = [NewRecord(value, key=b"k", headers=(("h", b"1"),)) for value in values]
    return build_batch(records, base_offset=base_offset, leader_epoch=3, timestamp_ms=1000, codec=codec, **fields)


def dump(data, depth=RECORDS, *, bytes_max=ALL, counts_from=0):
    return list(dump_batches(memoryview(data), depth, bytes_max=bytes_max, counts_from=counts_from))


def complaints(findings):
    return [finding.complaint for finding in findings if finding.complaint is not None]


@pytest.mark.parametrize("codec", range(5))
def test_batches_and_records_are_shown_in_the_words_of_kafka(codec):
    data = batch(5, b"one", b"two", codec=codec, producer_id=7, producer_epoch=1, base_sequence=4)
    found = dump(data, counts_from=5)
    assert complaints(found) == []
    head, first, second = (finding.text for finding in found)
    name = ("none", "gzip", "snappy", "lz4", "zstd")[codec]
    assert head.startswith(
        "baseOffset: 5 lastOffset: 6 count: 2 baseSequence: 4 lastSequence: 5 producerId: 7 producerEpoch: 1 "
    )
    assert f"size: {len(data)} magic: 2 compresscodec: {name} crc: " in head
    assert head.endswith(" isvalid: true")
    assert first == (
        "| offset: 5 CreateTime: 1000 keySize: 1 valueSize: 3 sequence: 4 headerKeys: [h] key: k payload: one"
    )
    assert second.endswith("payload: two")


def test_less_depth_shows_less():
    data = batch(0, b"one")
    assert len(dump(data, Depth())) == 1
    assert "payload" not in dump(data, Depth(records=True))[1].text
    (only,) = dump(data, Depth(records=True, payloads=True, payloads_only=True))
    assert only.text == "| key: k payload: one"


def test_values_for_programs_say_what_the_text_says():
    head, record = dump(batch(0, b"one"))
    assert head.values["count"] == 1
    assert head.values["isvalid"] is True
    assert record.values["payload"] == "one"
    assert record.values["headerKeys"] == ["h"]


def test_a_flipped_bit_is_found_and_the_batches_behind_it_are_shown():
    first, second = batch(0, b"one"), batch(1, b"two")
    data = bytearray(first + second)
    data[len(first) - 1] ^= 1
    found = dump(data)
    assert len(complaints(found)) == 1
    assert "checksum" in complaints(found)[0]
    assert found[0].text.endswith("isvalid: false")
    assert found[-1].text.endswith("payload: two")


def test_what_is_left_at_the_end_is_counted():
    data = batch(0, b"one") + batch(1, b"two")[:-1]
    (complaint,) = complaints(dump(data))
    assert f"from position {len(batch(0, b'one'))} on" in complaint


@pytest.mark.parametrize("rest", [b"\0" * 10, b"\0" * 200, b"\xff" * 100])
def test_bytes_that_are_no_batch_are_told(rest):
    (complaint,) = complaints(dump(batch(0, b"one") + rest))
    assert complaint.startswith(f"{len(rest)} invalid bytes")


def test_offsets_that_do_not_rise_are_told():
    (complaint,) = complaints(dump(batch(4, b"one") + batch(4, b"two"), counts_from=4))
    assert "begins at offset 4, below 5" in complaint
    assert complaints(dump(batch(4, b"one") + batch(9, b"two"), counts_from=0)) == [], "a compacted log has gaps"


def test_a_limit_ends_the_reading_without_a_complaint():
    data = batch(0, b"one") + batch(1, b"two")
    assert [finding.values["baseOffset"] for finding in dump(data, Depth(), bytes_max=10)] == [0]
    assert complaints(dump(data, bytes_max=10)) == []


def test_records_that_are_not_what_their_header_says_are_told():
    data = bytearray(batch(0, b"one", b"two"))
    data[61] = 0x7E  # the length of the first record
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    (complaint,) = complaints(dump(data))
    assert "records of the batch at position 0" in complaint


def test_a_record_that_the_decoder_cannot_read_is_told_and_the_next_ones_are_shown():
    found = dump(
        batch(0, b"\x01\x7f\x00junk", b"\x01\x02"), Depth(records=True, payloads=True, decoder=Decoder.METADATA)
    )
    assert len(complaints(found)) == 2
    assert found[1].text.startswith("Error at 0, skipping.")


def test_walking_knows_where_each_batch_stands():
    first, second = batch(0, b"one"), batch(1, b"two")
    assert [placed.position for placed in walk(memoryview(first + second), ALL)] == [0, len(first)]
