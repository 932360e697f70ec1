"""The thread that commits positions, without a cluster."""

import json
import logging
import threading
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import NamedTuple
from uuid import UUID

import pytest

from esp.consumer.cluster import Address
from esp.consumer.connection import Terms
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.spark.query_sources import ClusterSettings
from esp.spark.watching import Committer, Done, Watch, watch
from tests.integration.spark.session import HAS_CONNECT

CLUSTER = ClusterSettings((Address("a", 1),), Terms())
WAIT_S = 30


def done(batch: int, group: str = "g", topic: str = "t") -> Done:
    return Done(group, CLUSTER, {Partition(topic, 0): batch}, batch)


def test_while_a_cluster_does_not_answer_only_the_latest_position_of_a_query_waits() -> None:
    committed: list[Done] = []
    is_asked, may_answer = threading.Event(), threading.Event()

    def commit(one: Done) -> None:
        is_asked.set()
        assert may_answer.wait(WAIT_S)
        committed.append(one)

    committer = Committer(commit)
    committer.put(done(0))
    assert is_asked.wait(WAIT_S)
    for batch in range(1, 100):
        committer.put(done(batch))
    committer.put(done(99, topic="u"))
    committer.put(done(7, group="h"))
    may_answer.set()
    committer.stop()
    assert committed == [
        done(0),
        Done("g", CLUSTER, {Partition("t", 0): 99, Partition("u", 0): 99}, 99),
        done(7, group="h"),
    ]


def test_a_commit_that_fails_is_told_and_the_next_is_tried(caplog: pytest.LogCaptureFixture) -> None:
    committed: list[int] = []

    def commit(one: Done) -> None:
        if one.batch == 0:
            raise ConsumerError("no broker answers")
        committed.append(one.batch)

    committer = Committer(commit)
    with caplog.at_level(logging.WARNING):
        committer.put(done(0))
        committer.put(done(1, group="h"))
        committer.stop()
    assert committed == [1]
    assert "the position of g is not committed: no broker answers" in caplog.text


def test_a_commit_that_fails_is_tried_again_until_the_cluster_answers() -> None:
    tried: list[int] = []
    is_committed = threading.Event()

    def commit(one: Done) -> None:
        tried.append(one.batch)
        if len(tried) < 4:
            raise ConsumerError("no broker answers")
        is_committed.set()

    committer = Committer(commit, retry_s=0.001)
    committer.put(done(7))
    assert is_committed.wait(WAIT_S)
    committer.stop()
    assert tried == [7, 7, 7, 7]


def test_a_position_that_waits_again_does_not_replace_a_newer_one() -> None:
    """Another source of the query has no newer position, and keeps its own."""
    committed: list[Done] = []
    is_asked, may_fail = threading.Event(), threading.Event()

    def commit(one: Done) -> None:
        if not is_asked.is_set():
            is_asked.set()
            assert may_fail.wait(WAIT_S)
            raise ConsumerError("no broker answers")
        committed.append(one)

    committer = Committer(commit)
    committer.put(Done("g", CLUSTER, {Partition("t", 0): 1, Partition("u", 0): 1}, 1))
    assert is_asked.wait(WAIT_S)
    committer.put(done(2))
    may_fail.set()
    committer.stop()
    assert committed == [Done("g", CLUSTER, {Partition("t", 0): 2, Partition("u", 0): 1}, 2)]


def test_the_end_tries_a_position_that_waits_without_its_pause() -> None:
    tried: list[str] = []
    is_put_back = threading.Event()

    def commit(one: Done) -> None:
        tried.append(one.group)
        if len(tried) == 1:
            raise ConsumerError("no broker answers")
        is_put_back.set()

    committer = Committer(commit, retry_s=3600)
    committer.put(done(7))
    committer.put(done(7, group="h"))
    assert is_put_back.wait(WAIT_S)
    assert tried == ["g", "h"]
    committer.stop()
    assert tried == ["g", "h", "g"]


def test_the_end_names_the_groups_that_are_not_committed(caplog: pytest.LogCaptureFixture) -> None:
    is_asked, may_answer = threading.Event(), threading.Event()

    def commit(_one: Done) -> None:
        is_asked.set()
        assert may_answer.wait(WAIT_S)

    committer = Committer(commit, stop_s=0.01)
    committer.put(done(0, group="spark.rows"))
    assert is_asked.wait(WAIT_S)
    committer.put(done(1, group="spark.windows"))
    committer.put(done(2, group="spark.rows"))
    with caplog.at_level(logging.WARNING):
        committer.stop()
    assert "the last positions of spark.rows, spark.windows are not committed" in caplog.text
    may_answer.set()


def test_an_end_that_commits_all_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        committer = Committer(lambda _one: None)
        committer.put(done(0))
        committer.stop()
    assert caplog.text == ""


def test_options_without_a_cluster_are_refused() -> None:
    with pytest.raises(ConsumerError, match=r"the options name no cluster: write kafka\.bootstrap\.servers"):
        watch(None, {"subscribe": "t"})


