"""The whole history of a topic: the files of a capture up to their ends, and the topic from there."""

import json
from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Final

from esp.capture.directory import Directory
from esp.capture.file_names import FileName
from esp.capture.footer import read_footer
from esp.capture.verification import Bounds, check_names
from esp.consumer.cluster import Cluster
from esp.consumer.errors import describe
from esp.consumer.messages import Partition
from esp.options.errors import OptionError
from esp.spark.options import parse_connection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHOSEN: Final = ("subscribe", "subscribepattern", "assign", "kafka.isolation.level")
_BOUNDS: Final = ("starting", "ending")
_EARLIEST: Final = -2


def history(spark: "SparkSession", topic: str, directory: str, options: Mapping[str, str]) -> "DataFrame":
    """Return all records of a topic, each once: those that were captured, and those that came later.

    Args:
        spark: the session.
        topic: the topic.
        directory: of the capture, a path or a URL; executors read it too.
        options: of ``format("esp")``: the servers, and those of values that the capture had.

    Raises:
        OptionError: an option cannot be used, files are missing, or the topic was created again.
        ConsumerError: the cluster does not answer.
    """
    for name, value in options.items():
        if name.lower() in _CHOSEN or name.lower().startswith(_BOUNDS):
            raise OptionError(name, value, "a history chooses it by itself: remove it")
    servers, terms = parse_connection(options)
    with Cluster(servers, terms) as cluster:
        info = cluster.describe([topic])[topic]
    if info.error:
        raise OptionError("topic", topic, f"{describe(info.error)}: name the topic that was captured")
    files = Directory(directory)
    names = files.names_of(topic)
    starts = dict.fromkeys(info.leaders, _EARLIEST)
    for partition, some in groupby(names, lambda name: name.partition):
        starts[partition.number] = _end_of(files, partition, [*some], info.topic_id.hex())
    given = {
        **options,
        "subscribe": topic,
        "kafka.isolation.level": "read_committed",
        "startingOffsets": json.dumps({topic: {str(number): offset for number, offset in starts.items()}}),
    }
    later = spark.read.format("esp").options(**given).load()
    if not names:
        return later
    paths = [_for_spark(files.uri(name.path)) for name in names]
    captured = spark.read.option("mergeSchema", "true").parquet(*paths)
    missing = [name for name in later.columns if name not in captured.columns]
    if missing:
        raise OptionError(
            "columns",
            ",".join(missing),
            "the files have no such columns: give the options of values that the capture had",
        )
    return captured.select(*(f"`{name}`" for name in later.columns)).union(later)


def _end_of(files: Directory, partition: Partition, names: list[FileName], topic_id: str) -> int:
    """The end of a partition's files.

    Raises:
        OptionError: they do not fit together, or are of another topic.
    """
    problems = check_names(partition, names, Bounds())
    if problems:
        raise OptionError("directory", files.place, f"{problems[0]}: see esp capture verify")
    if read_footer(files, names[-1].path).topic_id != topic_id:
        raise OptionError(
            "directory",
            files.place,
            f"topic {partition.topic} was created again since it was captured: read its files alone",
        )
    return names[-1].end


def _for_spark(place: str) -> str:
    return place if "://" in place else f"file://{place}"
