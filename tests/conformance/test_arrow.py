"""Arrow columns from log files that Kafka wrote, and batches of ours from columns, read by Kafka."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from esp.arrow.codecs import CODECS
from esp.arrow.decoding import decode
from esp.arrow.encoding import encode
from esp.arrow.errors import Place
from esp.arrow.selection import AbortedTransaction
from esp.records.batch import iterate_records
from esp.records.batch_header import read_header
from esp.testing.kafka_tools import KafkaTools
from esp.testing.real_kafka import RealKafka
from tests.integration.transactions import transactional_producer
from tests.unit.arrow.rows import records_of, rows_of

pytestmark = pytest.mark.kafka

NOW_MS = 1_764_000_000_000
KINDS = [None, b"", b"text", b"long " * 4000, bytes(range(256))]


def batches_of(directory: Path) -> list[bytes]:
    """The batches in a partition's first segment."""
    data = (directory / f"{0:020d}.log").read_bytes()
    batches = []
    while data:
        size = read_header(data).size
        batches.append(data[:size])
        data = data[size:]
    return batches


def write(bootstrap: str, topic: str) -> int:
    """Write records with keys, values and headers of all kinds, and return how many they are."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    for number in range(2000):
        producer.produce(
            topic,
            key=KINDS[number % 4],
            value=KINDS[number % 5] if number % 7 else b"%d" % number,
            headers=[("h", b"%d" % number), ("ü", None)][: number % 3] if number % 11 == 0 else None,
            timestamp=NOW_MS + number * 100_000,
        )
    assert producer.flush(30) == 0
    return 2000


def abort_some(bootstrap: str, topic: str) -> None:
    """Write transactions, of which every second is aborted."""
    producer = transactional_producer(bootstrap, "arrow")
    for number in range(6):
        producer.begin_transaction()
        for each in range(20):
            producer.produce(topic, b"%d/%d" % (number, each))
        producer.flush()
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()


def test_log_files_of_kafka_are_read_as_columns(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    kafka = RealKafka(tmp_path / "data", tools=kafka_tools)
    kafka.start()
    try:
        settings: dict[str, dict[str, str]] = {
            codec: {"compression.type": codec if codec != "none" else "uncompressed"} for codec in CODECS
        }
        settings["appended"] = {"message.timestamp.type": "LogAppendTime"}
        settings["transactions"] = {}
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        topics = [NewTopic(name, 1, config=configs) for name, configs in settings.items()]
        for created in admin.create_topics(topics).values():
            created.result(30)
        written = {name: write(kafka.bootstrap, name) for name in settings if name != "transactions"}
        abort_some(kafka.bootstrap, "transactions")
        kafka.stop()
    finally:
        if kafka.is_running:
            kafka.kill()
    for name, count in written.items():
        batches = batches_of(tmp_path / "data" / f"{name}-0")
        data, place = b"".join(batches), Place(name, 0)
        assert {read_header(batch).codec for batch in batches} == {CODECS.get(name, 0)}
        rows = rows_of(decode(data, place))
        assert rows == records_of(batches)
        assert len(rows) == count
        kinds = pa.Table.from_batches(decode(data, place)).column("timestampType").unique().to_pylist()
        assert kinds == [1 if name == "appended" else 0]
    batches = batches_of(tmp_path / "data" / "transactions-0")
    producer_id = read_header(batches[0]).producer_id
    first_offsets = [
        next(
            record.offset for batch in batches for record in iterate_records(batch) if record.value == b"%d/0" % number
        )
        for number in (1, 3, 5)
    ]
    aborted = [AbortedTransaction(producer_id, offset) for offset in first_offsets]
    committed = rows_of(decode(b"".join(batches), Place("transactions", 0), aborted=aborted))
    assert [row.value for row in committed] == [b"%d/%d" % (number, each) for number in (0, 2, 4) for each in range(20)]
    assert len(rows_of(decode(b"".join(batches), Place("transactions", 0)))) == 120


def test_kafka_reads_batches_that_were_columns(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    values = [f"value {number} " + "x" * (number * 997 % 70_000) for number in range(40)]
    rows = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([f"key-{number}" for number in range(40)]),
            "value": pa.array(values),
            "timestamp": pa.array([NOW_MS + number for number in range(40)]).view(pa.timestamp("ms", tz="UTC")),
        }
    )
    encoded: Callable[[int, int], bytes] = lambda codec, first: b"".join(  # noqa: E731
        bytes(one.data) for one in encode(rows, codec=codec, batch_bytes=200_000, first_offset=first)
    )
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(b"".join(encoded(codec, 40 * codec) for codec in CODECS.values()))
    printed = kafka_tools.run("dump-log", "--print-data-log", "--files", str(segment))
    assert "isvalid: false" not in printed.stdout
    assert printed.stderr == ""
    payloads = [line.partition(" payload: ")[2] for line in printed.stdout.splitlines() if " payload: " in line]
    assert payloads == values * len(CODECS)
    assert [codec for codec in CODECS if f"compresscodec: {codec} " in printed.stdout] == list(CODECS)
