"""The sources of a query that read topics, by ``kafka`` or by ``esp``: where their clusters are, and how far the query has read."""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from esp.consumer.cluster import Address
from esp.consumer.connection import Terms
from esp.consumer.errors import ConsumerError, SettingError
from esp.consumer.security import is_security_setting
from esp.options.errors import OptionError
from esp.spark.options import parse_connection
from esp.spark.position import Offsets, from_json

_FORMATS: Final = frozenset({"esp", "kafka"})
_CONNECTING: Final = ("bootstrap.servers", "client.id")


class ClusterSettings(NamedTuple):
    """How a cluster is reached."""

    servers: tuple[Address, ...]
    terms: Terms


class ReadOffsets(NamedTuple):
    """The offsets up to which a query has read topics, by one of its sources; ``settings`` is None if its cluster is not known."""

    offsets: Offsets
    settings: ClusterSettings | None


def find_clusters(query: Any) -> list[ClusterSettings | None]:
    """Return the clusters of the sources of a running query, in the order of its progress; None for sources of other formats, and for
    clusters that this client cannot talk to. None at all under Spark Connect, whose client has no plans of running queries.

    Args:
        query: PySpark's ``StreamingQuery``.
    """
    java = getattr(query, "_jsq", None)
    if java is None:
        return []
    found = [_options_of(each) for each in _relations_of(java.streamingQuery().analyzedPlan())]
    return [None if options is None else read_cluster(options) for options in found]


def find_stream_options(frame: Any) -> list[dict[str, str]]:
    """Return the settings by which the sources of a stream reach their clusters, with ``kafka.`` in front.

    Args:
        frame: PySpark's ``DataFrame``.
    """
    java = getattr(frame, "_jdf", None) if not is_remote(frame) else None
    if java is not None:
        found = [_options_of(each) for each in _relations_of(java.queryExecution().analyzed())]
    else:
        found = [options for source, options in find_remote_sources(frame) if source in _FORMATS]
    return [
        {
            name: value
            for name, value in options.items()
            if name.removeprefix("kafka.") in _CONNECTING or _is_secret(name)
        }
        for options in found
        if options is not None and "kafka.bootstrap.servers" in options
    ]


def is_remote(one: Any) -> bool:
    """Return True if a session, a frame or a writer of PySpark's is one of Spark Connect, whose server has the plans."""
    return type(one).__module__.startswith("pyspark.sql.connect.")


def find_remote_sources(one: Any) -> list[tuple[str, dict[str, str]]]:
    """Return the formats and the options, by names in lower case, of the streaming sources of a frame or a writer under Spark Connect.

    The client makes the plan, and sends it to the server; it knows nothing of the plans of queries that run.

    Args:
        one: PySpark's ``DataFrame`` or ``DataStreamWriter``.
    """
    plan = getattr(one, "_plan", None) or getattr(one, "_write_stream", None)
    session = getattr(one, "_session", None)
    if plan is None or session is None:
        return []
    message = plan.to_proto(session.client) if hasattr(one, "_plan") else plan.command(session.client)
    return [
        (read.data_source.format, {name.lower(): value for name, value in read.data_source.options.items()})
        for read in _reads_in(message)
        if read.is_streaming
    ]


def _reads_in(message: Any) -> Iterator[Any]:
    """The reads of a plan of Spark Connect, wherever they stand in it."""
    if message.DESCRIPTOR.full_name == "spark.connect.Read":
        yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            parts = [value] if hasattr(value, "ListFields") else value
            yield from chain.from_iterable(_reads_in(each) for each in parts if hasattr(each, "ListFields"))


def _is_secret(name: str) -> bool:
    return name.startswith("kafka.") and is_security_setting(name.removeprefix("kafka."))


def _relations_of(plan: Any) -> list[Any]:
    """The sources of a plan of Spark's."""
    leaves = plan.collectLeaves()
    relations = [leaves.apply(number) for number in range(leaves.size())]
    return [each for each in relations if each.getClass().getSimpleName().startswith("StreamingRelation")]


def _options_of(relation: Any) -> dict[str, str] | None:
    """The options of a source that reads topics, by names in lower case; None for those of other formats."""
    if relation.getClass().getSimpleName() != "StreamingRelationV2" or relation.sourceName() not in _FORMATS:
        return None
    options = relation.extraOptions()
    return {name.lower(): options.get(name) for name in options.keySet().toArray()}


def read_cluster(options: Mapping[str, str]) -> ClusterSettings | None:
    """Return the cluster that the options of a source name; None if this client cannot talk to it."""
    try:
        return ClusterSettings(*parse_connection(options))
    except (OptionError, SettingError):
        return None


def read_progress(
    sources: Sequence[Mapping[str, Any]], clusters: Sequence[ClusterSettings | None]
) -> Iterator[ReadOffsets]:
    """Yield how far a query has read topics.

    Args:
        sources: of the progress of a query.
        clusters: of the sources, in the same order. If their number is another one, they count only if all are the same.
    """
    if len(clusters) != len(sources):
        known = [each for each in clusters if each is not None]
        same = known[0] if known and all(each.servers == known[0].servers for each in known) else None
        clusters = [same] * len(sources)
    for source, cluster in zip(sources, clusters, strict=True):
        try:
            offsets = from_json(_parse_offset(source["endOffset"]))
        except (ConsumerError, ValueError, TypeError, KeyError, SyntaxError):
            continue  # a source of another kind
        if offsets:
            yield ReadOffsets(offsets, cluster)


def _parse_offset(text: str) -> Any:
    """The offset of a source: JSON, of which PySpark makes the text of a Python dictionary in the events of Spark Connect."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return ast.literal_eval(text)
