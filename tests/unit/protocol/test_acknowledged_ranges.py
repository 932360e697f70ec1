"""Acknowledged offsets are read as ranges that say what Kafka's batches say, in slices, and no bytes of a peer make it more."""

import struct
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kio.schema.share_acknowledge.v2 import request as acknowledge
from kio.schema.share_fetch.v2 import request as fetch

from esp.model.errors import ApiError
from esp.protocol.acknowledged_ranges import RANGES_SLICE, AcknowledgedRange, read_acknowledged_ranges
from esp.protocol.errors import DecodeError
from esp.protocol.messages import decode_request, decode_request_in_slices, encode_request
from esp.protocol.primitives import pack_uvarint
from esp.protocol.progress import ELEMENTS_MAX, Progress, whole
from esp.protocol.registry import ApiKey
from esp.share.acknowledgements import AcknowledgementBatch
from esp.share.acquiring import FetchedBatch
from esp.share.partition import PersistedState, SharePartition, ShareSettings
from tests.unit.protocol.strategies import kio_bytes

INT64 = st.integers(-(2**63), 2**63 - 1)
TYPES = st.integers(-128, 127)


def batch(first, last, *types):
    return fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)


def encoded(batches):
    """An array as it stands in a request."""
    return pack_uvarint(len(batches) + 1) + b"".join(map(kio_bytes, batches))


def read(data, progress=None):
    ranges, position = whole(read_acknowledged_ranges(memoryview(data), 0, progress or Progress()))
    assert position == len(data)
    return [(each.first_offset, each.last_offset, tuple(each.acknowledge_types)) for each in ranges]


def words(batches):
    """The word on each offset, in order, by Kafka's batches or by our ranges."""
    said = []
    for first, last, types in batches:
        size = last - first + 1
        said += zip(range(first, last + 1), types * size if len(types) == 1 else types, strict=True)
    return said


def test_neighbours_of_one_type_are_one_range():
    batches = [batch(5, 5, 1), batch(6, 9, 1), batch(10, 10, 2), batch(12, 12, 2), batch(13, 13, 2)]
    assert read(encoded(batches)) == [(5, 9, (1,)), (10, 10, (2,)), (12, 13, (2,))]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 4), st.booleans()), max_size=300))
def test_ranges_say_what_batches_say(shapes):
    batches, offset = [], 0
    for gap, size, type_, is_long in shapes:
        offset += gap
        types = tuple((type_ + place) % 5 for place in range(size)) if is_long else (type_,)
        batches.append((offset, offset + size - 1, types))
        offset += size
    assert words(read(encoded([batch(*span, *types) for *span, types in batches]))) == words(batches)


@given(st.lists(st.tuples(INT64, INT64, st.lists(TYPES, max_size=3)), max_size=5))
def test_what_no_member_may_send_stays_as_it_is(shapes):
    """Reversed batches, overlapping ones, unknown types, too few or too many: the share partition refuses them."""
    expected = [(first, last, tuple(types)) for first, last, types in shapes]
    found = read(encoded([batch(first, last, *types) for first, last, types in expected]))
    follows = any(one[1] + 1 == other[0] for one, other in pairwise(expected))
    assert found == expected or follows


@st.composite
def said(draw):
    """Batches that mostly follow one another, with gaps, overlaps, and types that are odd or too many; each with its tagged fields."""
    batches, last = [], draw(st.integers(-2, 4))
    for _ in range(draw(st.integers(1, 12))):
        first = last + draw(st.sampled_from((1, 1, 1, 1, 2, 0, 0, -1)))
        size = draw(st.sampled_from((1, 1, 1, 1, 2, 3, 0)))
        types = (draw(st.sampled_from((1, 1, 1, 2, 2, 0, 3, 4, 5, -1))),)
        if draw(st.integers(0, 5)) == 5:
            types *= max(0, size + draw(st.sampled_from((0, 0, 0, 1, -1))))
        last = first + size - 1
        batches.append((first, last, types, draw(st.sampled_from((b"", b"", b"", b"\x05\x02xy")))))
    return batches


def outcome(batches, *, allows_renew):
    """What a share partition makes of a member's words: 0 and 1 are done with, 2 to 11 the member has, 12 and 13 another one."""
    share = SharePartition(PersistedState(7, 2), ShareSettings(30_000, 1, 2_000))
    for member, first, end in (("m", 2, 12), ("n", 12, 14)):
        share.acquire(member, [FetchedBatch(first, end)], first, 0, records_max=20, batch_size=20)
    words = [AcknowledgementBatch(*batch) for batch in batches]
    try:
        write = whole(share.acknowledge("m", words, 5, allows_renew=allows_renew))
    except ApiError as error:
        return error.code, share.runs
    return write, share.runs


