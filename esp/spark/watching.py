"""The lag of queries in Kafka's tools: the end of each batch is committed to a group of the query.

Spark calls a listener on a thread of its own, and waits for it. So the listener only notes what is to be committed, and a thread
commits it. If a cluster does not answer, the latest positions wait, and older ones are forgotten.

Spark tells of batches alone. A query whose program was killed between Spark's commit of a batch and the group's, and that finds nothing new
when it is started again, tells of none. So the first trigger of a run without a batch has its position committed, once: it is where the
checkpoint stands.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Final, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener

from esp.consumer.cluster import Cluster
from esp.consumer.errors import ConsumerError
from esp.consumer.group_messages import Committed
from esp.consumer.group_offsets import GroupOffsets
from esp.model.position_note import PositionNote, write_note
from esp.spark.position import Position
from esp.spark.query_sources import ClusterSettings, find_clusters, is_remote, read_cluster, read_progress

_log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 10.0
_STOP_S: Final = 2 * _TIMEOUT_S
"""As long as a commit may take: it asks for the topics, and then the group's coordinator."""
_ENDED_S: Final = 5.0
"""For so long the last events of queries that have ended are waited for."""
_RETRY_S: Final = 1.0
_RETRY_MOST_S: Final = 60.0


class Done(NamedTuple):
    """A batch that is done: the group of its query, the cluster of a source, where the source's part of the batch ended, its number, and
    the query's id.
    """

    group: str
    cluster: ClusterSettings
    position: Position
    batch: int
    query: str = ""


_Key = tuple[str, object]
"""A group, and the servers of a cluster."""


class _Retry(NamedTuple):
    """When the position of a group whose commit failed is tried again, by the monotonic clock, and the pause before that; in seconds."""

    due_s: float
    pause_s: float


