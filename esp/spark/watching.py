"""The lag of queries in Kafka's tools: the end of each batch is committed to a group of the query.

Spark calls a listener on a thread of its own, and waits for it. So the listener only notes what is to be committed, and a thread
commits it. If a cluster does not answer, the latest positions wait, and older ones are forgotten.
"""

import logging
import threading
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
_STOP_S: Final = 5.0


class Done(NamedTuple):
    """A batch that is done: the group of its query, the cluster of a source, where the source's part of the batch ended, its number, and
    the query's id.
    """

    group: str
    cluster: ClusterSettings
    position: Position
    batch: int
    query: str = ""


class Committer:
    """Commits positions on a thread of its own.

    Args:
        commit: commits one; may wait.
    """

    def __init__(self, commit: Callable[[Done], None]) -> None:
        self._commit = commit
        self._waiting: dict[tuple[str, object], Done] = {}
        self._changed = threading.Condition()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="esp-watch", daemon=True)
        self._thread.start()

    def put(self, done: Done) -> None:
        """Have a position committed instead of an older one of the same query and cluster that still waits."""
        with self._changed:
            older = self._waiting.get((done.group, done.cluster.servers))
            position = {**older.position, **done.position} if older is not None else done.position
            self._waiting[done.group, done.cluster.servers] = done._replace(position=position)
            self._changed.notify()

    def stop(self) -> None:
        """Commit what waits, and end."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_stopped)
                if not self._waiting:
                    return
                done = self._waiting.pop(next(iter(self._waiting)))
            try:
                self._commit(done)
            except Exception as error:  # a query is never hurt by what shows its lag
                _log.warning("the position of %s is not committed: %s", done.group, error)


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
        self._committer = Committer(commit_done)
        self._running: set[str] = set()
        """The ids of the runs of queries that have begun and have not ended, by the events so far."""
        self._changed = threading.Condition()

    def stop(self) -> None:
        """Listen no more; what waits is committed, if that is quick, and so are the last batches of queries that have ended."""
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
            self._clusters[str(event.runId)] = find_clusters(self._spark.streams.get(str(event.id)))

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
        group = f"spark.{progress.name or progress.id}"
        for offsets, known in read_progress(progress.sources, self._clusters.get(str(progress.runId), [])):
            cluster = known or self._cluster
            if cluster is not None:
                self._committer.put(Done(group, cluster, offsets, progress.batchId, str(progress.id)))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        """An idle query has nothing new to commit."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        """Forget a query, of which no batch comes any more."""
        self._clusters.pop(str(event.runId), None)
        with self._changed:
            self._running.discard(str(event.runId))
            self._changed.notify_all()

    def _await_ended(self, streams: Any) -> None:
        """Wait for the last events of queries that have ended: Spark tells of them a little later, in their order."""
        if not self._running:
            return
        active = {str(query.runId) for query in streams.active}
        with self._changed:
            self._changed.wait_for(lambda: self._running <= active, _STOP_S)


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
