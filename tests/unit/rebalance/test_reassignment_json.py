import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition
from esp.rebalance.cluster import Replica
from esp.rebalance.reassignment_json import (
    check_executable,
    chosen_log_dirs,
    read_reassignment,
    read_topics,
    write_reassignment,
)

T0 = TopicPartition("t", 0)


def test_directories_may_be_left_out_or_any() -> None:
    [without] = read_reassignment('{"partitions":[{"topic":"t","partition":0,"replicas":[2,1]}]}', "f")
    [with_] = read_reassignment(
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1],"log_dirs":["/a","any"]}]}', "f"
    )
    assert (without.partition, without.replicas, without.log_dirs) == (T0, (2, 1), ("any", "any"))
    assert chosen_log_dirs([without]) == {}
    assert chosen_log_dirs([with_]) == {Replica(T0, 2): "/a"}


partitions = st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 99))


@given(st.dictionaries(partitions, st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)))
def test_what_is_written_is_read(assignments: dict[TopicPartition, list[int]]) -> None:
    read = read_reassignment(write_reassignment(assignments), "f")
    assert {each.partition: list(each.replicas) for each in read} == assignments
    assert [each.partition for each in read] == sorted(assignments)


def test_written_as_kafka_writes() -> None:
    text = write_reassignment({T0: (1, 2)}, {Replica(T0, 2): "/data"})
    assert (
        text == '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","/data"]}]}'
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "f is not JSON"),
        ("[]", "Expected `object`"),
        ('{"version":2}', "Not supported version field value 2"),
        ('{"partitions":[{"topic":"t","replicas":[1]}]}', "$.partitions[0]"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":["1"]}]}', "$.partitions[0].replicas[0]"),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any"]}]}',
            r"partitions[0]: Size of replicas list [1, 2] is different",
        ),
    ],
)
def test_malformed_files_are_refused_with_the_entry(text: str, told: str) -> None:
    with pytest.raises(OperatorError) as refused:
        read_reassignment(text, "f")
    assert told in refused.value.problem


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([], "list cannot be empty"),
        ([("t", 0, [])], "partitions[0] (t-0): Partition replica list cannot be empty"),
        (
            [("t", 1, [1]), ("t", 0, [1]), ("t", 0, [2])],
            "partitions[1] (t-0): Partition reassignment contains duplicate",
        ),
        ([("t", 0, [1, 2, 1])], "t-0 contains multiple entries for 1"),
        ([("t", 0, [-1])], "-1 is not a broker id"),
    ],
)
def test_what_no_cluster_can_do_is_refused_with_the_entry(entries: list[tuple[str, int, list[int]]], told: str) -> None:
    text = ",".join(f'{{"topic":"{t}","partition":{p},"replicas":{r}}}' for t, p, r in entries)
    with pytest.raises(OperatorError) as refused:
        check_executable(read_reassignment(f'{{"partitions":[{text}]}}', "f"), "f")
    assert told in refused.value.problem


def test_topics_are_read_and_named_once() -> None:
    assert read_topics('{"topics":[{"topic":"a"},{"topic":"b"}],"version":1}', "f") == ["a", "b"]
    for text in ('{"topics":[]}', '{"topics":[{"topic":"a"},{"topic":"a"}]}', '{"topics":[{}]}', "x"):
        with pytest.raises(OperatorError):
            read_topics(text, "f")
