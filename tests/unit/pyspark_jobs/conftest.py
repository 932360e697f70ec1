"""The Spark session for the transforms."""

import pytest

from tests.integration.spark.session import mark_spark, spark

__all__ = ["spark"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that take a session."""
    mark_spark([item for item in items if item.get_closest_marker("spark")])
