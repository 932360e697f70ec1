from collections.abc import Mapping, Sequence
from pathlib import Path

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
    with LagRecorder("127.0.0.1:1", "flights", ["spark.rows"], str(path)):
        pass
    assert load_lag(str(path)) == {}


def test_samples_come_back_by_group(tmp_path: Path) -> None:
    path = tmp_path / "lag.csv"
    path.write_text("0.5,spark.rows,10\n0.5,spark.windows,10\n1.0,spark.rows,0\n")
    assert load_lag(str(path)) == {"spark.rows": [(0.5, 10), (1.0, 0)], "spark.windows": [(0.5, 10)]}
