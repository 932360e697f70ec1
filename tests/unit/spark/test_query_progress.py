import json

from esp.spark.query_progress import PartitionProgress, Progress

BEHIND = Progress(
    [PartitionProgress("flights", 0, 90, 100, 10, 1230, 4.5), PartitionProgress("flights", 12, 7, 7, 0, 0, 0.0)]
)


def test_as_a_text_it_is_a_table() -> None:
    assert str(BEHIND).splitlines() == [
        "topic    partition  offset  end  records  bytes  seconds",
        "flights          0      90  100       10   1230      4.5",
        "flights         12       7    7        0      0      0.0",
        "all                                   10   1230      4.5",
    ]


def test_as_json_it_has_sums_and_partitions() -> None:
    found = json.loads(BEHIND.to_json())
    assert (found["records"], found["bytes"], found["seconds"]) == (10, 1230, 4.5)
    assert found["partitions"][1] == {
        "topic": "flights",
        "partition": 12,
        "offset": 7,
        "end": 7,
        "records": 0,
        "bytes": 0,
        "seconds": 0.0,
    }


def test_a_query_without_a_batch_is_not_behind() -> None:
    assert str(Progress([])).splitlines()[-1].split() == ["all", "0", "0", "0.0"]
