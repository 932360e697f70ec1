"""``esp sql`` beside a node, and on the files of a stopped one."""

import csv
import io
import json
import random
import shlex
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from esp.cli.app import run_tools
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA, NodeFactory
from tests.integration.capture_runs import produce
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.page_examples import examples_of
from tests.integration.transactions import serve_transactions, transactional_producer
from tests.unit.options.registry_server import running_registry
from tests.unit.values.avro_model import encode

COUNT = 60
SCHEMA = "carrier STRING, delay INT"
START_MS = int(time.time()) * 1000 - 7_200_000

Esp = Callable[..., str]
"""``esp(*arguments, status=0)`` runs the command in this process, and returns what it printed: results, or errors with another status."""


@pytest.fixture
def esp(capsys: pytest.CaptureFixture[str]) -> Esp:
    def run(*arguments: str, status: int = 0) -> str:
        found = run_tools(("sql", *arguments))
        printed = capsys.readouterr()
        assert found == status, printed.err
        return printed.out if status == 0 else printed.err

    return run


@pytest.fixture
def flights(node: NodeProcess, make_topic: MakeTopic) -> str:
    """A topic of two partitions, with a record a minute each."""
    topic = make_topic(partitions=2)
    write_flights(node.bootstrap, topic)
    return topic


def write_flights(bootstrap: str, topic: str) -> None:
    for partition in (0, 1):
        values = (json.dumps({"carrier": "AB"[number % 2], "delay": number}).encode() for number in range(COUNT))
        produce(bootstrap, topic, values, partition, lambda number: START_MS + number * 60_000)


def rows_of(text: str) -> list[list[str]]:
    """The rows of a table, as pipes get it."""
    return [line.split() for line in text.splitlines()]


def at(node: NodeProcess) -> Sequence[str]:
    return ("--bootstrap-server", node.bootstrap)


def test_topics_are_tables(node: NodeProcess, flights: str, esp: Esp) -> None:
    query = f'SELECT partition, count(*) AS n, max("offset") AS last FROM "{flights}" GROUP BY 1 ORDER BY 1'
    assert rows_of(esp(query, *at(node))) == [["partition", "n", "last"], ["0", "60", "59"], ["1", "60", "59"]]
    assert rows_of(esp(f'SELECT count(*) AS n FROM "{flights}"', *at(node))) == [["n"], ["120"]]
    joined = (
        f'SELECT count(*) AS n FROM "{flights}" a JOIN "{flights}" b USING (partition, "offset") WHERE a.partition = 1;'
    )
    assert rows_of(esp(joined, *at(node))) == [["n"], ["60"]]
    shown = esp(f'SELECT key, value, timestamp FROM "{flights}" WHERE "offset" = 8 AND partition = 0', *at(node))
    moment = datetime.fromtimestamp((START_MS + 8 * 60_000) / 1000, UTC).isoformat(timespec="milliseconds")
    assert shown.splitlines()[1].split(maxsplit=1) == ["key-1", f'{{"carrier": "A", "delay": 8}} {moment}']


def test_the_fields_of_values_are_columns(node: NodeProcess, flights: str, esp: Esp) -> None:
    query = f'SELECT carrier, sum(delay) AS sum FROM "{flights}" GROUP BY 1 ORDER BY 1'
    expected = [["carrier", "sum"], ["A", "1740"], ["B", "1800"]]
    assert rows_of(esp("--json", f"{flights}={SCHEMA}", query, *at(node))) == expected
    by_text = f"SELECT value->>'carrier' AS carrier, sum((value->>'delay')::INT) AS sum FROM \"{flights}\" GROUP BY 1 ORDER BY 1"
    assert rows_of(esp("--json", flights, by_text, *at(node))) == expected
    assert rows_of(
        esp("--text", flights, f'SELECT count(*) AS n FROM "{flights}" WHERE value LIKE \'%"A"%\'', *at(node))
    ) == [
        ["n"],
        ["60"],
    ]


FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "carrier", "type": "string"}, {"name": "delay", "type": "int"}],
}


