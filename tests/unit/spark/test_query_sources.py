import json
from types import SimpleNamespace
from typing import Any

import pytest

from esp.consumer.cluster import Address
from esp.consumer.connection import Terms
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.options.errors import OptionError
from esp.spark import drain, watch
from esp.spark.query_sources import (
    ClusterSettings,
    ReadOffsets,
    find_clusters,
    find_remote_sources,
    find_stream_options,
    read_cluster,
    read_progress,
)
from tests.integration.spark.session import HAS_CONNECT

if HAS_CONNECT:
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.connect.streaming.readwriter import DataStreamReader, DataStreamWriter

ONE = ClusterSettings((Address("a", 1),), Terms())
TWO = ClusterSettings((Address("b", 1),), Terms())


def source(offsets: Any) -> dict[str, Any]:
    return {"endOffset": offsets if isinstance(offsets, str) else json.dumps(offsets)}


def test_each_source_of_topics_has_its_own_cluster() -> None:
    sources = [source({"t": {"0": 5}}), source("17"), source({"u": {"1": 7}}), source("null"), source({})]
    assert list(read_progress(sources, [ONE, None, TWO, None, ONE])) == [
        ReadOffsets({Partition("t", 0): 5}, ONE),
        ReadOffsets({Partition("u", 1): 7}, TWO),
    ]


def test_the_events_of_spark_connect_have_offsets_as_texts_of_python() -> None:
    sources = [source("{'t': {'0': 5}}"), source("None"), source("a source's own")]
    assert list(read_progress(sources, [ONE, ONE, ONE])) == [ReadOffsets({Partition("t", 0): 5}, ONE)]


def test_where_sources_cannot_be_told_apart_one_cluster_counts_and_two_do_not() -> None:
    sources = [source({"t": {"0": 5}})]
    assert [each.settings for each in read_progress(sources, [ONE, ONE])] == [ONE]
    assert [each.settings for each in read_progress(sources, [ONE, TWO])] == [None]
    assert [each.settings for each in read_progress(sources, [])] == [None]


def test_the_options_of_both_formats_name_a_cluster() -> None:
    found = read_cluster({"kafka.bootstrap.servers": "a:1", "kafka.max.poll.records": "3", "subscribe": "t"})
    assert found is not None
    assert found.servers == ONE.servers
    assert found.terms.client_id == "esp-spark"
    assert read_cluster({"subscribe": "t"}) is None
    assert read_cluster({"kafka.bootstrap.servers": "a:1", "kafka.sasl.mechanism": "GSSAPI"}) is None


def test_the_plan_of_a_query_on_a_server_is_not_known() -> None:
    assert find_clusters(SimpleNamespace(id="x")) == []


@pytest.mark.skipif(not HAS_CONNECT, reason="the packages of Spark Connect are those of PySpark 4.0")
def test_under_spark_connect_the_plan_that_the_client_makes_tells_its_sources() -> None:
    session: Any = SimpleNamespace(client=None, session_id="one")
    by_kafka = DataStreamReader(session).format("kafka").option("kafka.bootstrap.servers", "a:1").load()
    by_esp = (
        DataStreamReader(session)
        .format("esp")
        .options(
            **{
                "kafka.bootstrap.servers": "b:1",
                "subscribe": "t",
                "kafka.fetch.min.bytes": "2",
                "kafka.security.protocol": "SSL",
            }
        )
    )
    both = by_kafka.union(by_esp.load()).alias("both").where("value IS NOT NULL")
    assert find_stream_options(both) == [
        {"kafka.bootstrap.servers": "a:1"},
        {"kafka.bootstrap.servers": "b:1", "kafka.security.protocol": "SSL"},
    ]
    writer: Any = DataStreamWriter(both._plan, session)
    assert [name for name, _ in find_remote_sources(writer)] == ["kafka", "esp"]
    with pytest.raises(OptionError, match="option endingOffsets: a source that is drained must have an end"):
        drain(writer)
    with pytest.raises(ConsumerError, match="under Spark Connect the options of queries are on the server: name their"):
        watch(SparkSession.__new__(SparkSession))
