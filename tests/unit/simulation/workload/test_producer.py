"""What producers send, how often, and what they make of the answers."""

import asyncio
from random import Random
from types import SimpleNamespace

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.records.batch_header import read_header
from esp.simulation.checkers.client_history import Outcome
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.producer import IN_FLIGHT_MAX, Lane, Producer
from tests.unit.simulation.workload.scripted import TOPIC, ScriptedCluster, ScriptedConnection, new_history
from tests.unit.storage.helpers import TOPIC_ID

ACKED, UNKNOWN, REFUSED = Outcome.ACKED, Outcome.UNKNOWN, Outcome.REFUSED
PARTITION = 0
NONE = NoAnswerError("the connection ended")


def produced(code=ErrorCode.none, offset=40):
    part = SimpleNamespace(error_code=code, base_offset=offset)
    return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[part])])


class Scene:
    """A producer that runs for some seconds, and is told to stop then."""

    def __init__(self, *answers, is_idempotent=True, seed=1, topic_id=TOPIC_ID, is_eager=False):
        self.connection = ScriptedConnection(*answers)
        self.cluster = ScriptedCluster(self.connection, topic_id=topic_id)
        self.history = new_history()
        self.acked = []
        self.retired = set()
        self.producer = Producer(
            self.cluster,
            Random(seed),
            self.history,
            self.acked.append,
            lambda batch: batch.number in self.retired,
            pause_s=0.2,
            is_idempotent=is_idempotent,
            eager=Random(seed) if is_eager else None,
        )

    def run(self, *, for_s=3.0, then=None):
        async def main():
            running = asyncio.create_task(self.producer.run(TOPIC, TOPIC_ID, PARTITION))
            await asyncio.sleep(for_s)
            self.producer.is_stopping = True
            if then is not None:
                then()
            await asyncio.wait_for(running, 60)

        SimulatedLoop().run(main())
        return self

    @property
    def sent_data(self):
        return [bytes(request.topic_data[0].partition_data[0].records) for request in self.connection.sent]

    @property
    def fates(self):
        return [batch.fate for batch in self.history.batches]


def test_batches_of_a_lane_have_sequences_without_gaps_and_values_of_their_own():
    lane, rng = Lane(TOPIC, TOPIC_ID, PARTITION, "producer"), Random(1)
    batches = [lane.make(rng, 7, -1, 1.0) for _ in range(30)]
    due = 0
    for number, batch in enumerate(batches):
        header = read_header(batch.data)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, due)
        assert (batch.number, batch.crc, batch.record_count) == (number, header.crc, header.record_count)
        due += batch.record_count
    assert len({batch.crc for batch in batches}) == len(batches)


