"""Topics under Apache Spark, by its Python data source API: `format("esp")`. Executors need numpy and pyarrow, and no jar."""

import importlib
from typing import Any

from esp.spark.draining import drain
from esp.spark.exactly_once import exactly_once, write_once
from esp.spark.query_progress import progress
from esp.spark.watching import watch

__all__ = ["drain", "exactly_once", "from_avro", "from_json", "progress", "watch", "write_once"]


def __getattr__(name: str) -> Any:
    """The functions for columns, which alone need pandas."""
    if name not in ("from_avro", "from_json"):
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module("esp.spark.functions"), name)
