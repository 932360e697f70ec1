"""The JSON of Kafka's reassignment tool, read and written: what other tools write and read too.

Every error in a file is reported with the entry that it is in.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition
from esp.rebalance.cluster import ANY_LOG_DIR, Replica

VERSION: Final = 1
"""The version of both kinds of file; a file that names none is taken for this one."""

_REMEDY: Final = (
    'The form is {"version":1,"partitions":[{"topic":"NAME","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}; '
    "log_dirs may be left out."
)
_TOPICS_REMEDY: Final = 'The form is {"version":1,"topics":[{"topic":"NAME"}]}.'

Document = TypeVar("Document", bound="_Versioned")


class Assignment(NamedTuple):
    """The new replicas of a partition: brokers, the preferred leader first, and as many directories; ``any``: the broker picks."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...]


class _Versioned(msgspec.Struct):
    version: int = VERSION


class _Entry(msgspec.Struct):
    topic: str
    partition: int
    replicas: list[int]
    log_dirs: list[str] | None = None


class _Reassignment(_Versioned):
    partitions: list[_Entry] = msgspec.field(default_factory=list)


class _Topic(msgspec.Struct):
    topic: str


class _Topics(_Versioned):
    topics: list[_Topic] = msgspec.field(default_factory=list)


def read_reassignment(text: str, source: str) -> list[Assignment]:
    """Read a reassignment.

    Args:
        text: the JSON.
        source: the name of the file, for messages.

    Raises:
        OperatorError: it is no reassignment, or an entry has not as many directories as replicas.
    """
    found: list[Assignment] = []
    for number, entry in enumerate(_decode(text, source, _Reassignment, _REMEDY).partitions):
        partition = TopicPartition(entry.topic, entry.partition)
        log_dirs = [ANY_LOG_DIR] * len(entry.replicas) if entry.log_dirs is None else entry.log_dirs
        if len(log_dirs) != len(entry.replicas):
            raise OperatorError(
                f"{source}: partitions[{number}]: Size of replicas list {entry.replicas} is different from size of log dirs list "
                f"{log_dirs} for partition {partition}",
                'Give one directory for each replica, or "any".',
            )
        found.append(Assignment(partition, tuple(entry.replicas), tuple(log_dirs)))
    return found


def check_executable(assignments: Sequence[Assignment], source: str) -> None:
    """Look for what no cluster can carry out: nothing to do, partitions without replicas, and whatever is named twice.

    Raises:
        OperatorError: the entry is named.
    """
    if not assignments:
        raise OperatorError(f"{source}: Partition reassignment list cannot be empty", _REMEDY)
    times = Counter(assignment.partition for assignment in assignments)
    for number, (partition, replicas, _) in enumerate(assignments):
        where = f"{source}: partitions[{number}] ({partition})"
        if not replicas:
            raise OperatorError(f"{where}: Partition replica list cannot be empty", "Name at least one broker.")
        if times[partition] > 1:
            raise OperatorError(
                f"{where}: Partition reassignment contains duplicate topic partitions: {partition}",
                "Keep one entry for each partition.",
            )
        twice = sorted(replica for replica, count in Counter(replicas).items() if count > 1)
        if twice:
            raise OperatorError(
                f"{where}: Partition replica lists may not contain duplicate entries: {partition} contains multiple entries for "
                + ",".join(map(str, twice)),
                "Name each broker once.",
            )
        strange = [replica for replica in replicas if replica < 0]
        if strange:
            raise OperatorError(f"{where}: {strange[0]} is not a broker id", "Brokers are named by their node.id.")


def read_topics(text: str, source: str) -> list[str]:
    """Read the names of topics to move.

    Raises:
        OperatorError: it is no such file, it is empty, or a topic is named twice.
    """
    names = [entry.topic for entry in _decode(text, source, _Topics, _TOPICS_REMEDY).topics]
    if not names:
        raise OperatorError(f"{source}: no topics are named", _TOPICS_REMEDY)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise OperatorError(
            f"{source}: List of topics to reassign contains duplicate entries: {', '.join(twice)}", "Name each once."
        )
    return names


def write_reassignment(
    assignments: Mapping[TopicPartition, Sequence[int]], log_dirs: Mapping[Replica, str] | None = None
) -> str:
    """Return a reassignment as one line of JSON, sorted as Kafka's tool sorts, ``any`` for every directory that is not given."""
    known = log_dirs or {}
    document = {
        "version": VERSION,
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "replicas": list(assignments[partition]),
                "log_dirs": [known.get(Replica(partition, broker), ANY_LOG_DIR) for broker in assignments[partition]],
            }
            for partition in sorted(assignments)
        ],
    }
    return msgspec.json.encode(document).decode()


def chosen_log_dirs(assignments: Iterable[Assignment]) -> dict[Replica, str]:
    """The directories that a reassignment names."""
    return {
        Replica(each.partition, broker): path
        for each in assignments
        for broker, path in zip(each.replicas, each.log_dirs, strict=True)
        if path != ANY_LOG_DIR
    }


def _decode(text: str, source: str, kind: type[Document], remedy: str) -> Document:
    try:
        found = msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise OperatorError(f"{source}: {error}", remedy) from error
    except msgspec.DecodeError as error:
        raise OperatorError(f"{source} is not JSON: {error}", remedy) from error
    if found.version != VERSION:
        raise OperatorError(f"{source}: Not supported version field value {found.version}", f"Write version {VERSION}.")
    return found
