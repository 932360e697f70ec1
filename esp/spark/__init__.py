"""Topics under Apache Spark, by its Python data source API: `format("esp")`. Executors need numpy and pyarrow, and no jar."""

from esp.spark.draining import drain
from esp.spark.exactly_once import exactly_once, write_once
from esp.spark.query_progress import progress
from esp.spark.watching import watch

__all__ = ["drain", "exactly_once", "progress", "watch", "write_once"]
