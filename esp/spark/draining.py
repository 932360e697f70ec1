"""A run of a query up to the ends of its topics, in batches of limited size.

Before Spark 4.2 the trigger ``availableNow`` is one batch for a source of Python's: a limit would leave the rest, and without one a backlog
is one batch.
"""

from typing import TYPE_CHECKING, Any, Final

from esp.options.errors import OptionError
from esp.spark.query_sources import find_remote_sources, is_remote

_ENDS: Final = ("endingoffsets", "endingoffsetsbytimestamp", "endingtimestamp")

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def drain(writer: "DataStreamWriter") -> "StreamingQuery":
    """Run a query until its sources are read up to their ends, and stop it between two batches.

    Args:
        writer: of the query. Its ``esp`` sources have ends; with ``endingOffsets=latest`` these are the ends of the topics at the start
            of the query.

    Raises:
        OptionError: a source has no end.
        StreamingQueryException: the query failed.
    """
    for options in _sources_of(writer):
        if not any(options.get(name) for name in _ENDS):
            raise OptionError(
                "endingOffsets",
                None,
                "a source that is drained must have an end: set endingOffsets=latest, which ends it where its topics end at the start",
            )
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return query


def _sources_of(writer: "DataStreamWriter") -> list[Any]:
    """The options of the ``esp`` sources of a query, by names in lower case."""
    if is_remote(writer):
        return [options for source, options in find_remote_sources(writer) if source == "esp"]
    frame = getattr(getattr(writer, "_df", None), "_jdf", None)
    if frame is None:
        return []
    leaves = frame.queryExecution().analyzed().collectLeaves()
    found = [leaves.apply(number) for number in range(leaves.size())]
    relations = [leaf for leaf in found if leaf.getClass().getSimpleName() == "StreamingRelationV2"]
    return [relation.extraOptions() for relation in relations if relation.sourceName() == "esp"]
