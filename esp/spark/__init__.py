"""Topics under Apache Spark, by its Python data source API: `format("esp")`. Executors need numpy and pyarrow, and no jar."""

import importlib
from typing import TYPE_CHECKING, Any, Final

from esp.spark.draining import drain
from esp.spark.query_progress import progress
from esp.spark.watching import watch

if TYPE_CHECKING:
    from esp.spark.batch_sink import exactly_once, write_once
    from esp.spark.captured_history import history

__all__ = ["drain", "exactly_once", "from_avro", "from_json", "history", "progress", "watch", "write_once"]

_LATER: Final = {
    "exactly_once": "esp.spark.batch_sink",
    "write_once": "esp.spark.batch_sink",
    "from_avro": "esp.spark.functions",
    "from_json": "esp.spark.functions",
    "history": "esp.spark.captured_history",
}
"""The modules of functions that are loaded when they are used: the ones for columns need pandas, and each Python process of Spark that
only reads would load the others in vain.
"""


def __getattr__(name: str) -> Any:
    """Load what is not always needed."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module(_LATER[name]), name)
