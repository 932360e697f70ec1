"""The history of a topic: captured files, and the topic behind them, each record once."""

import re
from pathlib import Path

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from pyspark.sql import SparkSession

from esp.options.errors import OptionError
from esp.options.value_options import parse_value_options
from esp.spark import history
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.capture_runs import capture, names_in, produce
from tests.integration.conftest import MakeTopic
from tests.integration.topic_changes import add_partitions, recreate
from tests.integration.transactions import serve_transactions, write_by_librdkafka


@pytest.fixture(scope="module")
def bootstrap(node: NodeProcess) -> str:
    """The node, which serves transactions."""
    if not AGAINST_KAFKA:
        serve_transactions(node.bootstrap, [node])
    return node.bootstrap


def servers(bootstrap: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap}


def test_each_record_comes_once(
    spark: SparkSession, bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, admin: KafkaAdminClient
) -> None:
    make_topic(partitions=2)
    write_by_librdkafka(bootstrap, f"{topic}-id", topic, [(True, [b"a", b"b"]), (False, [b"x", b"y"])])
    assert history(spark, topic, str(tmp_path), servers(bootstrap)).count() == 2, "nothing is captured yet"
    capture(bootstrap, topic, tmp_path, "history")
    admin.delete_records({TopicPartition(topic, 0): 1})  # what is in files may go
    write_by_librdkafka(bootstrap, f"{topic}-id", topic, [(False, [b"x", b"y"]), (True, [b"c", b"d"])])
    add_partitions(admin, topic, 3)
    produce(bootstrap, topic, [b"e"], 2)
    rows = history(spark, topic, str(tmp_path), servers(bootstrap))
    read = spark.read.format("esp").options(**servers(bootstrap), subscribe=topic).load()
    assert rows.schema == read.schema
    found = rows.select("value", "partition", "topic").collect()
    assert sorted((row.value, row.partition, row.topic) for row in found) == [
        (b"a", 0, topic),
        (b"b", 1, topic),
        (b"c", 0, topic),
        (b"d", 1, topic),
        (b"e", 2, topic),
    ]
    capture(bootstrap, topic, tmp_path, "history")
    assert rows.sparkSession.read.parquet(str(tmp_path / topic)).count() == 5, "other readers see whole files only"
    assert history(spark, topic, str(tmp_path), servers(bootstrap)).count() == 5


def test_the_example_of_the_page_runs(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic("flights")
    produce(bootstrap, "flights", [b"a", b"b"])
    capture(bootstrap, "flights", tmp_path, "page")
    produce(bootstrap, "flights", [b"c"])
    page = (Path(__file__).parents[3] / "docs" / "CAPTURE.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(example.replace("/data/lake", str(tmp_path)).replace("127.0.0.1:9092", bootstrap), {"spark": spark})
    assert capsys.readouterr().out == "3\n"


def test_fields_of_values_are_columns_of_both(
    spark: SparkSession, bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    make_topic()
    options = {"valueFormat": "json", "valueSchema": "carrier STRING, delay INT"}
    produce(bootstrap, topic, [b'{"carrier": "UA", "delay": 3}'])
    capture(bootstrap, topic, tmp_path, "values", values=parse_value_options(options, [topic]))
    produce(bootstrap, topic, [b'{"carrier": "AA", "delay": 4}'])
    rows = history(spark, topic, str(tmp_path), {**servers(bootstrap), **options})
    assert sorted(map(tuple, rows.select("carrier", "delay", "offset").collect())) == [("AA", 4, 1), ("UA", 3, 0)]
    with pytest.raises(OptionError, match="option columns=value: the files have no such columns: give the options of"):
        history(spark, topic, str(tmp_path), servers(bootstrap))


def test_histories_that_would_lack_records_are_refused(
    spark: SparkSession, bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, admin: KafkaAdminClient
) -> None:
    make_topic()
    for _ in range(3):
        produce(bootstrap, topic, [b"a"])
        capture(bootstrap, topic, tmp_path, "lacking")
    (tmp_path / names_in(tmp_path)[1].path).unlink()
    with pytest.raises(OptionError, match=r"gap: partition 0 of topic .*, offsets 1 to 1 are in no file: see esp"):
        history(spark, topic, str(tmp_path), servers(bootstrap))
    (tmp_path / names_in(tmp_path)[0].path).unlink()
    assert history(spark, topic, str(tmp_path), servers(bootstrap)).count() == 1, "old files may be removed"
    recreate(admin, topic, 1)
    with pytest.raises(OptionError, match="was created again since it was captured: read its files alone"):
        history(spark, topic, str(tmp_path), servers(bootstrap))
    with pytest.raises(OptionError, match="option topic=nowhere: it does not exist"):
        history(spark, "nowhere", str(tmp_path), servers(bootstrap))
