"""What clients are told is held against what is committed."""

import pytest

from esp.records.batch_header import read_header
from esp.simulation.checkers.client_checker import ClientChecker
from esp.simulation.checkers.client_history import Outcome
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.workload.history import History, SentBatch
from tests.unit.simulation.checkers.scenes import KEY, Node, view_of
from tests.unit.storage.helpers import PARTITION, TOPIC_ID, append


class Scene:
    """One partition on one node: what was sent is appended, and committed."""

    def __init__(self, batches=3):
        self.node = Node(1)
        self.data = [append(self.node.log, records=2, size=10 + number) for number in range(batches)]
        self.committed = CommittedLog(PARTITION, TOPIC_ID)
        self.committed.on_high_watermark(view_of(self.node), 0, 2 * batches)
        self.checker = ClientChecker({KEY: self.committed})

    def sent(self, number, *, fate=Outcome.ACKED, acks=-1, is_idempotent=True):
        data = self.data[number]
        return SentBatch(
            topic=PARTITION.topic,
            topic_id=TOPIC_ID,
            partition=PARTITION.partition,
            producer="producer",
            number=number,
            data=data,
            record_count=2,
            crc=read_header(data).crc,
            is_idempotent=is_idempotent,
            acks=acks,
            fate=fate,
            base_offset=2 * number if fate is Outcome.ACKED else None,
        )

    def history(self, *batches):
        return History(lambda _who, _line: None, list(batches))

    def read(self, offset, *batches):
        answer = [(read_header(data), memoryview(data)) for data in batches]
        self.checker.on_read("reader", TOPIC_ID, PARTITION.partition, offset, answer)


def violation(invariant):
    return pytest.raises(ViolationError, match=f"^{invariant} at ")


def other_batch(offset, **batch):
    node = Node(2)
    if offset:
        append(node.log, records=offset)
    return append(node.log, records=2, size=50, **batch)


def test_reader_gets_what_is_committed_from_the_batch_of_its_offset_on():
    scene = Scene()
    scene.read(0, *scene.data)
    scene.read(3, *scene.data[1:])


def test_batch_that_rotted_is_found():
    scene = Scene()
    rotten = bytearray(scene.data[0])
    rotten[-1] ^= 1
    with violation("INV-NO-ROT-SERVED"):
        scene.read(0, rotten)


@pytest.mark.parametrize(("offset", "places"), [(2, (0,)), (0, (1,)), (0, (0, 2)), (0, (0, 0))])
def test_answer_that_does_not_go_on_from_where_it_was_asked_is_found(offset, places):
    scene = Scene()
    with violation("INV-SNAPSHOT-FETCH"):
        scene.read(offset, *(scene.data[place] for place in places))


def test_reading_what_is_not_committed_is_found():
    scene = Scene()
    with violation("INV-READ-COMMITTED-HW"):
        scene.read(6, other_batch(6))


@pytest.mark.parametrize("epoch", [0, 1])
def test_reading_another_batch_than_the_committed_one_is_found(epoch):
    scene = Scene()
    with violation("INV-READ-STABLE"):
        scene.read(0, other_batch(0, epoch=epoch))


def test_nothing_is_asked_of_a_partition_that_is_excused_or_unknown():
    scene = Scene()
    scene.committed.is_excused = True
    scene.read(6, other_batch(6))
    scene.checker.check_history(scene.history())
    ClientChecker({}).on_read("reader", TOPIC_ID, 0, 0, [(read_header(scene.data[1]), memoryview(scene.data[1]))])


def test_acknowledgement_of_all_replicas_must_be_of_something_committed():
    scene = Scene()
    scene.checker.on_ack(scene.sent(1))
    wrong = scene.sent(1)
    wrong.base_offset = 0
    with violation("INV-ACK-DURABLE"):
        scene.checker.on_ack(wrong)
    wrong.acks = 1
    scene.checker.on_ack(wrong)


def test_history_of_which_all_is_committed_is_well():
    scene = Scene()
    scene.checker.check_history(scene.history(*(scene.sent(number) for number in range(3))))


def test_two_batches_may_have_one_checksum():
    scene = Scene()
    sent = [scene.sent(number) for number in range(3)]
    sent[2].crc = sent[0].crc
    scene.committed.batches[4] = scene.committed.batches[4]._replace(crc=sent[0].crc)
    scene.checker.check_history(scene.history(*sent))
    del scene.committed.batches[0]
    with violation("INV-CLIENT-HISTORY"):
        scene.checker.check_history(scene.history(*sent))


def test_batch_of_unknown_fate_may_be_there_or_not():
    scene = Scene(batches=2)
    scene.data.append(other_batch(4))
    sent = [scene.sent(number, fate=Outcome.UNKNOWN) for number in range(3)]
    scene.checker.check_history(scene.history(*sent))


def test_acknowledged_batch_that_is_nowhere_is_found():
    scene = Scene(batches=2)
    scene.data.append(other_batch(4))
    with violation("INV-CLIENT-HISTORY"):
        scene.checker.check_history(scene.history(*(scene.sent(number) for number in range(3))))


def test_leaders_word_alone_promises_nothing():
    scene = Scene(batches=2)
    scene.data.append(other_batch(4))
    sent = [scene.sent(number, acks=1 if number == 2 else -1) for number in range(3)]
    scene.checker.check_history(scene.history(*sent))


def test_committed_batch_that_nobody_sent_is_found():
    scene = Scene()
    with violation("INV-CLIENT-HISTORY"):
        scene.checker.check_history(scene.history(scene.sent(0), scene.sent(1)))


def test_batch_that_was_refused_for_good_and_is_there_is_found():
    scene = Scene()
    sent = [scene.sent(0), scene.sent(1), scene.sent(2, fate=Outcome.REFUSED, is_idempotent=False)]
    with violation("INV-NOT-ENOUGH"):
        scene.checker.check_history(scene.history(*sent))
