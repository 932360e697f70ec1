"""Kafka's own classes read the batches that we build, in every codec: through dump-log, which opens each record."""

import random
import re
from pathlib import Path

import pytest

from esp.records.builder import build_batch
from esp.records.compression import Codec
from esp.records.record import NewRecord
from esp.testing.kafka_tools import KafkaTools
from tests.integration.dump_log import dump

TIMESTAMP = 1_700_000_000_000
RANDOM_TEXT = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=200_000))


def batches_of(codec: Codec) -> list[list[NewRecord]]:
    """Small records with keys and headers, a value of many compression blocks, one that does not compress, nulls."""
    small = [
        NewRecord(b"value-%d" % i, b"key-%d" % i, (("name", b"x"), ("null", None)), TIMESTAMP + i) for i in range(30)
    ]
    return [
        small,
        [NewRecord(b"a" * 300_000, timestamp=TIMESTAMP)],
        [NewRecord(RANDOM_TEXT.encode(), timestamp=TIMESTAMP)],
        [NewRecord(None, b"tombstone", timestamp=TIMESTAMP), NewRecord(b"", b"", timestamp=TIMESTAMP)],
    ]


@pytest.mark.kafka
def test_kafka_reads_every_record_of_every_codec(kafka_tools: KafkaTools, tmp_path: Path):
    segment = tmp_path / "topic-0" / f"{0:020d}.log"
    segment.parent.mkdir()
    written: list[NewRecord] = []
    with segment.open("wb") as file:
        for codec in Codec:
            for records in batches_of(codec):
                file.write(build_batch(records, base_offset=len(written), leader_epoch=0, codec=codec))
                written += records
    output = dump(kafka_tools, [segment], "--deep-iteration", "--print-data-log")

    codecs = re.findall(r"compresscodec: (\w+)", output)
    assert codecs == [codec.name.lower() for codec in Codec for _ in batches_of(codec)]
    assert output.count("isvalid: true") == len(codecs)
    read = re.findall(
        r"^\| offset: (\d+) CreateTime: (\d+) keySize: (-?\d+) valueSize: (-?\d+) sequence: -1 headerKeys: \[(.*?)\]"
        r"(?: key: (\S*))?(?: payload: (\S*))?",
        output,
        re.MULTILINE,
    )
    assert len(read) == len(written)
    for offset, (record, line) in enumerate(zip(written, read, strict=True)):
        assert (int(line[0]), int(line[1])) == (offset, record.timestamp)
        assert int(line[2]) == (-1 if record.key is None else len(record.key))
        assert int(line[3]) == (-1 if record.value is None else len(record.value))
        assert line[4] == ",".join(name for name, _ in record.headers)
        assert line[5] == (record.key or b"").decode()
        assert line[6] == (record.value or b"").decode()
