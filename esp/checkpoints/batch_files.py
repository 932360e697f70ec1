"""The files of a checkpoint as text: what Spark 4.0 writes, read and written again without loss.

An ``offsets`` file has the line ``v1``, a line of JSON about the batch, and a line for each source: where the batch ends in it, or ``-``
where the source has none yet. A source of Kafka's has ``{"topic": {"0": 23}}``. A ``commits`` file begins with its version, too.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from esp.model.errors import OperatorError

_OFFSETS_VERSION: Final = "v1"
_NO_OFFSET: Final = "-"
_REMEDY: Final = "Use a release of this tool that knows the release of Spark that wrote it."

_Topics = dict[str, dict[str, int]]


class Place(NamedTuple):
    """A partition of a topic that a source reads."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class BatchOffsets(NamedTuple):
    """The end of a batch in each source.

    Attributes:
        terms: the JSON of the batch: its time, its watermark, and the settings that hold for it.
        sources: a line for each source of the query.
    """

    terms: str
    sources: tuple[str, ...]

    def kafka_sources(self) -> Iterator[tuple[int, dict[Place, int]]]:
        """Yield the sources with offsets of Kafka's form: their numbers and offsets."""
        for number, line in enumerate(self.sources):
            offsets = _kafka_offsets(line)
            if offsets is not None:
                yield number, offsets

    def with_offsets(self, changed: Mapping[Place, int]) -> "BatchOffsets":
        """The same with other offsets of some partitions, in each source that reads them."""
        lines = list(self.sources)
        for number, offsets in self.kafka_sources():
            lines[number] = write_offsets({place: changed.get(place, offset) for place, offset in offsets.items()})
        return BatchOffsets(self.terms, tuple(lines))


def parse_batch(path: str, text: str) -> BatchOffsets:
    """Read a file of ``offsets``.

    Raises:
        OperatorError: it is of another version, or not whole.
    """
    version, *lines = text.rstrip("\n").split("\n")
    if version != _OFFSETS_VERSION:
        raise OperatorError(f"{path}: its form is {version[:40]!r}, of which nothing is known here", _REMEDY)
    if len(lines) < 2:
        raise OperatorError(f"{path}: it is not whole", "See whether the file system that holds it is.")
    return BatchOffsets(lines[0], tuple(lines[1:]))


def write_batch(batch: BatchOffsets) -> str:
    """The text of a file of ``offsets``, as Spark writes it."""
    return "\n".join((_OFFSETS_VERSION, batch.terms, *batch.sources))


def check_commit(path: str, text: str) -> None:
    """Raises OperatorError if a file of ``commits`` is of a version that is not known."""
    version = text.partition("\n")[0]
    if version not in ("v1", "v2"):  # v2 of Spark 4 has ids of the state beside; what stands here is not read
        raise OperatorError(f"{path}: its form is {version[:40]!r}, of which nothing is known here", _REMEDY)


def parse_query_id(path: str, text: str) -> str:
    """Read the file ``metadata``: the query's id, which stays when the query is started again.

    Raises:
        OperatorError: it is something else.
    """
    try:
        return msgspec.json.decode(text, type=dict[str, str])["id"]
    except (msgspec.DecodeError, KeyError) as error:
        raise OperatorError(f"{path}: it holds no id of a query", "Name the checkpoint of a query.") from error


def write_offsets(offsets: Mapping[Place, int]) -> str:
    """Offsets in the form of Spark's Kafka source: of a checkpoint, and of its option ``startingOffsets``."""
    topics: _Topics = {}
    for place, offset in sorted(offsets.items()):
        topics.setdefault(place.topic, {})[str(place.partition)] = offset
    return msgspec.json.encode(topics).decode()


def parse_offsets(text: str) -> dict[Place, int]:
    """Read offsets in the form of Spark's Kafka source.

    Raises:
        OperatorError: the text is something else.
    """
    offsets = _kafka_offsets(text)
    if not offsets or any(offset < 0 for offset in offsets.values()):
        raise OperatorError(
            f"{text[:200]}: not offsets of partitions", 'Write them as Spark does: {"topic": {"0": 23, "1": 42}}'
        )
    return offsets


def _kafka_offsets(text: str) -> dict[Place, int] | None:
    if text == _NO_OFFSET:
        return None
    try:
        topics = msgspec.json.decode(text, type=_Topics)
        return {Place(topic, int(key)): offset for topic, some in topics.items() for key, offset in some.items()}
    except (msgspec.DecodeError, ValueError):
        return None  # another kind of source
