"""The planner of a stream against a broker that lags, behind a real socket; ``tests/integration/test_esp_stream.py`` has a node's cases."""

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from esp.consumer.errors import ConsumerError
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
NEVER = 1 << 30
"""The broker knows the topic after so many answers."""


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


@pytest.mark.parametrize("subscription", [{"subscribePattern": "^t$"}, {"subscribe": "t"}, {"assign": '{"t": [0]}'}])
@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_broker_that_does_not_know_a_topic_yet_is_asked_again(
    leader: FakeLeader, subscription: dict[str, str], fails: str
) -> None:
    warnings: list[str] = []
    with closing(planner_of(leader, warnings, failOnDataLoss=fails, **subscription)) as planner:
        assert planner.advance() == {T0: 30}
        leader.hidden = 3
        assert planner.advance() == {T0: 30}
    assert not warnings


@pytest.mark.parametrize("learns_ends", [True, False])
def test_what_a_first_batch_leaves_is_told_where_spark_may_end_the_run_behind_it(
    leader: FakeLeader, learns_ends: bool
) -> None:
    warnings: list[str] = []
    given = options_of(leader, subscribe="t", startingOffsets="earliest", maxOffsetsPerTrigger="10")
    options = parse_options(given, Kind.STREAM)
    with closing(StreamPlanner(options, warnings.append, learns_ends=learns_ends)) as planner:
        assert planner.advance() == {T0: 10}
    assert [text.partition(":")[0] for text in warnings] == ([] if learns_ends else ["format esp"])


def test_a_partition_that_was_gone_is_read_on_where_it_was(leader: FakeLeader) -> None:
    warnings: list[str] = []
    terms = {"failOnDataLoss": "false", "kafka__default__api__timeout__ms": "50"}
    with closing(planner_of(leader, warnings, subscribePattern="^t$", **terms)) as planner:
        assert planner.advance() == {T0: 30}
        leader.hidden = NEVER
        assert planner.advance() == {}
        leader.hidden = 0
        leader.arriving = BATCHES[3:]
        assert planner.advance() == {T0: 30}
        assert planner.plan({}, {T0: 30}) == [], "the checkpoint has the position before a record is read"
        assert planner.advance() == {T0: 50}
        [task] = planner.plan({T0: 30}, {T0: 50})
        assert task.offsets == (T0, 30, 50)
    assert warnings == [
        "partition 0 of topic t is not among those to read any more, the stream was at its offset 30, and goes on without it",
        "partition 0 of topic t is there again, and is read from offset 30 on",
    ]


def test_another_topic_of_a_name_that_was_gone_is_not_read_on(leader: FakeLeader) -> None:
    terms = {"failOnDataLoss": "false", "kafka__default__api__timeout__ms": "50"}
    with closing(planner_of(leader, [], subscribePattern="^t$", **terms)) as planner:
        assert planner.advance() == {T0: 30}
        leader.hidden = NEVER
        assert planner.advance() == {}
        leader.hidden = 0
        leader.topic_id = uuid.UUID(int=2)
        with pytest.raises(ConsumerError, match="topic t was deleted and created again"):
            planner.advance()


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


def test_tasks_read_the_topic_that_was_planned(leader: FakeLeader) -> None:
    with closing(planner_of(leader, [], subscribe="t")) as planner:
        end = planner.advance()
        leader.topic_id = uuid.UUID(int=2)
        [task] = planner.plan({T0: 0}, end)
        assert task.topic_id == ID.bytes
    [task] = plan_read(parse_options(options_of(leader, subscribe="t"), Kind.BATCH), Narrowing())
    assert task.topic_id == leader.topic_id.bytes
