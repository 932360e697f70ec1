"""The sources of a query that read topics, by ``kafka`` or by ``esp``: where their clusters are, and how far the query has read."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from esp.consumer.cluster import Address
from esp.consumer.connection import Terms
from esp.consumer.errors import ConsumerError, SettingError
from esp.spark.errors import OptionError
from esp.spark.options import parse_connection
from esp.spark.position import Offsets, from_json

_FORMATS: Final = frozenset({"esp", "kafka"})


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
    clusters that this client cannot talk to. None at all under Spark Connect, where the plan is on the server.

    Args:
        query: PySpark's ``StreamingQuery``.
    """
    java = getattr(query, "_jsq", None)
    if java is None:
        return []
    leaves = java.streamingQuery().analyzedPlan().collectLeaves()
    relations = [leaves.apply(number) for number in range(leaves.size())]
    return [_cluster_of(each) for each in relations if each.getClass().getSimpleName().startswith("StreamingRelation")]


def _cluster_of(relation: Any) -> ClusterSettings | None:
    if relation.getClass().getSimpleName() != "StreamingRelationV2" or relation.sourceName() not in _FORMATS:
        return None
    options = relation.extraOptions()
    return read_cluster({name: options.get(name) for name in options.keySet().toArray()})


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
            offsets = from_json(json.loads(source["endOffset"]))
        except (ConsumerError, ValueError, TypeError, KeyError):
            continue  # a source of another kind
        if offsets:
            yield ReadOffsets(offsets, cluster)
