"""The codec in which a topic keeps its batches (``compression.type``), and bringing a produced batch into it.

Opening a batch may take long and much memory, so leaders do not do it: they refuse a batch of another codec than its topic's, with
:class:`RecompressionNeededError`, and the caller comes again with the result of :func:`recompress_for_topic`, which runs beside the loop.
"""

from typing import Final, NamedTuple

from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.records.batch_header import HEADER_SIZE, read_header
from esp.records.compression import Allocate, Codec, TooLargeError
from esp.records.recompression import recompress
from esp.replication.keyless import require_keys
from esp.replication.produced_batch import validate_timestamps
from esp.settings.topic import AS_PRODUCED, TopicSettings

OPENED_BYTES_MAX: Final = 32 * 1024 * 1024
"""The most bytes of a batch that is recompressed: 30 times the largest batch of default size. Topics with larger batches may hold as much
as these. It bounds the memory that senders can take (a batch of a few KiB may claim any size), and the time for which a thread is busy."""


class RecompressionNeededError(Exception):
    """A batch must be opened beside the loop: it has another codec than its topic, or is to be searched for records without a key.

    Nothing was done with it.
    """


class TopicCodec(NamedTuple):
    """A codec, and how hard it works as Kafka's settings number it, None where it knows no levels."""

    codec: Codec
    level: int | None


def topic_codec(settings: TopicSettings) -> TopicCodec | None:
    """The codec of a topic's batches; None if they are kept as they came."""
    match settings.compression_type:
        case "uncompressed":
            return TopicCodec(Codec.NONE, None)
        case "gzip":
            return TopicCodec(Codec.GZIP, settings.compression_gzip_level)
        case "snappy":
            return TopicCodec(Codec.SNAPPY, None)
        case "lz4":
            return TopicCodec(Codec.LZ4, settings.compression_lz4_level)
        case "zstd":
            return TopicCodec(Codec.ZSTD, settings.compression_zstd_level)
    assert settings.compression_type == AS_PRODUCED, "settings are checked before they count"
    return None


def require_topic_codec(codec: int, settings: TopicSettings) -> None:
    """Refuse a batch that must be recompressed first.

    Raises:
        RecompressionNeededError: the topic's codec is another one.
    """
    wanted = topic_codec(settings)
    if wanted is not None and wanted.codec != codec:
        raise RecompressionNeededError


def recompress_for_topic(
    batch: bytearray, settings: TopicSettings, now_ms: int, allocate: Allocate | None = None
) -> bytearray:
    """Return a batch, which its leader found to be in another codec or must look into, in the codec of its topic.

    Shares nothing, and may run in a thread. For ``allocate`` see :func:`~esp.records.compression.decompress_uncopied`.

    Raises:
        ApiError: INVALID_RECORD, as records are opened that do not match the header; INVALID_TIMESTAMP, as each of their timestamps is
            looked at; MESSAGE_TOO_LARGE, upon which clients divide the batch.
        KeylessRecordsError: the topic is compacted, and records have no key.
    """
    wanted = topic_codec(settings)
    most = settings.max_message_bytes
    if settings.is_compacted:
        require_keys(batch, max(OPENED_BYTES_MAX, most), allocate)
    if wanted is None or wanted.codec == read_header(batch).codec:
        return batch
    limit = max(0, most - HEADER_SIZE) if wanted.codec == Codec.NONE else max(OPENED_BYTES_MAX, most)
    try:
        recompressed = recompress(batch, wanted.codec, wanted.level, limit, allocate)
    except TooLargeError as error:
        raise ApiError(ErrorCode.message_too_large, f"The batch cannot be recompressed: {error}") from error
    except CorruptionError as error:
        raise ApiError(ErrorCode.invalid_record, f"The batch cannot be recompressed: {error}") from error
    latest = read_header(recompressed.batch).max_timestamp
    validate_timestamps(recompressed.earliest_timestamp, latest, settings, now_ms)
    return recompressed.batch
