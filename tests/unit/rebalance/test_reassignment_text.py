from esp.model.ids import TopicPartition
from esp.rebalance.cluster import LogDir, Partition, Reassignment, Replica
from esp.rebalance.reassignment_text import (
    directory_moves,
    list_of_reassignments,
    plural,
    state_of_directory_move,
    state_of_partition,
)

T0 = TopicPartition("t", 0)
MOVING = Reassignment((3, 2, 1), frozenset({3}), frozenset({1}))


def test_partitions_are_told_of_as_kafka_does() -> None:
    there = Partition((1, 2), frozenset({1, 2}), 1)
    assert state_of_partition(T0, (3, 2), MOVING, there) == "Reassignment of partition t-0 is still in progress."
    assert state_of_partition(T0, (1, 2), None, there) == "Reassignment of partition t-0 is completed."
    assert (
        state_of_partition(T0, (2, 1), None, there)
        == "There is no active reassignment of partition t-0, but replica set is 1,2 rather than 2,1."
    )
    assert "replica set is  rather than 2" in state_of_partition(T0, (2,), None, None)


def test_list_names_what_is_added_and_removed() -> None:
    assert list_of_reassignments({}) == ["No partition reassignments found."]
    assert list_of_reassignments({T0: MOVING}) == [
        "Current partition reassignments:",
        "t-0: replicas: 3,2,1. adding: 3. removing: 1.",
    ]
    assert list_of_reassignments({T0: Reassignment((1, 2), frozenset({2}), frozenset())})[1].endswith("adding: 2.")


def test_moves_between_directories_are_told_of_as_kafka_does() -> None:
    def told(target: str, *dirs: LogDir) -> str:
        [move] = directory_moves({Replica(T0, 1): target}, {1: dirs})
        return state_of_directory_move(move)

    a, b = LogDir("/a", 1, 1, {T0: 5}, {}), LogDir("/b", 1, 1, {}, {T0: 2})
    assert told("/a") == "Partition t-0 cannot be found in any live log directory on broker 1."
    assert told("/a", a) == "Reassignment of replica t-0-1 completed successfully."
    assert told("/b", a, b) == "Reassignment of replica t-0-1 is still in progress."
    assert told("/c", a, b) == "Partition t-0 on broker 1 is being moved to log dir /b instead of /c."
    assert told("/b", a) == "Partition t-0 on broker 1 is not being moved from log dir /a to /b."


def test_one_is_no_plural() -> None:
    assert [plural("move", [1]), plural("move", []), plural("move", [1, 2])] == ["move", "moves", "moves"]
