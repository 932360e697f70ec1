"""The data source ``esp`` of PySpark, which finds it here: it looks through the modules whose names begin with ``pyspark_``.

PySpark gives up its whole search when one of these modules cannot be imported. So a missing package is reported when the format is
used.
"""

import sys

from pyspark.sql.datasource import DataSource

try:
    from esp.spark.source import DefaultSource
except ModuleNotFoundError as error:
    _missing = error.name

    class DefaultSource(DataSource):  # type: ignore[no-redef]
        """Says which package is missing."""

        def __init__(self, options: dict[str, str]) -> None:
            super().__init__(options)
            raise ModuleNotFoundError(
                f"format esp needs the package {_missing}, which {sys.executable} does not have: install numpy and pyarrow there, or name "
                "another Python in PYSPARK_PYTHON before the session is made",
                name=_missing,
            )

        @classmethod
        def name(cls) -> str:
            """The name of the format."""
            return "esp"


__all__ = ["DefaultSource"]
