"""The thread that commits positions, without a cluster."""

import logging
import threading

import pytest

from esp.consumer.cluster import Address
from esp.consumer.connection import Terms
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.spark.query_sources import ClusterSettings
from esp.spark.watching import Committer, Done, watch

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


def test_options_without_a_cluster_are_refused() -> None:
    with pytest.raises(ConsumerError, match=r"the options name no cluster: write kafka\.bootstrap\.servers"):
        watch(None, {"subscribe": "t"})