def test_batches_without_a_producer_id_have_no_sequence():
    header = read_header(Lane(TOPIC, TOPIC_ID, PARTITION, "producer").make(Random(1), -1, 1, 0.0).data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


def test_acknowledgement_is_remembered_with_its_offset_and_moment():
    scene = Scene(produced(offset=40)).run()
    assert scene.fates == [ACKED] * len(scene.acked)
    assert scene.acked == scene.history.batches
    assert {batch.base_offset for batch in scene.acked} == {40}
    assert all(0 < batch.acked_s < 60 for batch in scene.acked)
    assert scene.history.acked_records == sum(batch.record_count for batch in scene.acked)
    assert scene.producer.pending_batches == 0


@pytest.mark.parametrize(
    "trouble", [produced(ErrorCode.not_leader_or_follower), produced(ErrorCode.not_enough_replicas), NONE]
)
def test_idempotent_producer_sends_the_same_bytes_until_it_knows(trouble):
    scene = Scene(trouble, trouble, produced()).run(for_s=1.0)
    first = scene.sent_data[0]
    assert scene.sent_data[:3] == [first] * 3
    assert scene.cluster.forgotten == 2
    assert scene.history.refusals + scene.history.no_answers == 2
    assert set(scene.fates) == {ACKED}


@pytest.mark.parametrize(("is_eager", "at_first"), [(False, 1), (True, IN_FLIGHT_MAX)])
def test_patient_producer_has_one_batch_in_flight_until_one_is_known_and_an_eager_one_has_a_few(is_eager, at_first):
    scene = Scene(NONE, is_eager=is_eager)
    lane_sizes = []
    scene.producer.is_stopping = False

    async def main():
        running = asyncio.create_task(scene.producer.run(TOPIC, TOPIC_ID, PARTITION))
        for _ in range(50):
            await asyncio.sleep(0.1)
            lane_sizes.append(scene.producer.pending_batches)
        scene.connection.answers[:] = [produced()] * 3 + [NONE]
        for _ in range(100):
            await asyncio.sleep(0.1)
            lane_sizes.append(scene.producer.pending_batches)
        scene.producer.give_up(TOPIC_ID, PARTITION)
        await running

    SimulatedLoop().run(main())
    assert max(lane_sizes[1:50]) == at_first
    assert max(lane_sizes) == IN_FLIGHT_MAX


def test_batches_behind_a_refused_one_keep_their_order():
    scene = Scene(produced(), produced(ErrorCode.not_leader_or_follower), produced(), seed=3).run(for_s=5.0)
    order = [batch.number for batch in scene.acked]
    assert order == sorted(order)
    assert len(order) == len(scene.history.batches)


@pytest.mark.parametrize(
    ("answer", "fate"),
    [
        (produced(), ACKED),
        (produced(ErrorCode.not_enough_replicas), REFUSED),
        (produced(ErrorCode.not_enough_replicas_after_append), UNKNOWN),
        (produced(ErrorCode.not_leader_or_follower), UNKNOWN),
        (produced(ErrorCode.request_timed_out), UNKNOWN),
        (NONE, UNKNOWN),
    ],
)
def test_plain_producer_tries_once_and_knows_what_the_answer_says(answer, fate):
    scene = Scene(answer, is_idempotent=False, seed=2).run()
    answered = [batch for batch in scene.history.batches if batch.acks]
    assert {batch.fate for batch in answered} == {fate}
    assert len(scene.connection.sent) <= len(answered)
    assert len(set(scene.sent_data)) == len(scene.sent_data)


def test_nothing_is_known_of_what_is_sent_without_acknowledgement():
    scene = Scene(produced(), is_idempotent=False, seed=2).run(for_s=10.0)
    assert len(scene.connection.unanswered) == sum(batch.acks == 0 for batch in scene.history.batches) > 0
    assert {batch.fate for batch in scene.history.batches if batch.acks == 0} == {UNKNOWN}


def test_idempotent_producer_goes_on_behind_a_refused_batch_that_retention_has_taken():
    scene = Scene(produced(), produced(ErrorCode.out_of_order_sequence_number), produced())
    scene.retired = {1}
    scene.run()
    assert scene.history.retired_batches == 1
    assert scene.fates[:3] == [ACKED, UNKNOWN, ACKED]
    assert scene.sent_data.count(scene.history.batches[1].data) == 1


def test_eager_producer_begins_a_new_epoch_after_a_first_batch_whose_refusal_is_final():
    scene = Scene(produced(ErrorCode.invalid_timestamp), produced(), is_eager=True)
    scene.run()
    first, *rest = scene.history.batches
    headers = [read_header(batch.data) for batch in rest if batch.fate is ACKED]
    assert first.fate is UNKNOWN
    assert scene.sent_data.count(first.data) == 1
    assert {header.producer_epoch for header in headers} == {1}
    assert headers[0].base_sequence == 0
    assert scene.producer.pending_batches == 0


def test_producer_sends_nothing_to_another_topic_of_the_name():
    scene = Scene(produced(), is_idempotent=False, topic_id=TopicId(TOPIC_ID.__class__(int=1))).run()
    assert scene.connection.sent == scene.connection.unanswered == []
    assert scene.history.no_answers > 0


def test_producer_that_gives_up_leaves_the_fate_unknown():
    scene = Scene(NONE)
    scene.run(then=lambda: scene.producer.give_up(TOPIC_ID, PARTITION))
    assert scene.fates == [UNKNOWN]
    assert scene.producer.pending_batches == 0


def test_nothing_must_get_through_on_a_lane_that_was_given_up_even_if_its_topic_comes_back():
    assert Scene(produced()).run().history.lanes
    scene = Scene(produced(), NONE)
    scene.run(then=lambda: scene.producer.give_up(TOPIC_ID, PARTITION))
    assert scene.history.lanes == {}
    scene.history.on_acked(scene.history.batches[0], 70.0)
    assert scene.history.lanes == {}, "an answer that comes late"


def test_batch_that_is_out_of_order_behind_a_corrupt_one_is_a_violation():
    scene = Scene(
        produced(ErrorCode.corrupt_message), produced(ErrorCode.out_of_order_sequence_number), produced(), is_eager=True
    )
    with pytest.raises(ViolationError, match=r"^INV-PROD-GAP at "):
        scene.run()


def test_batch_behind_a_corrupt_one_that_was_committed_and_is_gone_may_be_out_of_order():
    scene = Scene(
        produced(ErrorCode.corrupt_message), produced(ErrorCode.out_of_order_sequence_number), produced(), is_eager=True
    )
    scene.retired.add(1)
    scene.run()
    assert ACKED in scene.fates


def test_batch_that_is_refused_for_now_behind_a_corrupt_one_comes_again_in_order():
    scene = Scene(
        produced(ErrorCode.corrupt_message),
        *[produced(ErrorCode.not_leader_or_follower)] * (IN_FLIGHT_MAX - 1),
        produced(),
        is_eager=True,
    ).run()
    numbers = [read_header(data).base_sequence for data in scene.sent_data]
    again = numbers.index(0, 1)
    assert again > 1
    assert numbers[again : 2 * again] == numbers[:again]
    assert set(scene.fates) == {ACKED}