@given(said(), st.booleans())
@example([(4, 4, (1,), b""), (4, 4, (1,), b""), *((offset, offset, (1,), b"") for offset in range(5, 15))], False)
def test_a_share_partition_makes_the_same_of_ranges_as_of_batches(batches, allows_renew):
    """Also where it refuses them: the first thing that is wrong says with which error."""
    data = pack_uvarint(len(batches) + 1)
    for first, last, types, tagged in batches:
        data += kio_bytes(batch(first, last, *types))[:-1] + (b"\x01" + tagged if tagged else b"\x00")
    plain = [each[:3] for each in batches]
    assert outcome(read(data), allows_renew=allows_renew) == outcome(plain, allows_renew=allows_renew)


@pytest.mark.parametrize(
    "batches",
    [
        [(5, 4, (1,)), (5, 5, (1,))],
        [(7, 7, (1,)), (6, 6, (1,)), (5, 5, (1,))],
        [(0, 9, (1,)), (5, 9, (1,))],
        [(0, 0, (1,)), (0, 0, (1,))],
        [(3, 2, (1,)), (3, 2, (1,))],
        [(0, 0, ()), (1, 1, (9,))],
    ],
    ids=["reversed", "descending", "overlapping", "twice", "reversed twice", "odd types"],
)
def test_only_batches_that_follow_one_another_are_joined(batches):
    assert read(encoded([batch(first, last, *types) for first, last, types in batches])) == batches


def test_tagged_fields_are_skipped():
    tagged = kio_bytes(batch(1, 1, 1))[:-1] + b"\x01\x05\x02xy"
    assert read(b"\x04" + kio_bytes(batch(0, 0, 1)) + tagged + kio_bytes(batch(2, 2, 1))) == [
        (0, 0, (1,)),
        (1, 1, (1,)),
        (2, 2, (1,)),
    ]


@pytest.mark.parametrize("api", [fetch, acknowledge])
@pytest.mark.parametrize("version", [1, 2])
def test_both_requests_are_read_so_at_once_and_in_slices(api, version):
    key = ApiKey.SHARE_FETCH if api is fetch else ApiKey.SHARE_ACKNOWLEDGE
    kind = api.ShareFetchRequest if api is fetch else api.ShareAcknowledgeRequest
    topic = api.FetchTopic if api is fetch else api.AcknowledgeTopic
    partition = api.FetchPartition if api is fetch else api.AcknowledgePartition
    batches = tuple(
        api.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=(1,)) for offset in range(9)
    )
    more = {"max_wait": timedelta(0), "min_bytes": 0, "max_records": 1, "batch_size": 1, "forgotten_topics_data": ()}
    message = kind(
        group_id="g",
        member_id="m",
        share_session_epoch=1,
        topics=(topic(topic_id=None, partitions=(partition(partition_index=3, acknowledgement_batches=batches),)),),
        **(more if api is fetch else {}),
    )
    body = memoryview(encode_request(key, version, 0, "", message))[15:]
    for found in (decode_request(key, version, body), whole(decode_request_in_slices(key, version, body))):
        (read_partition,) = found.topics[0].partitions
        assert read_partition.partition_index == 3
        assert read_partition.acknowledgement_batches == (AcknowledgedRange(0, 8, (1,)),)
        assert isinstance(found, kind)


def slices_of(data, progress=None):
    return sum(1 for _ in read_acknowledged_ranges(memoryview(data), 0, progress or Progress()))


def test_many_batches_are_read_in_slices():
    assert slices_of(encoded([batch(offset, offset, 1) for offset in range(50 * RANGES_SLICE)])) == 49
    assert slices_of(encoded([batch(offset, offset + 1, 1, 2) for offset in range(0, 100, 2)])) == 49


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"\xff\xff\xff\xff\x0f",
        pack_uvarint(2**31),
        b"\x02" + kio_bytes(batch(0, 0, 1))[:16] + pack_uvarint(2**31) + bytes(50),
        b"\x02" + kio_bytes(batch(0, 0, 1))[:16] + b"\x00\x00",
        encoded([batch(0, 0, 1)] * 3)[:-1] + b"\x65",
    ],
    ids=["null", "2^32 batches", "2^31 batches", "2^31 types", "null types", "100 tagged fields"],
)
def test_counts_that_the_bytes_cannot_hold_are_refused(data):
    with pytest.raises(DecodeError):
        read(data)


def test_a_message_has_so_many_elements_at_most():
    for data in (
        encoded([batch(0, 0, 1)]) + bytes(10),
        b"\x02" + kio_bytes(batch(0, 0, 1))[:16] + pack_uvarint(ELEMENTS_MAX + 1) + bytes(ELEMENTS_MAX + 1),
    ):
        progress = Progress()
        progress.elements_left = 0 if len(data) < 100 else ELEMENTS_MAX
        with pytest.raises(DecodeError):
            read(data, progress)


def test_a_cut_array_is_refused():
    data = encoded([batch(0, 0, 1), batch(1, 2, 1, 2), batch(3, 3, 1)])
    for size in range(len(data)):
        with pytest.raises((DecodeError, IndexError, struct.error)):
            read(data[:size])
