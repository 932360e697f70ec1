"""How readers go on from answer to answer."""

from random import Random
from types import SimpleNamespace

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.consumer import Consumer
from tests.unit.simulation.workload.scripted import TOPIC, ScriptedCluster, ScriptedConnection, new_history
from tests.unit.storage.helpers import TOPIC_ID, make_batch


def fetched(records=b"", code=ErrorCode.none, part_code=ErrorCode.none):
    part = SimpleNamespace(error_code=part_code, records=records)
    return SimpleNamespace(error_code=code, responses=[SimpleNamespace(partitions=[part])])


class Scene:
    def __init__(self, *answers, topic_id=TOPIC_ID):
        self.seen = []
        self.history = new_history()
        self.connection = ScriptedConnection(*answers)
        self.cluster = ScriptedCluster(self.connection, topic_id=topic_id)
        self.starts = []
        self.consumer = Consumer(
            self.cluster,
            Random(1),
            self.history,
            lambda *seen: self.seen.append(seen),
            lambda *told: self.starts.append(told),
        )

    def poll(self, offset):
        return SimulatedLoop().run(self.consumer.poll(TOPIC, TOPIC_ID, 0, offset))

    def read_to(self, end_offset, tries=10):
        return SimulatedLoop().run(self.consumer.read_to(TOPIC, TOPIC_ID, 0, end_offset, tries))

    @property
    def asked(self):
        return [request.topics[0].partitions[0].fetch_offset for request in self.connection.sent]


def test_batches_of_an_answer_are_shown_one_by_one_with_the_offset_that_was_asked_for():
    first, second = make_batch(4, records=2), make_batch(6)
    scene = Scene(fetched(first + second))
    assert scene.poll(5) == 7
    ((name, topic_id, partition, offset, batches),) = scene.seen
    assert (name, topic_id, partition, offset) == ("client", TOPIC_ID, 0, 5)
    assert [bytes(data) for _, data in batches] == [first, second]
    assert [header.base_offset for header, _ in batches] == [4, 6]
    assert scene.history.read_records == 3


@pytest.mark.parametrize("size", [30, 65])
def test_batch_that_is_cut_off_is_left_for_the_next_answer(size):
    first, second = make_batch(0), make_batch(1)
    scene = Scene(fetched(first + second[:size]))
    assert scene.poll(0) == 1
    assert len(scene.seen[0][4]) == 1


def test_answer_without_records_moves_nothing():
    scene = Scene(fetched())
    assert scene.poll(9) == 9
    assert scene.seen == []


@pytest.mark.parametrize(
    "answer", [fetched(code=ErrorCode.unknown_topic_id), fetched(part_code=ErrorCode.not_leader_or_follower)]
)
def test_error_is_no_answer(answer):
    with pytest.raises(NoAnswerError):
        Scene(answer).poll(0)


def starting_at(offset, code=ErrorCode.none):
    part = SimpleNamespace(error_code=code, offset=offset)
    return SimpleNamespace(topics=[SimpleNamespace(partitions=[part])])


def test_who_is_below_the_log_start_goes_on_there():
    scene = Scene(fetched(part_code=ErrorCode.offset_out_of_range), starting_at(7))
    assert scene.poll(3) == 7
    assert scene.starts == [(f"client of {TOPIC}-0", (TOPIC_ID, 0), 7)]


@pytest.mark.parametrize("start", [starting_at(3), starting_at(-1, ErrorCode.not_leader_or_follower)])
def test_who_is_not_below_the_log_start_stays_where_it_is(start):
    with pytest.raises(NoAnswerError):
        Scene(fetched(part_code=ErrorCode.offset_out_of_range), start).poll(9)


def test_another_topic_of_the_name_is_not_read():
    scene = Scene(fetched(), topic_id=TopicId(TOPIC_ID.__class__(int=1)))
    with pytest.raises(NoAnswerError):
        scene.poll(0)
    assert scene.connection.sent == []


def test_reading_to_an_offset_goes_on_over_errors():
    scene = Scene(
        fetched(make_batch(0, records=3)), fetched(part_code=ErrorCode.not_leader_or_follower), fetched(make_batch(3))
    )
    assert scene.read_to(4) == 4
    assert scene.asked == [0, 3, 3]
    assert scene.cluster.forgotten == 1


def test_reading_to_an_offset_gives_up_after_so_many_tries():
    scene = Scene(fetched())
    assert scene.read_to(4, tries=5) == 0
    assert len(scene.asked) == 5


def test_a_reader_that_knows_of_more_than_it_gets_looks_for_the_leader_anew():
    scene = Scene(*[fetched()] * 45, fetched(make_batch(0)))
    assert scene.read_to(1, tries=100) == 1
    assert scene.cluster.forgotten == 2