class PlayedServer:
    """The client of a Spark Connect server that sends one more event while the last listener is removed."""

    def __init__(self, messages: ModuleType) -> None:
        self._messages = messages
        self._is_removed = threading.Event()

    def execute_command_as_iterator(self, _command: object) -> Iterator[dict[str, object]]:
        answer = self._messages.StreamingQueryListenerEventsResult
        yield {"streaming_query_listener_events_result": answer(listener_bus_listener_added=True)}
        assert self._is_removed.wait(WAIT_S)
        ended = {"id": f"{UUID(int=1)}", "runId": f"{UUID(int=2)}", "exception": None, "errorClassOnException": None}
        event = self._messages.StreamingQueryListenerEvent(
            event_json=json.dumps(ended),
            event_type=self._messages.StreamingQueryEventType.QUERY_TERMINATED_EVENT,
        )
        yield {"streaming_query_listener_events_result": answer(events=[event])}

    def execute_command(self, _command: object) -> None:
        self._is_removed.set()


@pytest.mark.skipif(not HAS_CONNECT, reason="the packages of Spark Connect are those of PySpark 4.0")
def test_a_watcher_ends_under_connect_though_an_event_comes_meanwhile() -> None:
    """PySpark 4.0 alone waits for ever then: its removal holds the lock that the event needs."""
    streaming = pytest.importorskip("pyspark.sql.connect.streaming.query", exc_type=ImportError)
    messages = pytest.importorskip("pyspark.sql.connect.proto", exc_type=ImportError)
    session = SimpleNamespace(client=PlayedServer(messages))
    streams = streaming.StreamingQueryManager(session)
    watcher = Watch(SimpleNamespace(streams=streams), None)
    streams.addListener(watcher)
    ending = threading.Thread(target=watcher.stop, daemon=True)
    ending.start()
    ending.join(WAIT_S)
    assert not ending.is_alive()
    assert isinstance(streams._sqlb._lock, type(threading.Lock()))


def test_a_watcher_waits_for_the_last_events_of_queries_that_have_ended() -> None:
    ended, running = (SimpleNamespace(id=UUID(int=number), runId=UUID(int=number + 10)) for number in (1, 2))
    is_asked = threading.Event()
    removed: list[bool] = []

    class Streams:
        @property
        def active(self) -> list[SimpleNamespace]:
            is_asked.set()
            return [running]

        def get(self, _name: str) -> None:
            return None

        def removeListener(self, _listener: Watch) -> None:  # noqa: N802 - PySpark's name
            removed.append(ending.is_alive() and was_told.is_set())

    was_told = threading.Event()
    watcher = Watch(SimpleNamespace(streams=Streams()), None)
    for query in (ended, running):
        watcher.onQueryStarted(query)
    ending = threading.Thread(target=watcher.stop, daemon=True)
    ending.start()
    assert is_asked.wait(WAIT_S)
    was_told.set()
    watcher.onQueryTerminated(ended)
    ending.join(WAIT_S)
    assert removed == [True]


class ResumedQuery(NamedTuple):
    """A query that was started again, and the progress of its first trigger."""

    id: UUID
    runId: UUID  # noqa: N815 - PySpark's name
    lastProgress: SimpleNamespace | None  # noqa: N815 - likewise


def resumed(batch: int, end: int | None = 20) -> ResumedQuery:
    """A query whose run has read nothing, and the number of its next batch; without an end it has had no trigger yet."""
    one, run = UUID(int=1), UUID(int=2)
    sources = [{"endOffset": json.dumps({"t": {"0": end}})}]
    progress = SimpleNamespace(id=one, runId=run, name="q", batchId=batch, sources=sources)
    return ResumedQuery(one, run, None if end is None else progress)


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[Done]:
    """What watchers commit."""
    found: list[Done] = []
    monkeypatch.setattr("esp.spark.watching.commit_done", found.append)
    return found


def watching(query: ResumedQuery) -> Watch:
    """A watcher that was told of the start of a query."""
    streams = SimpleNamespace(get=lambda _id: query, active=[query], removeListener=lambda _listener: None)
    watcher = Watch(SimpleNamespace(streams=streams), CLUSTER)
    watcher.onQueryStarted(query)
    return watcher


def resumed_at(batch: int) -> Done:
    """The position of :func:`resumed`."""
    return Done("spark.q", CLUSTER, {Partition("t", 0): 20}, batch, str(UUID(int=1)))


def test_the_position_of_a_query_that_finds_nothing_new_is_committed_once(noted: list[Done]) -> None:
    """It was killed between Spark's commit of its last batch and the group's."""
    watcher = watching(resumed(8))
    watcher.onQueryIdle(resumed(7))
    watcher.onQueryIdle(resumed(7))
    watcher.onQueryTerminated(resumed(7))
    watcher.stop()
    assert noted == [resumed_at(7)]


def test_a_run_that_ends_before_it_is_called_idle_has_its_position_committed(noted: list[Done]) -> None:
    watcher = watching(resumed(8))
    watcher.onQueryTerminated(resumed(7))
    watcher.stop()
    assert noted == [resumed_at(7)]


def test_a_run_that_told_of_a_batch_has_nothing_more_to_commit(noted: list[Done]) -> None:
    query = resumed(7)
    watcher = watching(query)
    watcher.onQueryProgress(SimpleNamespace(progress=query.lastProgress))
    watcher.onQueryIdle(query)
    watcher.onQueryTerminated(query)
    watcher.stop()
    assert noted == [resumed_at(7)]


def test_a_run_without_a_trigger_has_no_position(noted: list[Done]) -> None:
    watcher = watching(resumed(7, end=None))
    watcher.onQueryTerminated(resumed(7))
    watcher.stop()
    assert noted == []
