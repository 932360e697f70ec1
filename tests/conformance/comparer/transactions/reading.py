"""Scenes of Fetch and ListOffsets: what readers of committed records see of transactions that are open, committed and aborted.

The records are written once, by the first scene that reads them.
"""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic, sleep
from typing import Any, Final

from esp.protocol.registry import ApiKey
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.scene import Scene
from tests.conformance.comparer.setup import READ, TIMESTAMP_MS, produce
from tests.conformance.comparer.target import Target
from tests.conformance.comparer.transactions.application import Application, is_done, until

_KEY: Final = ApiKey
_ISOLATED_FETCH_FROM: Final = 4
_ISOLATED_OFFSETS_FROM: Final = 2
_TOPIC_IDS_FROM: Final = 13
_LEVELS: Final = {"uncommitted": 0, "committed": 1}
_LARGEST_TIME: Final = -3
_CURRENT_WITHIN_S: Final = 10
_PAUSE_S: Final = 0.05
_MARKERS_FROM_MS: Final = TIMESTAMP_MS + 100
"""Later than all records, and earlier than the markers, whose time is each broker's own."""


class _Log:
    """One partition that is written step by step. Each record is a millisecond later than the one before it."""

    def __init__(self, target: Target, number: int) -> None:
        self._target = target
        self._number = number
        self._sequences: dict[str, int] = {}
        self._time_ms = TIMESTAMP_MS
        self.applications: dict[str, Application] = {}

    def plain(self, count: int = 1) -> None:
        """Records of no transaction."""
        self._produce(None, self._batch(count))

    def data(self, name: str, count: int = 1) -> None:
        """Records of an application's transaction, which begins with the first of them."""
        application = self.applications.get(name)
        if application is None:
            application = Application(self._target, f"{READ}-{self._number} {name}")
            application.begin(1)
            self.applications[name] = application
        if name not in self._sequences:
            topics = {READ: (self._number,)}
            until(lambda: "'none'" in str(self._target.ask(_KEY.ADD_PARTITIONS_TO_TXN, 3, application.adding(topics))))
        sequence = self._sequences.get(name, 0)
        records = self._batch(
            count,
            producer_id=application.producer_id,
            producer_epoch=application.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        self._sequences[name] = sequence + count
        self._produce(application.id, records)

    def end(self, name: str, *, commit: bool) -> None:
        """The marker of the transaction is written, and its application starts anew."""
        application = self.applications[name]
        until(lambda: is_done(application.end(commit=commit, version=3)))
        application.settled()

    def delete(self, offset: int) -> None:
        """DeleteRecords up to an offset."""
        partitions = [{"partition_index": self._number, "offset": offset}]
        content = {"topics": [{"name": READ, "partitions": partitions}], "timeout": 10_000}
        answer = self._target.ask(_KEY.DELETE_RECORDS, 2, content)
        assert "'none'" in str(answer), answer

    def _batch(self, count: int, **header: Any) -> bytes:
        records = [NewRecord(b"v", b"k", timestamp=self._time_ms + number) for number in range(count)]
        self._time_ms += count
        return bytes(build_batch(records, timestamp_ms=self._time_ms, **header))

    def _produce(self, transactional_id: str | None, records: bytes) -> None:
        content = {**produce(READ, self._number, records), "transactional_id": transactional_id}
        answer = self._target.ask(_KEY.PRODUCE, 9, content)
        assert "'none'" in str(answer), answer


def _interleaved(log: _Log) -> None:
    """Commits and aborts over one another, records outside of them, and in the end one that stays open."""
    log.data("aborted")
    log.data("committed", 2)
    log.plain()
    log.data("second aborted")
    log.end("aborted", commit=False)
    log.data("committed")
    log.end("committed", commit=True)
    log.data("second aborted", 2)
    log.end("second aborted", commit=False)
    log.plain()
    log.data("open", 2)
    log.plain(2)


def _open(log: _Log) -> None:
    """A transaction holds the offset from the first record on; others within it have ended."""
    log.data("open")
    log.data("aborted")
    log.data("committed")
    log.end("aborted", commit=False)
    log.end("committed", commit=True)


def _ended(log: _Log) -> None:
    """A marker is the last record."""
    log.data("committed")
    log.end("committed", commit=True)
    log.data("aborted", 2)
    log.end("aborted", commit=False)


def _deleted_into_open(log: _Log) -> None:
    """The log begins within an open transaction."""
    log.plain(2)
    log.data("open")
    log.plain(3)
    log.delete(4)


def _deleted_to_end_of_open(log: _Log) -> None:
    """Nothing is left of an open transaction."""
    log.plain(2)
    log.data("open", 2)
    log.delete(-1)


def _deleted_into_aborted(log: _Log) -> None:
    """The log began within a transaction when that was aborted."""
    log.plain(2)
    log.data("aborted", 2)
    log.plain()
    log.delete(5)
    log.data("aborted")
    log.end("aborted", commit=False)
    log.plain()


_LOGS: Final[tuple[Callable[[_Log], None], ...]] = (
    _interleaved,
    _open,
    _ended,
    _deleted_into_open,
    _deleted_to_end_of_open,
    _deleted_into_aborted,
)
_WRITTEN: Final[dict[str, list[_Log]]] = {}


def _logs(target: Target) -> Sequence[_Log]:
    """The partitions of the topic, written if they are not yet."""
    if target.name not in _WRITTEN:
        _WRITTEN[target.name] = []
        for number, write in enumerate(_LOGS):
            log = _Log(target, number)
            write(log)
            _WRITTEN[target.name].append(log)
    return _WRITTEN[target.name]


def _end_offset(target: Target, number: int) -> int:
    return int(_found(target, 2, number, -1, isolation_level=0)["offset"])


def _found(target: Target, version: int, number: int, timestamp: int, **fields: Any) -> dict[str, Any]:
    asked = [{"partition_index": number, "timestamp": timestamp, "current_leader_epoch": -1}]
    content = {"replica_id": -1, "topics": [{"name": READ, "partitions": asked}], "timeout": 5000, **fields}
    (topic,) = target.ask(_KEY.LIST_OFFSETS, version, content)["topics"]
    (partition,) = topic["partitions"]
    assert isinstance(partition, dict)
    return partition


def _headers(records: bytes | None) -> list[str] | None:
    """The batches of an answer, each by its offsets and its kind."""
    if records is None:
        return None
    shown = []
    position = 0
    while position < len(records):
        header = read_header(records, position)
        kind = "control" if header.is_control else "transactional" if header.is_transactional else "plain"
        shown.append(f"{header.base_offset}-{header.base_offset + header.last_offset_delta} {kind}")
        position += header.size
    return shown


def _fetched(target: Target, version: int, content: dict[str, Any]) -> dict[str, Any]:
    """The answer about one partition, which both brokers lead. ESP tells nothing for a moment if it was starved (BRK-9)."""
    deadline = monotonic() + _CURRENT_WITHIN_S
    while True:
        (topic,) = target.ask(_KEY.FETCH, version, content)["responses"]
        (answer,) = topic["partitions"]
        if answer["error_code"] != "not_leader_or_follower" or monotonic() >= deadline:
            return answer
        sleep(_PAUSE_S)


def _fetching(name: str, number: int, isolation_level: int, **limits: int) -> Scene:
    def play(target: Target, _: str, version: int) -> Plain:
        log = _logs(target)[number]
        names = {application.producer_id: called for called, application in log.applications.items()}
        answers = {}
        for offset in range(_end_offset(target, number) + 2):
            partition = {"partition": number, "fetch_offset": offset, "partition_max_bytes": 1_000_000, **limits}
            topic_id = target.topic_id(READ) if version >= _TOPIC_IDS_FROM else None
            content = {
                "replica_id": -1,
                "max_wait": 1,
                "min_bytes": 0,
                "max_bytes": 10_000_000,
                "isolation_level": isolation_level,
                "session_id": 0,
                "session_epoch": -1,
                "topics": [{"topic": READ, "topic_id": topic_id, "partitions": [partition]}],
            }
            answer = _fetched(target, version, content)
            aborted = answer["aborted_transactions"]
            answers[str(offset)] = {
                **answer,
                "records": _headers(answer["records"]),
                "aborted_transactions": aborted
                and [f"{names[each['producer_id']]} from {each['first_offset']}" for each in aborted],
            }
        return answers

    return Scene(name, _KEY.FETCH, play, _ISOLATED_FETCH_FROM)


_TIMES: Final[Mapping[str, tuple[int, int]]] = {
    "latest": (-1, _ISOLATED_OFFSETS_FROM),
    "earliest": (-2, _ISOLATED_OFFSETS_FROM),
    "largest time": (_LARGEST_TIME, 7),
    "earliest local": (-4, 8),
    **{f"time {number}": (TIMESTAMP_MS + number, _ISOLATED_OFFSETS_FROM) for number in range(12)},
    "time of markers": (_MARKERS_FROM_MS, _ISOLATED_OFFSETS_FROM),
}


def _finding(name: str, number: int, isolation_level: int, time: str) -> Scene:
    timestamp, first_version = _TIMES[time]

    def play(target: Target, _: str, version: int) -> Plain:
        _logs(target)
        found = _found(target, version, number, timestamp, isolation_level=isolation_level)
        if found.get("timestamp", -1) >= _MARKERS_FROM_MS:
            found["timestamp"] = "the time of a marker"
            if timestamp == _LARGEST_TIME:
                found["offset"] = "that of a marker"  # of several in one millisecond it is the first
        return found

    return Scene(name, _KEY.LIST_OFFSETS, play, first_version)


SCENES: Final[tuple[Scene, ...]] = tuple(
    scene
    for number, write in enumerate(_LOGS)
    for level, isolation_level in _LEVELS.items()
    for label in [f"{level} records: {write.__name__.strip('_').replace('_', ' ')}"]
    for scene in (
        _fetching(label, number, isolation_level),
        _fetching(f"{label}: batch by batch", number, isolation_level, partition_max_bytes=1),
        *(_finding(f"{label}: {time}", number, isolation_level, time) for time in _TIMES),
    )
)
