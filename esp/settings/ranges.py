"""Ranges that settings of nodes and of topics have in common."""

from typing import Final

from esp.settings.setting import SettingError, Value

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
LZ4_LEVELS: Final = (1, 17)
ZSTD_LEVELS: Final = (-131_072, 22)
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
LEAST_SEGMENT_BYTES: Final = 1024 * 1024


def gzip_level(value: Value) -> None:
    """Refuse what is no level of gzip."""
    if value != -1 and value not in range(1, 10):
        raise SettingError("Value must be between 1 and 9 or equal to -1")
