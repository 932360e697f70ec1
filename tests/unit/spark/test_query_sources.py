import json
from types import SimpleNamespace
from typing import Any

from esp.consumer.cluster import Address
from esp.consumer.connection import Terms
from esp.consumer.messages import Partition
from esp.spark.query_sources import ClusterSettings, ReadOffsets, find_clusters, read_cluster, read_progress

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
