from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaTimeoutError

from pyspark_jobs.lag import LagRecorder, load_lag, read_lag

PARTITIONS = [TopicPartition("flights", number) for number in range(2)]


class Consumer:
    """A topic whose records have offsets 10 to 99 in each partition."""

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0, 1} if topic == "flights" else None

    def beginning_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 100)


class Admin:
    """A group that has committed in one of them."""

    def list_group_offsets(
        self, groups: Mapping[str, Sequence[TopicPartition]]
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        found = {PARTITIONS[0]: OffsetAndMetadata(70, "", -1), PARTITIONS[1]: OffsetAndMetadata(-1, "", -1)}
        return {group: found if group == "spark.rows" else {} for group in groups}


def test_a_group_that_has_committed_nothing_is_behind_by_all_that_is_there() -> None:
    found = read_lag(Consumer(), Admin(), "flights", ["spark.rows", "spark.windows"])
    assert found == {"spark.rows": 30 + 90, "spark.windows": 90 + 90}


def test_a_topic_that_is_not_there_yet_has_no_lag() -> None:
    assert read_lag(Consumer(), Admin(), "none", ["spark.rows"]) == {}


def test_a_cluster_that_is_away_leaves_a_hole_and_does_no_harm(tmp_path: Path, monkeypatch) -> None:
    def refuse(**_settings: object) -> None:
        raise KafkaTimeoutError("no brokers")

    monkeypatch.setattr("pyspark_jobs.lag.KafkaConsumer", refuse)
    path = tmp_path / "lag.csv"
    with LagRecorder("127.0.0.1:1", "flights", ["spark.rows"], str(path), last_within_s=0.01):
        pass
    assert load_lag(str(path)) == {}


@pytest.mark.parametrize("failing", ["connecting", "reading"])
def test_the_last_sample_is_taken_when_the_cluster_answers_again(failing: str, tmp_path: Path, monkeypatch) -> None:
    """It has two failures behind the end of the run."""
    recorder = LagRecorder("127.0.0.1:1", "flights", ["spark.rows"], str(tmp_path / "lag.csv"))
    failures = iter([KafkaTimeoutError("no brokers")] * 2)

    def fail_after_the_end(step: str) -> None:
        recorder._stop.wait()
        if step == failing and (failure := next(failures, None)) is not None:
            raise failure

    class Client:
        """A client of a cluster that is away for a while."""

        def __init__(self, **_settings: object) -> None:
            fail_after_the_end("connecting")

        def close(self) -> None:
            pass

    def read(*_asked: object) -> dict[str, int]:
        fail_after_the_end("reading")
        return {"spark.rows": 0}

    monkeypatch.setattr("pyspark_jobs.lag.INTERVAL_S", 0.001)
    monkeypatch.setattr("pyspark_jobs.lag.KafkaConsumer", Client)
    monkeypatch.setattr("pyspark_jobs.lag.KafkaAdminClient", Client)
    monkeypatch.setattr("pyspark_jobs.lag.read_lag", read)
    with recorder:
        pass
    [(_, records)] = load_lag(str(tmp_path / "lag.csv"))["spark.rows"]
    assert records == 0
    assert next(failures, None) is None


def test_samples_come_back_by_group(tmp_path: Path) -> None:
    path = tmp_path / "lag.csv"
    path.write_text("0.5,spark.rows,10\n0.5,spark.windows,10\n1.0,spark.rows,0\n")
    assert load_lag(str(path)) == {"spark.rows": [(0.5, 10), (1.0, 0)], "spark.windows": [(0.5, 10)]}
