"""The framing of snappy's blocks, with blocks that are not compressed at all."""

import pytest

from esp.records.xerial import XerialError, is_stream, join_blocks, split_blocks

DATA = bytes(range(256)) * 300
"""More than two blocks."""


def stream_of(data: bytes) -> bytes:
    return join_blocks(memoryview(data), bytes)


def test_blocks_come_back_in_order_also_of_streams_joined_end_to_end() -> None:
    stream = stream_of(DATA)
    assert is_stream(memoryview(stream))
    assert [len(block) for block in split_blocks(memoryview(stream))] == [32_768, 32_768, 11_264]
    assert b"".join(split_blocks(memoryview(stream + stream_of(b"more")))) == DATA + b"more"
    assert not is_stream(memoryview(DATA))


@pytest.mark.parametrize("size", [10, 18, 25])
def test_a_stream_that_is_cut_is_refused(size: int) -> None:
    with pytest.raises(XerialError, match=r"cut|are left"):
        list(split_blocks(memoryview(stream_of(DATA)[:size])))


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x7f\xff\xff\xff"])
def test_a_length_that_cannot_be_is_refused(length: bytes) -> None:
    stream = bytearray(stream_of(b"data"))
    stream[16:20] = length
    with pytest.raises(XerialError, match="block of"):
        list(split_blocks(memoryview(stream)))
