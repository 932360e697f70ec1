import pytest

from esp.model.errors import ApiError, ErrorCode
from esp.records.batch import iterate_records
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.records.compression import Codec
from esp.replication import topic_codec
from esp.replication.topic_codec import (
    RecompressionNeededError,
    TopicCodec,
    recompress_for_topic,
    require_topic_codec,
)
from esp.settings.topic import TopicSettings

NOW_MS = 1_700_000_000_000


def batch(value=b"v" * 1000, codec=Codec.NONE, *timestamps):
    records = [NewRecord(value=value, timestamp=timestamp) for timestamp in timestamps or (NOW_MS,)]
    return bytearray(build_batch(records, timestamp_ms=NOW_MS, codec=codec))


def refusal(batch, **settings):
    with pytest.raises(ApiError) as caught:
        recompress_for_topic(batch, TopicSettings(**settings), NOW_MS)
    return caught.value.code


@pytest.mark.parametrize(
    ("settings", "codec"),
    [
        ({}, None),
        ({"compression_type": "uncompressed", "compression_gzip_level": 3}, TopicCodec(Codec.NONE, None)),
        ({"compression_type": "gzip", "compression_gzip_level": 3}, TopicCodec(Codec.GZIP, 3)),
        ({"compression_type": "snappy"}, TopicCodec(Codec.SNAPPY, None)),
        ({"compression_type": "lz4"}, TopicCodec(Codec.LZ4, 9)),
        ({"compression_type": "zstd", "compression_zstd_level": -7}, TopicCodec(Codec.ZSTD, -7)),
    ],
)
def test_the_setting_names_codec_and_level(settings, codec):
    assert topic_codec.topic_codec(TopicSettings(**settings)) == codec


@pytest.mark.parametrize("codec", Codec)
def test_only_a_batch_of_another_codec_needs_recompression(codec):
    require_topic_codec(codec, TopicSettings())
    require_topic_codec(Codec.LZ4, TopicSettings(compression_type="lz4"))
    if codec != Codec.LZ4:
        with pytest.raises(RecompressionNeededError):
            require_topic_codec(codec, TopicSettings(compression_type="lz4"))


def test_a_batch_of_the_topics_codec_stays_as_it_is():
    same = batch(b"v", Codec.ZSTD)
    assert recompress_for_topic(same, TopicSettings(compression_type="zstd"), NOW_MS) is same
    assert recompress_for_topic(same, TopicSettings(), NOW_MS) is same


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("codec", Codec)
def test_records_stay_the_same(name, codec):
    produced = batch(b"v", codec)
    recompressed = recompress_for_topic(produced, TopicSettings(compression_type=name), NOW_MS)
    assert read_header(recompressed).codec == ("uncompressed", "gzip", "snappy", "lz4", "zstd").index(name)
    assert list(iterate_records(recompressed)) == list(iterate_records(produced))


def test_a_batch_that_holds_more_than_the_topic_takes_is_not_decompressed():
    large = batch(bytes(2_000_000), Codec.ZSTD)
    assert refusal(large, compression_type="uncompressed") is ErrorCode.message_too_large
    recompress_for_topic(large, TopicSettings(compression_type="gzip"), NOW_MS)
    recompress_for_topic(large, TopicSettings(compression_type="uncompressed", max_message_bytes=2_000_100), NOW_MS)


def test_a_bomb_is_too_large_whatever_it_would_come_to():
    bomb = batch(bytes(topic_codec.OPENED_BYTES_MAX), Codec.ZSTD)
    assert refusal(bomb, compression_type="gzip") is ErrorCode.message_too_large


def test_records_that_are_none_are_refused():
    spoiled = batch(b"v", Codec.GZIP)
    spoiled[-9] ^= 1
    assert refusal(spoiled, compression_type="uncompressed") is ErrorCode.invalid_record


def test_each_timestamp_is_held_against_the_topics_limits():
    late, early = (batch(b"v", Codec.GZIP, NOW_MS, at, NOW_MS) for at in (NOW_MS + 4_000_000, NOW_MS - 9000))
    assert refusal(late, compression_type="lz4") is ErrorCode.invalid_timestamp
    settings = {"compression_type": "lz4", "message_timestamp_before_max_ms": 8999}
    assert refusal(early, **settings) is ErrorCode.invalid_timestamp
    recompress_for_topic(early, TopicSettings(compression_type="lz4"), NOW_MS)
    recompress_for_topic(late, TopicSettings(message_timestamp_type="LogAppendTime", **settings), NOW_MS)


def test_a_large_batch_is_opened_in_the_memory_that_it_is_given():
    asked = []

    def allocate(size):
        asked.append(size)
        return memoryview(bytearray(size))

    large = batch(bytes(1_000_000), Codec.GZIP)
    settings = TopicSettings(compression_type="lz4")
    assert recompress_for_topic(large, settings, NOW_MS, allocate) == recompress_for_topic(large, settings, NOW_MS)
    assert asked