def test_the_fields_of_avro_are_columns(node: NodeProcess, topic: str, make_topic: MakeTopic, esp: Esp) -> None:
    make_topic()
    produce(
        node.bootstrap, topic, [*encode(FLIGHT, [{"carrier": "A", "delay": 1}, {"carrier": "B", "delay": 2}]), b"?"]
    )
    query = f'SELECT carrier, delay, _corrupt FROM "{topic}" ORDER BY "offset"'
    given = ("--avro", f"{topic}={json.dumps(FLIGHT)}")
    expected = [["carrier", "delay", "_corrupt"], ["A", "1", "-"], ["B", "2", "-"], ["-", "-", "?"]]
    assert rows_of(esp(*given, query, *at(node))) == expected
    assert rows_of(esp(*given, query, "--data-dir", str(node.data_dir))) == expected


def test_the_columns_of_a_registry_are_those_of_the_newest_schema(
    node: NodeProcess, topic: str, make_topic: MakeTopic, esp: Esp
) -> None:
    make_topic()
    gate = {"name": "gate", "type": ["null", "string"], "default": None}
    newer = {**FLIGHT, "fields": [FLIGHT["fields"][0], {"name": "delay", "type": "long"}, gate]}
    with running_registry() as registry:
        values = []
        for schema, value in (
            (FLIGHT, {"carrier": "A", "delay": 1}),
            (newer, {"carrier": "B", "delay": 2**40, "gate": "C4"}),
        ):
            number = registry.add(schema, f"{topic}-value")
            values += [struct.pack(">BI", 0, number) + encoded for encoded in encode(schema, [value])]
        produce(node.bootstrap, topic, values)
        query = f'SELECT carrier, delay, gate FROM "{topic}" ORDER BY "offset"'
        given = ("--avro", topic, "--schema-registry", registry.url)
        assert rows_of(esp(*given, query, *at(node))) == [
            ["carrier", "delay", "gate"],
            ["A", "1", "-"],
            ["B", str(2**40), "C4"],
        ]


LATE = datetime.fromtimestamp((START_MS + 55 * 60_000 - 1) / 1000, UTC).isoformat()


@pytest.mark.parametrize(
    ("bounds", "count"),
    [
        (("--from", "50"), 20),
        (("--from", "10", "--to", "15"), 10),
        (("--to", "500"), 120),
        (("--from", "500"), 0),
        (("--from", LATE), 10),
        (("--to", LATE), 110),
        (("--from", "2100-01-01"), 0),
    ],
    # of the places, not of the times: all processes of a run must give a test the same name
    ids=["from", "from and to", "to", "from beyond the end", "from a time", "to a time", "from a time to come"],
)
def test_a_read_has_bounds_by_offset_and_by_time(
    fresh_node: NodeFactory, node: NodeProcess, flights: str, esp: Esp, bounds: Sequence[str], count: int
) -> None:
    query = f'SELECT count(*) AS n FROM "{flights}"'
    assert rows_of(esp(*bounds, query, *at(node))) == [["n"], [str(count)]]
    assert rows_of(esp(*bounds, query, "--data-dir", str(node.data_dir))) == [["n"], [str(count)]]


