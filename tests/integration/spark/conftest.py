"""What the tests of Spark's Kafka source and sink against a running node share."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from esp.testing.node_process import NodeProcess
from tests.integration.spark.cluster import BatchSink, Cluster, ParquetSink, Source
from tests.integration.spark.session import mark_spark, spark

__all__ = ["spark"]


@pytest.fixture(scope="module")
def cluster(spark: SparkSession, node: NodeProcess) -> Cluster:
    """The module's node."""
    return Cluster(spark, node)


@pytest.fixture(params=["kafka", "esp"])
def source(cluster: Cluster, request: pytest.FixtureRequest) -> Source:
    """Each data source in turn."""
    return Source(cluster, request.param)


@pytest.fixture
def parquet(spark: SparkSession, tmp_path: Path) -> ParquetSink:
    """A Parquet directory of the test's own."""
    return ParquetSink(spark, tmp_path)


@pytest.fixture
def batches(tmp_path: Path) -> BatchSink:
    """A sink of the test's own that keeps each batch apart."""
    return BatchSink(tmp_path / "batches-checkpoint")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all that is here."""
    mark_spark([item for item in items if item.path.is_relative_to(Path(__file__).parent)])
