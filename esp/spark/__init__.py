"""Topics under Apache Spark, by its Python data source API: `format("esp")`. Executors need numpy and pyarrow, and no jar."""

from esp.spark.draining import drain

__all__ = ["drain"]
