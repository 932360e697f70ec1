"""The reader of a stream for PySpark 4.2 and later, which lets a source limit the batches of a run that ends.

With the trigger ``availableNow`` a run reads what is there at its start in batches of limited size. Spark hands the limit of a batch back
to the source; it is either the source's own or none, as with the trigger ``once``.
"""

from typing import Any, Final

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from esp.spark.position import from_json, to_json
from esp.spark.stream import StreamReader

_MANY_ROWS: Final = 2**63 - 1
"""The limit of rows that stands for limits of bytes and time, which have no class of their own there."""


class AdmittingStreamReader(StreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # no types before PySpark 4.2
    """A reader that knows when a run of a query is to end."""

    _learns_ends = True

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - PySpark's name
        """The run ends where the topics end now."""
        self._planner().end_here()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - PySpark's name
        """The limit of each batch of a run, unless its trigger says that there is none."""
        limits = self._options.limits
        return ReadMaxRows(limits.max_offsets or _MANY_ROWS) if limits.are_set else ReadAllAvailable()

    def latestOffset(  # noqa: N802 - PySpark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The end of the next batch.

        Args:
            start: where the last one ended, or the query begins.
            limit: of the batch.
        """
        planner = self._planner()
        if start is not None:
            planner.go_on_from(from_json(start))
        return to_json(planner.advance(is_limited=not isinstance(limit, ReadAllAvailable)))
