"""Work in slices: who yields when, what is refused."""

import pytest

from esp.protocol.errors import DecodeError
from esp.protocol.fetch_codec import FetchRequest, decode_fetch_in_slices
from esp.protocol.messages import encode_request
from esp.protocol.primitives import I32
from esp.protocol.produce_codec import ProduceRequest, begin_decoding_produce, read_acks
from esp.protocol.progress import AT_ONCE_ELEMENTS, ELEMENTS_MAX, SLICE_ELEMENTS, Progress, begin, slices, whole
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import fetch_request, produce_request
from tests.unit.broker.simulated_node import records

HEADER_BYTES = {True: 16, False: 15}
"""The size of the header of a frame with the client id "c", by whether its version is flexible."""


def body_of(api_key, version, message, *, flexible):
    return memoryview(bytearray(encode_request(api_key, version, 1, "c", message)))[HEADER_BYTES[flexible] :]


def counted(work):
    """The result, and how many times it yielded."""
    yields = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, yields
        yields += 1


def steps(count):
    for _ in range(count):
        yield
    return count


def test_an_element_is_due_after_each_slice():
    progress = Progress(3)
    assert [progress.count_one() for _ in range(3)] == [False] * 3
    for _ in range(3):
        assert [progress.count_one() for _ in range(SLICE_ELEMENTS)] == [True] + [False] * (SLICE_ELEMENTS - 1)


def test_more_elements_than_anybody_could_want_are_refused():
    progress = Progress()
    progress.take(ELEMENTS_MAX)
    with pytest.raises(DecodeError):
        progress.take(1)


def test_work_of_one_slice_is_done_when_it_is_begun():
    assert begin(steps(0)) == 0
    assert whole(begin(steps(3))) == 3
    assert [len(part) for part in slices(range(2 * SLICE_ELEMENTS + 1))] == [SLICE_ELEMENTS, SLICE_ELEMENTS, 1]


@pytest.mark.parametrize("version", [3, 8, 9, 12])
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_a_produce_request_for_many_partitions_is_read_in_slices(version, acks):
    for count in (2, AT_ONCE_ELEMENTS // 2, AT_ONCE_ELEMENTS // 2 + 1, 1_000):
        parts = [("t" * (number % 2 + 1), number, records(b"a")) for number in range(count)]
        message = produce_request(parts, version=version, acks=acks)
        body = body_of(ApiKey.PRODUCE, version, message, flexible=version >= 9)
        begun = begin_decoding_produce(body, version)
        assert isinstance(begun, ProduceRequest) is (2 * count <= AT_ONCE_ELEMENTS)
        if not isinstance(begun, ProduceRequest):
            assert read_acks(body, version) == acks
            begun, yields = counted(begun)
            assert yields == (2 * count - AT_ONCE_ELEMENTS - 1) // SLICE_ELEMENTS
        assert [part[1] for part in begun.partitions] == list(range(count))


@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_fetch_request_for_many_partitions_is_read_in_slices(version):
    for count in (1, AT_ONCE_ELEMENTS // 2, AT_ONCE_ELEMENTS // 2 + 1, 1_000):
        parts = [("t", number, 0) for number in range(count)]
        forgotten = [("t", number) for number in range(count)] if version >= 7 else []
        message = fetch_request(parts, version=version, forgotten=forgotten)
        body = body_of(ApiKey.FETCH, version, message, flexible=version >= 12)
        asked, yields = counted(decode_fetch_in_slices(body, version))
        assert isinstance(asked, FetchRequest)
        elements = 2 * count + 2 * len(forgotten)
        assert yields == max(0, (elements - AT_ONCE_ELEMENTS - 1) // SLICE_ELEMENTS + 1)
        assert len(asked.partitions) == count
        assert len(asked.forgotten) == len(forgotten)


def test_more_partitions_than_anybody_could_want_are_refused():
    count = ELEMENTS_MAX + 1
    body = memoryview(b"\xff\xff" + b"\0\1" + bytes(4) + I32.pack(1) + b"\0\1t" + I32.pack(count) + bytes(8) * count)
    with pytest.raises(DecodeError, match="elements"):
        whole(begin_decoding_produce(body, 3))
