"""The one module of the jobs that knows the package ``esp``, for ``--source esp``, ``--exactly-once`` and ``--watch``."""

import importlib.util
from typing import Protocol, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter


class Watch(Protocol):
    """A listener that commits the ends of batches to the groups of their queries."""

    def stop(self) -> None:
        """Commit what waits, and end."""


def require_esp(option: str) -> None:
    """Return if the package ``esp`` is there.

    Raises:
        SystemExit: it is not; the message names the option that needs it.
    """
    if importlib.util.find_spec("esp") is None:
        raise SystemExit(f'{option} needs the package esp, which is not installed here: pip install "esp[spark]"')


def watch_lag(spark: SparkSession) -> Watch:
    """Have each query's position committed to the group ``spark.NAME``."""
    from esp.spark import watch  # noqa: PLC0415 - without these options the jobs run where esp is not installed

    return watch(spark)


def write_exactly_once(records: DataFrame, topic: str, sink: str) -> DataStreamWriter:
    """Return a writer of ``records`` to ``topic`` of the cluster that they come from, which writes each row once."""
    from esp.spark import exactly_once  # noqa: PLC0415 - likewise

    return cast("DataStreamWriter", exactly_once(records, topic=topic, sink=sink))