def run(arguments: Sequence[str]) -> str:
    done = subprocess.run([sys.executable, "-m", "esp", "sql", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_results_have_several_forms(node: NodeProcess, flights: str, tmp_path: Path) -> None:
    query = f'SELECT carrier, delay FROM "{flights}" WHERE partition = 0 ORDER BY delay LIMIT 3 -- the first'
    arguments = ("--json", f"{flights}={SCHEMA}", query, *at(node))
    expected = [{"carrier": "A", "delay": 0}, {"carrier": "B", "delay": 1}, {"carrier": "A", "delay": 2}]
    found = csv.DictReader(io.StringIO(run([*arguments, "--format", "csv"])))
    assert [{**row, "delay": int(row["delay"])} for row in found] == expected
    assert [json.loads(line) for line in run([*arguments, "--format", "json"]).splitlines()] == expected
    path = tmp_path / "it's.parquet"
    run([*arguments, "--format", "parquet", "--output", str(path)])
    assert pq.read_table(path).to_pylist() == expected


def test_aborted_transactions_are_left_out_if_asked(node: NodeProcess, make_topic: MakeTopic, esp: Esp) -> None:
    if not AGAINST_KAFKA:
        serve_transactions(node.bootstrap, [node])
    topic = make_topic()
    producer = transactional_producer(node.bootstrap, "sql")
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"x")
        producer.flush()
        end()
    query = f'SELECT count(*) AS n FROM "{topic}"'
    assert rows_of(esp(query, *at(node))) == [["n"], ["2"]]
    assert rows_of(esp(query, "--isolation-level", "read_committed", *at(node))) == [["n"], ["1"]]


def test_the_files_of_a_stopped_node_are_read_and_their_ends_shown(
    fresh_node: NodeFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    node = fresh_node({"auto.create.topics.enable": "true", "num.partitions": "2", "log.segment.bytes": "1048576"})
    write_flights(node.bootstrap, "flights")
    produce(node.bootstrap, "large", (random.randbytes(100_000) for _ in range(30)))
    node.stop()
    last = max((node.data_dir / "flights-1").glob("*.log"))
    with open(last, "ab") as file:
        file.write(bytes(30))  # torn
    query = "SELECT partition, count(*) AS n FROM flights GROUP BY 1 ORDER BY 1"
    assert run_tools(("sql", query, "--data-dir", str(node.data_dir))) == 0
    printed = capsys.readouterr()
    assert rows_of(printed.out) == [["partition", "n"], ["0", "60"], ["1", "60"]]
    notes = " ".join(printed.err.split())
    assert "partition 0 of topic flights: 1 segment from offset 0 on; the records end before offset 60 " in notes
    assert "30 bytes of a batch that was not written in full are left out" in notes
    query = "SELECT count(*) AS n, sum(octet_length(value)) AS size FROM large"
    assert run_tools(("sql", query, "--data-dir", str(node.data_dir), "--from", "5", "--to", "25")) == 0
    printed = capsys.readouterr()
    assert rows_of(printed.out) == [["n", "size"], ["20", "2000000"]]
    assert "segments from offset 0 on; the records end before offset 30" in " ".join(printed.err.split())


def test_the_files_of_a_stopped_node_have_what_it_answered(
    fresh_node: NodeFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records of all codecs, with aborted and undecided transactions, behind deleted records, and where compaction has left gaps."""
    cleaning = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0.01"}
    node = fresh_node({"transaction.state.log.num.partitions": "1", "num.partitions": "1", **cleaning})
    if not AGAINST_KAFKA:
        serve_transactions(node.bootstrap, [node])
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    compacted = {"num_partitions": 1, "configs": {"cleanup.policy": "compact", "segment.ms": "100"}}
    others = {name: {"num_partitions": 1} for name in (*codecs, "transactions", "deleted", "empty")}
    admin.create_topics({**others, "compacted": compacted}, wait_for_metadata=True)
    for codec in codecs:
        write_codec(node.bootstrap, codec)
    producer = transactional_producer(node.bootstrap, "sql")
    for end in (producer.abort_transaction, producer.commit_transaction, lambda: None):
        producer.begin_transaction()
        producer.produce("transactions", b"x")
        producer.flush()
        end()
    produce(node.bootstrap, "deleted", (b"%d" % number for number in range(30)))
    admin.delete_records({TopicPartition("deleted", 0): 12})
    admin.close()
    writer = Producer({"bootstrap.servers": node.bootstrap})
    question = (
        'SELECT count(*), count(key), sum(octet_length(value)), min("offset"), max("offset"), sum(len(headers)) FROM {}'
    )

    def ask(topic: str, *where: str) -> list[str]:
        assert run_tools(("sql", question.format(f'"{topic}"'), *where)) == 0
        return rows_of(capsys.readouterr().out)[1]

    def is_compacted() -> bool:
        """Compaction leaves the active segment alone: each record written here begins another."""
        writer.produce("compacted", b"x", b"key")
        assert writer.flush(30) == 0
        count, *_, last, _ = ask("compacted", *at(node))
        return int(last) > 5 and int(count) <= 3

    eventually(is_compacted, 120)
    answers = {topic: ask(topic, *at(node)) for topic in (*others, "compacted")}
    producer.abort_transaction()  # undecided when the node was asked; a record of control more
    node.stop()
    files = {topic: ask(topic, "--data-dir", str(node.data_dir)) for topic in answers}
    before, after = answers.pop("compacted"), files.pop("compacted")
    assert files == answers
    assert 1 <= int(after[0]) <= int(before[0]), "it may be compacted once more"
    assert after[4] == before[4], "the last record stays"
    assert [answers[topic][0] for topic in ("gzip", "transactions", "deleted", "empty")] == ["500", "3", "18", "0"]


def write_codec(bootstrap: str, codec: str) -> None:
    """Write to the topic of the codec's name: records with a key or none, and some without a value."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 100})
    for number in range(500):
        value = None if number % 7 == 0 else b"value %d" % number * 5
        producer.produce(codec, value, None if number % 3 else b"%d" % number, headers=[("h", b"%d" % number)])
    assert producer.flush(30) == 0


def test_the_examples_of_the_page_run(fresh_node: NodeFactory, capsys: pytest.CaptureFixture[str]) -> None:
    node = fresh_node({"auto.create.topics.enable": "true", "num.partitions": "2"})
    write_flights(node.bootstrap, "flights")
    examples = sorted(examples_of("SQL.md"), key=lambda example: "--data-dir" in example.command)
    assert len(examples) == 2
    for command, output in examples:
        words = shlex.split(command.replace("/var/lib/esp", str(node.data_dir)))
        if "--data-dir" not in words:
            words += at(node)
        elif node.is_running:
            node.stop()
            with open(max((node.data_dir / "flights-1").glob("*.log")), "ab") as file:
                file.write(bytes(30))  # torn
        assert run_tools(tuple(words)) == 0
        printed = capsys.readouterr()
        assert (printed.err + printed.out).split() == " ".join(output).split()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["SELEC 1"], "syntax error"),
        (["DROP TABLE t"], "Only SELECT statements"),
        (["SELECT * FROM nowhere"], "Table with name nowhere does not exist"),
        (["SELECT nothing FROM {topic}"], '"nothing" not found'),
        (["SELECT 1", "--format", "xml"], "--format xml: not a form of the result"),
        (["SELECT 1", "--json", "t=a INT"], "an option has the values of topic t, which the query does not read"),
        (["SELECT * FROM {topic}", "--json", "{topic}=a BLUE"], "BLUE"),
        (["SELECT * FROM {topic}", "--json", '{topic}="offset" INT'], "offset"),
        (["SELECT * FROM {topic}", "--from", "yesterday"], "--from yesterday"),
        (["SELECT * FROM {topic}", "--avro", "{topic}"], ": it has no schema Write --avro "),
        (["SELECT 1", "--json", "t=a NOTYPE"], "--json t=a NOTYPE: the type notype is not known: write one of BOOLEAN"),
        (["SELECT 1", "--avro", "t={"], "--avro t={: it is no JSON"),
        (["SELECT 1", "--json", "=a INT"], "--json =a INT: it names no topic Write --json TOPIC=a INT."),
        (["SELECT 1", "--from", "10", "--to", "5"], "--from 10: it is behind --to 5, and nothing would be read"),
        (["SELECT 1", "--from", "2026-11-26", "--to", "2026-11-25"], "--from 2026-11-26: it is behind --to 2026-11-25"),
        (["SELECT 1", "--data-dir", "/nowhere"], "--bootstrap-server: no broker is asked where --data-dir is given"),
        (["SELECT 1", "--schema-registry", "http://r:8081"], "http://r:8081: it has an effect with --avro only"),
        (["SELECT 1", "--isolation-level", "none"], "--isolation-level none: not a level"),
    ],
    ids=str,
)
def test_bad_input_is_answered_in_one_line(
    node: NodeProcess, flights: str, esp: Esp, arguments: list[str], words: str
) -> None:
    texts = [text.replace("{topic}", flights if text.startswith("{") else f'"{flights}"') for text in arguments]
    error = esp(*texts, *at(node), status=1)
    assert words in " ".join(error.split())


def test_a_data_directory_that_is_not_there_is_named(esp: Esp) -> None:
    assert "/nowhere: No such file or directory" in " ".join(
        esp("SELECT 1", "--data-dir", "/nowhere", status=1).split()
    )
