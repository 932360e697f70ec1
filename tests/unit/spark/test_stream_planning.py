"""The planner of a stream against a broker that lags, behind a real socket; ``tests/integration/test_esp_stream.py`` has a node's cases."""

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from esp.consumer.messages import Partition
from esp.records.builder import NewRecord, build_batch
from esp.spark.narrowing import Narrowing
from esp.spark.options import Kind, parse_options
from esp.spark.planning import plan_read
from esp.spark.stream_planning import StreamPlanner
from tests.models.fake_leader import HOST, FakeLeader

BATCHES = [
    build_batch([NewRecord(b"%d" % offset, timestamp=0) for offset in range(first, first + 10)], base_offset=first)
    for first in range(0, 50, 10)
]
T0 = Partition("t", 0)
ID = uuid.UUID(int=1)


@pytest.fixture
def leader() -> Iterator[FakeLeader]:
    with FakeLeader("t", BATCHES[:3]) as made:
        made.topic_id = ID
        yield made


def options_of(leader: FakeLeader, **more: str) -> dict[str, str]:
    given = {name.replace("__", "."): value for name, value in more.items()}
    return {"kafka.bootstrap.servers": f"{HOST}:{leader.port}", "kafka.retry.backoff.ms": "1", **given}


def planner_of(leader: FakeLeader, warnings: list[str], **more: str) -> StreamPlanner:
    options = {"startingOffsets": "earliest", **more}
    return StreamPlanner(parse_options(options_of(leader, **options), Kind.STREAM), warnings.append)


def test_records_that_come_between_the_look_ups_do_not_lie_behind_the_end(leader: FakeLeader) -> None:
    leader.arriving = BATCHES[3:]
    with closing(planner_of(leader, [], subscribe="t", startingTimestamp="1")) as planner:
        assert planner.find_initial() == {T0: 40}


@pytest.mark.parametrize("edge", ["startingTimestamp", "endingTimestamp"])
def test_a_batch_takes_in_records_that_come_between_the_look_ups(leader: FakeLeader, edge: str) -> None:
    leader.arriving = BATCHES[3:]
    options = parse_options(options_of(leader, subscribe="t", **{edge: "1"}), Kind.BATCH)
    tasks = plan_read(options, Narrowing())
    assert [task.offsets for task in tasks] == ([] if edge == "startingTimestamp" else [(T0, 0, 40)])