class Committer:
    """Commits positions on a thread of its own. One that fails waits, and is tried again after a pause that doubles with each failure.

    Args:
        commit: commits one; may wait.
        retry_s: the first pause.
        stop_s: how long :meth:`stop` waits at most.
    """

    def __init__(self, commit: Callable[[Done], None], retry_s: float = _RETRY_S, stop_s: float = _STOP_S) -> None:
        self._commit = commit
        self._retry_s = retry_s
        self._stop_s = stop_s
        self._waiting: dict[_Key, Done] = {}
        self._retries: dict[_Key, _Retry] = {}
        self._tried: set[_Key] = set()
        """Those whose position is being committed, or was tried and is not committed."""
        self._changed = threading.Condition()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="esp-watch", daemon=True)
        self._thread.start()

    def put(self, done: Done) -> None:
        """Have a position committed instead of an older one of the same query and cluster that still waits."""
        with self._changed:
            older = self._waiting.get(_key_of(done))
            self._waiting[_key_of(done)] = done if older is None else _merge(older, done)
            self._changed.notify()

    def stop(self) -> None:
        """Commit what waits, and end. Each position is tried once more, without a pause; a warning names the groups that stay behind."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        self._thread.join(self._stop_s)
        with self._changed:
            behind = {group for group, _ in self._tried | self._waiting.keys()}
        if behind:
            _log.warning(
                "the last positions of %s are not committed: their lag stays too large", ", ".join(sorted(behind))
            )

    def _run(self) -> None:
        while (done := self._take()) is not None:
            try:
                self._commit(done)
            except Exception as error:  # a query is never hurt by what shows its lag
                _log.warning("the position of %s is not committed: %s", done.group, error)
                self._put_back(done)
            else:
                self._settle(done)

    def _take(self) -> Done | None:
        """Wait for the next position; None if there is none any more."""
        with self._changed:
            while (key := self._find_due()) is None:
                if self._is_stopped:
                    return None
                self._changed.wait(self._wait_s())
            self._tried.add(key)
            return self._waiting.pop(key)

    def _find_due(self) -> _Key | None:
        """A position that is to be committed now."""
        now_s = time.monotonic()
        for key in self._waiting:
            retry = self._retries.get(key)
            if retry is None or self._is_stopped or retry.due_s <= now_s:
                return key
        return None

    def _wait_s(self) -> float | None:
        """The time until the next attempt; None: no position waits for one."""
        due_s = min((self._retries[key].due_s for key in self._waiting), default=None)
        return None if due_s is None else max(0.0, due_s - time.monotonic())

    def _put_back(self, done: Done) -> None:
        """Have a position that was not committed wait again, below a newer one. After the end it is given up, if none newer waits."""
        key = _key_of(done)
        with self._changed:
            newer = self._waiting.get(key)
            if newer is None and self._is_stopped:
                return
            self._waiting[key] = done if newer is None else _merge(done, newer)
            last = self._retries.get(key)
            pause_s = self._retry_s if last is None else min(2 * last.pause_s, _RETRY_MOST_S)
            self._retries[key] = _Retry(time.monotonic() + pause_s, pause_s)

    def _settle(self, done: Done) -> None:
        with self._changed:
            self._retries.pop(_key_of(done), None)
            self._tried.discard(_key_of(done))


def _key_of(done: Done) -> _Key:
    return done.group, done.cluster.servers


def _merge(older: Done, newer: Done) -> Done:
    """A newer position of a query in a cluster, and the older one of topics that only another source of the query reads."""
    return newer._replace(position={**older.position, **newer.position})


def commit_done(done: Done) -> None:
    """Commit a position to its group, with the ids of the topics, the number of the batch, and the id of the query.

    Raises:
        ConsumerError: the cluster does not answer, or does not allow it.
    """
    with Cluster(done.cluster.servers, done.cluster.terms, _TIMEOUT_S) as cluster:
        topics = cluster.describe(sorted({partition.topic for partition in done.position}))
        offsets = {
            partition: Committed(
                offset,
                write_note(PositionNote(topics[partition.topic].topic_id, batch=done.batch, query=done.query)),
            )
            for partition, offset in done.position.items()
            if partition.number in topics[partition.topic].leaders
        }
        GroupOffsets(cluster, done.group).commit(offsets, _TIMEOUT_S)


class Watch(StreamingQueryListener):
    """A listener that commits the ends of batches. :meth:`stop` ends it.

    Args:
        spark: the session.
        cluster: of sources whose options cannot be seen; None if there are none.
    """

    def __init__(self, spark: Any, cluster: ClusterSettings | None) -> None:
        self._spark = spark
        self._cluster = cluster
        self._clusters: dict[str, list[ClusterSettings | None]] = {}
        self._unheard: dict[str, Any] = {}
        """By the ids of their runs, the queries of which no position of this run has been noted."""
        self._committer = Committer(commit_done)
        self._running: set[str] = set()
        """The ids of the runs of queries that have begun and have not ended, by the events so far."""
        self._changed = threading.Condition()

    def stop(self) -> None:
        """Listen no more; what waits is committed, and so are the last batches of queries that have ended.

        If a cluster does not answer for as long as a commit may take, a warning names the groups that stay behind.
        """
        streams = self._spark.streams
        self._await_ended(streams)
        with _unlocked(getattr(streams, "_sqlb", None)):
            streams.removeListener(self)
        self._committer.stop()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        """Note the clusters of a query while it can be asked for its plan."""
        with self._changed:
            self._running.add(str(event.runId))
        with suppress(Exception):
            query = self._spark.streams.get(str(event.id))
            self._unheard[str(event.runId)] = query
            self._clusters[str(event.runId)] = find_clusters(query)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        """Have the ends of a batch committed."""
        try:
            self.note(event.progress)
        except Exception as error:  # likewise
            _log.warning("a batch of a query is not noted: %s", error)

    def note(self, progress: Any) -> None:
        """Have the ends of a batch committed.

        Args:
            progress: PySpark's ``StreamingQueryProgress``.
        """
        self._unheard.pop(str(progress.runId), None)
        self._note(progress, progress.batchId)

    def _note(self, progress: Any, batch: int) -> None:
        group = f"spark.{progress.name or progress.id}"
        for offsets, known in read_progress(progress.sources, self._clusters.get(str(progress.runId), [])):
            cluster = known or self._cluster
            if cluster is not None:
                self._committer.put(Done(group, cluster, offsets, batch, str(progress.id)))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        """Have the position committed at which a query goes on that finds nothing new."""
        self._note_resumed(str(event.runId))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        """Forget a query, of which no batch comes any more. Its run may have ended before Spark called it idle."""
        self._note_resumed(str(event.runId))
        self._clusters.pop(str(event.runId), None)
        with self._changed:
            self._running.discard(str(event.runId))
            self._changed.notify_all()

    def _note_resumed(self, run: str) -> None:
        """Have the position of a run committed of which nothing was heard, if it has one."""
        query = self._unheard.pop(run, None)
        if query is None:
            return
        try:
            progress = query.lastProgress
            if progress is not None:
                self._note(progress, progress.batchId - 1)  # without a batch, Spark's number is that of the next one
        except Exception as error:  # likewise
            _log.warning("the position of a query is not noted: %s", error)

    def _await_ended(self, streams: Any) -> None:
        """Wait for the last events of queries that have ended: Spark tells of them a little later, in their order."""
        if not self._running:
            return
        active = {str(query.runId) for query in streams.active}
        with self._changed:
            self._changed.wait_for(lambda: self._running <= active, _ENDED_S)


@contextmanager
def _unlocked(bus: Any | None) -> Iterator[None]:
    """Do without the lock of the listeners of Spark Connect's client, if that has any, while one of them is removed.

    PySpark 4.0 holds it while it waits for the thread that hands out events, and that thread takes it for each event: one that comes
    meanwhile, as when a query has just been stopped, would keep both waiting for ever.
    """
    if bus is None:
        yield
        return
    lock, bus._lock = bus._lock, nullcontext()  # noqa: SLF001 - there is no other way
    try:
        yield
    finally:
        bus._lock = lock  # noqa: SLF001


def watch(spark: Any, options: Mapping[str, str] | None = None) -> Watch:
    """Commit the ends of all batches of a session's queries, for sources ``kafka`` and ``esp``.

    The group is ``spark.`` and the name of the query, or its id if it has none.

    Args:
        spark: the session.
        options: the ``kafka.*`` options of a cluster, for sources whose own cannot be seen: those of Spark Connect.

    Raises:
        ConsumerError: the options name no cluster that this client can talk to; or there are none under Spark Connect.
    """
    cluster = None
    if options is None and is_remote(spark):
        raise ConsumerError(
            "under Spark Connect the options of queries are on the server: name their cluster here, by "
            'watch(spark, {"kafka.bootstrap.servers": "host:port"})'
        )
    if options is not None:
        cluster = read_cluster(options)
        if cluster is None:
            raise ConsumerError("the options name no cluster: write kafka.bootstrap.servers and kafka.security.*")
    made = Watch(spark, cluster)
    spark.streams.addListener(made)
    return made
