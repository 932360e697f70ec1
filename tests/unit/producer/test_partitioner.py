import pytest

from esp.producer.partitioner import StickyPartition, murmur2, partition_of_key


@pytest.mark.parametrize(
    ("data", "expected"),
    [  # from Kafka's UtilsTest.testMurmur2
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_keys_are_hashed_as_kafka_hashes_them(data, expected):
    assert murmur2(data) == expected & 0xFFFF_FFFF


def test_a_key_has_one_partition():
    assert partition_of_key(b"foobar", 10) == (-790332482 & 0x7FFF_FFFF) % 10


def test_partition_stays_until_it_moves_and_moves_to_another_one():
    sticky = StickyPartition(lambda limit: limit - 1)
    assert [sticky.get([0, 1, 2], {0, 1, 2}) for _ in range(3)] == [2, 2, 2]
    sticky.move([0, 1, 2], {0, 1, 2})
    assert sticky.get([0, 1, 2], {0, 1, 2}) == 1


def test_partition_without_a_leader_gives_way():
    sticky = StickyPartition(lambda limit: limit - 1)
    assert sticky.get([0, 1, 2], {0, 1}) == 1
    assert sticky.get([0, 1, 2], {0, 2}) == 2
    assert sticky.get([0, 1, 2], set()) == 2


def test_only_partition_stays():
    sticky = StickyPartition(lambda limit: 0)
    assert sticky.get([4], {4}) == 4
    sticky.move([4], {4})
    assert sticky.get([4], {4}) == 4
